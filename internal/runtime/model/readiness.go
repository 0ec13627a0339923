package model

import (
	"errors"
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Readiness says whether a Model can be called, as reason and message of its Ready condition. driverErr is what making its driver gave.
func Readiness(driverErr error) (reason, message string) {
	if driverErr == nil {
		return v1alpha1.ReasonReady, "The Model can be called."
	}
	var unavailable *UnavailableError
	if errors.As(driverErr, &unavailable) {
		driverErr = unavailable.Cause
	}
	return v1alpha1.ReasonModelNotReady, fmt.Sprintf("The Model cannot be called: %v.", driverErr)
}
