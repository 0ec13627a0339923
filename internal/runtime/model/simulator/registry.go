package simulator

import (
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

// Registry returns the drivers of a test that calls no provider: Models of provider Simulated respond. The SDKs of the
// other providers are not part of the test's program, so that each of their Models has no driver, with the remedy.
func Registry() model.Registry {
	registry := model.Registry{v1alpha1.ModelProviderSimulated: Factory}
	for _, provider := range model.Providers() {
		registry[provider] = func(*v1alpha1.Model, model.Access) (model.Driver, error) {
			return nil, &NoDriverError{Provider: provider}
		}
	}
	return registry
}

// NoDriverError reports a Model of a provider whose driver is not part of the test's program.
type NoDriverError struct {
	// Provider that the Model names.
	Provider v1alpha1.ModelProvider
}

// Error names the provider and the remedy.
func (e *NoDriverError) Error() string {
	return fmt.Sprintf("the test has no driver for provider %q: use provider Simulated, or pass the drivers of package "+
		"capstantest/providers to the kit", e.Provider)
}
