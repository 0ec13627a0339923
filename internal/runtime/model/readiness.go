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

// NeedsKey reports whether a reason of the Ready condition means that the Model has no API key, which another Secret or
// role fixes, and no other spec.
func NeedsKey(reason string) bool {
	switch reason {
	case v1alpha1.ReasonSecretMissing, v1alpha1.ReasonSecretKeyMissing, v1alpha1.ReasonSecretUnusable,
		v1alpha1.ReasonRoleMissing:
		return true
	default:
		return false
	}
}
