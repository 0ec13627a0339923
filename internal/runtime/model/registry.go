package model

import (
	"fmt"
	"net/http"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Access is how a driver reaches its provider.
type Access struct {
	// HTTP sends every request of the driver. It reaches the host of Endpoint and no other.
	HTTP *http.Client
	// Key of the provider's API. It must not get into errors, logs or answers.
	Key string
}

// Factory makes the driver of a Model. It makes no call to the provider. Drivers of providers without a network need no
// access.
type Factory func(m *v1alpha1.Model, access Access) (Driver, error)

// Registry holds the factories by provider (MODEL-03). It must not change once it is in use.
type Registry map[v1alpha1.ModelProvider]Factory

// Driver makes the driver of a Model. The error is an *UnavailableError when it cannot.
func (r Registry) Driver(m *v1alpha1.Model, access Access) (Driver, error) {
	if LeftOut(m) {
		panic("Model " + m.Name + " is used before its script is read")
	}
	factory := r[m.Spec.Provider]
	if factory == nil {
		return nil, &UnavailableError{Model: m.Name, Cause: &UnknownProviderError{Provider: m.Spec.Provider}}
	}
	driver, err := factory(m, access)
	if err != nil {
		return nil, &UnavailableError{Model: m.Name, Cause: err}
	}
	return driver, nil
}

// Check says why a Model can have no driver, whatever its API key; nil when it can have one. Making a driver makes no
// call, so that it needs neither a key that is valid nor a client that reaches anything.
func (r Registry) Check(m *v1alpha1.Model) error {
	_, err := r.Driver(m, Access{HTTP: &http.Client{}, Key: "none"})
	return err
}

// endpoints are where the providers are by themselves. The policy bound-secrets-models knows them as well.
var endpoints = map[v1alpha1.ModelProvider]string{
	v1alpha1.ModelProviderAnthropic: "https://api.anthropic.com",
	v1alpha1.ModelProviderOpenAI:    "https://api.openai.com",
	v1alpha1.ModelProviderGoogle:    "https://generativelanguage.googleapis.com",
}

// Endpoint is a URL with the host that the API key of a Model is sent to: its baseURL, or the provider's own. It is
// empty for a provider without a network.
func Endpoint(m *v1alpha1.Model) string {
	if m.Spec.BaseURL != "" {
		return m.Spec.BaseURL
	}
	return endpoints[m.Spec.Provider]
}

// KeyError says why a Model has no API key to be called with. It classifies as provider_misconfigured (ERR-02).
type KeyError struct {
	// Model is the name of the Model.
	Model string
	// Reason is that of the Ready condition of the Model: one of those that NeedsKey knows.
	Reason string
	// Problem says what is wrong and what to do, and nothing of what a Secret holds.
	Problem string
}

// Error is what the failure is classified by.
func (e *KeyError) Error() string {
	return fmt.Sprintf("configure the API key of Model %q: %s", e.Model, e.Problem)
}

// UnavailableError reports a Model that has no driver. Its text follows ERR-02, which reads the part after the colon as
// the name of the model; the cause is for the Model's own condition and for logs.
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

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error {
	return e.Cause
}

// UnknownProviderError reports a provider that the registry has no factory for.
type UnknownProviderError struct {
	// Provider that the Model names.
	Provider v1alpha1.ModelProvider
}

// Error names the provider and says what to do.
func (e *UnknownProviderError) Error() string {
	return fmt.Sprintf(
		"no driver is registered for provider %q: use another provider, or a manager that registers it at its start",
		e.Provider,
	)
}

// Name is the provider's name of a Model: spec.model, otherwise the name of the object.
func Name(m *v1alpha1.Model) string {
	if m.Spec.Model != "" {
		return m.Spec.Model
	}
	return m.Name
}
