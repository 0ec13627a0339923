package model

import (
	"errors"
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Readiness returns the reason and message of a Model's Ready condition. err is the error of creating its driver, or a
// *KeyError.
func Readiness(err error) (reason, message string) {
	if err == nil {
		return v1alpha1.ReasonReady, "The Model can be called."
	}
	var key *KeyError
	if errors.As(err, &key) {
		return key.Reason, key.Problem
	}
	var unavailable *UnavailableError
	if errors.As(err, &unavailable) {
		err = unavailable.Cause
	}
	return v1alpha1.ReasonModelNotReady, fmt.Sprintf("The Model cannot be called: %v.", err)
}

// Lent reports whether calls of a Model use a Secret, a Service or certificates of its namespace, which its author has
// to be allowed to use.
func Lent(m *v1alpha1.Model) bool {
	return m.Spec.SecretKeyRef != nil || m.Spec.ServiceRef != nil || m.Spec.CABundle != nil
}

// NeedsKey reports whether a reason of the Ready condition means that the Model lacks its API key or its certificates,
// which another object or a role fixes, and no other spec.
func NeedsKey(reason string) bool {
	switch reason {
	case v1alpha1.ReasonSecretMissing, v1alpha1.ReasonSecretKeyMissing, v1alpha1.ReasonSecretUnusable,
		v1alpha1.ReasonRoleMissing, v1alpha1.ReasonCABundleMissing, v1alpha1.ReasonCABundleUnusable:
		return true
	default:
		return false
	}
}
