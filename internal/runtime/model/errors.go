package model

import (
	"errors"
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Coded is an error of a known kind. Its text is for people: programs read the code.
type Coded interface {
	error
	// ErrorCode is the code of a Turn that fails with the error.
	ErrorCode() v1alpha1.ErrorCode
}

// CodeOf returns the code of the first Coded error in the tree of err; processing_error if there is none.
func CodeOf(err error) v1alpha1.ErrorCode {
	var coded Coded
	if errors.As(err, &coded) {
		return coded.ErrorCode()
	}
	return v1alpha1.ErrorCodeProcessingError
}

// Error is an error with a code, for drivers that have no type of their own.
type Error struct {
	// Code of a Turn that fails with the error; processing_error if it is empty.
	Code v1alpha1.ErrorCode
	// Text is for people.
	Text string
}

// Error implements error.
func (e *Error) Error() string { return e.Text }

// ErrorCode implements Coded.
func (e *Error) ErrorCode() v1alpha1.ErrorCode {
	if e.Code == "" {
		return v1alpha1.ErrorCodeProcessingError
	}
	return e.Code
}

// KeyError is why a Model has no API key to be called with.
type KeyError struct {
	// Model is the name of the Model.
	Model string
	// Reason is that of the Ready condition of the Model: one of those that NeedsKey knows.
	Reason string
	// Problem has the problem and its remedy, and nothing of the content of a Secret.
	Problem string
}

// Error implements error.
func (e *KeyError) Error() string {
	return fmt.Sprintf("configure the API key of Model %q: %s", e.Model, e.Problem)
}

// ErrorCode implements Coded.
func (e *KeyError) ErrorCode() v1alpha1.ErrorCode { return v1alpha1.ErrorCodeProviderMisconfigured }

// UnavailableError reports a Model that has no driver. The cause is for the Model's own condition and for logs.
type UnavailableError struct {
	// Model is the name of the Model.
	Model string
	// Cause is why.
	Cause error
}

// Error implements error.
func (e *UnavailableError) Error() string {
	return fmt.Sprintf("Model %q is not available", e.Model)
}

// ErrorCode implements Coded.
func (e *UnavailableError) ErrorCode() v1alpha1.ErrorCode { return v1alpha1.ErrorCodeModelUnavailable }

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error {
	return e.Cause
}

// UnknownProviderError reports a provider that the registry has no factory for.
type UnknownProviderError struct {
	// Provider that the Model names.
	Provider v1alpha1.ModelProvider
}

// Error names the provider and the remedy.
func (e *UnknownProviderError) Error() string {
	return fmt.Sprintf(
		"no driver is registered for provider %q: change spec.provider, or use a manager that supports it",
		e.Provider,
	)
}
