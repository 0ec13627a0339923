package model

import (
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Factory makes the driver of a Model. It makes no call to the provider.
type Factory func(m *v1alpha1.Model) (Driver, error)

// Registry holds the factories by provider (MODEL-03). It must not change once it is in use.
type Registry map[v1alpha1.ModelProvider]Factory

// Driver makes the driver of a Model. The error is an *UnavailableError when it cannot.
func (r Registry) Driver(m *v1alpha1.Model) (Driver, error) {
	factory := r[m.Spec.Provider]
	if factory == nil {
		return nil, &UnavailableError{Model: m.Name, Cause: &UnknownProviderError{Provider: m.Spec.Provider}}
	}
	driver, err := factory(m)
	if err != nil {
		return nil, &UnavailableError{Model: m.Name, Cause: err}
	}
	return driver, nil
}

// UnavailableError says that a Model has no driver. Its text is made for ERR-02, which takes all behind the colon for the name of the model;
// the cause is for the Model's own condition and for logs.
type UnavailableError struct {
	// Model is the name of the Model.
	Model string
	// Cause says why.
	Cause error
}

// Error is the text that classifies as model_unavailable (ERR-02).
func (e *UnavailableError) Error() string {
	return "Model not available: " + e.Model
}

// Unwrap gives the cause.
func (e *UnavailableError) Unwrap() error {
	return e.Cause
}

// UnknownProviderError says that the registry has no factory for a provider.
type UnknownProviderError struct {
	// Provider that the Model names.
	Provider v1alpha1.ModelProvider
}

// Error names the provider and says what to do.
func (e *UnknownProviderError) Error() string {
	return fmt.Sprintf("no driver is registered for provider %q: use another provider, or a manager that registers it at its start", e.Provider)
}

// Name is the provider's name of a Model: spec.model, otherwise the name of the object.
func Name(m *v1alpha1.Model) string {
	if m.Spec.Model != "" {
		return m.Spec.Model
	}
	return m.Name
}
