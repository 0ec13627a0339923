// Package drivers has the drivers of all model providers.
package drivers

import (
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/anthropic"
	"github.com/capstan-dev/capstan/internal/runtime/model/google"
	"github.com/capstan-dev/capstan/internal/runtime/model/openai"
	"github.com/capstan-dev/capstan/internal/runtime/model/simulator"
)

// All are the providers that there are (MODEL-03). The caller may change what it is given.
func All() model.Registry {
	return model.Registry{
		v1alpha1.ProviderSimulated: simulator.Factory,
		v1alpha1.ProviderAnthropic: func(m *v1alpha1.Model, access model.Access) (model.Driver, error) {
			return anthropic.New(anthropic.Options{HTTP: access.HTTP, BaseURL: m.Spec.BaseURL, Key: access.Key, Parameters: parameters(m)})
		},
		v1alpha1.ProviderOpenAI: func(m *v1alpha1.Model, access model.Access) (model.Driver, error) {
			return openai.New(openai.Options{HTTP: access.HTTP, BaseURL: m.Spec.BaseURL, Key: access.Key, Parameters: parameters(m)})
		},
		v1alpha1.ProviderGoogle: func(m *v1alpha1.Model, access model.Access) (model.Driver, error) {
			return google.New(google.Options{HTTP: access.HTTP, BaseURL: m.Spec.BaseURL, Key: access.Key, Parameters: parameters(m)})
		},
	}
}

// parameters are those of a Model; the zero value leaves all to the provider.
func parameters(m *v1alpha1.Model) v1alpha1.ModelParameters {
	if m.Spec.Parameters == nil {
		return v1alpha1.ModelParameters{}
	}
	return *m.Spec.Parameters
}
