// Package drivers has the drivers of all model providers.
package drivers

import (
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/anthropic"
	"github.com/capstan-dev/capstan/internal/runtime/model/google"
	"github.com/capstan-dev/capstan/internal/runtime/model/openai"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
	"github.com/capstan-dev/capstan/internal/runtime/model/simulator"
)

// All returns all providers (MODEL-03). The caller may change the result.
func All() model.Registry {
	return model.Registry{
		v1alpha1.ModelProviderSimulated: simulator.Factory,
		v1alpha1.ModelProviderAnthropic: func(m *v1alpha1.Model, access model.Access) (model.Driver, error) {
			return anthropic.New(options(m, access))
		},
		v1alpha1.ModelProviderOpenAI: func(m *v1alpha1.Model, access model.Access) (model.Driver, error) {
			if model.APIOf(m) == v1alpha1.ModelAPIResponses {
				return openai.NewResponses(options(m, access))
			}
			return openai.New(options(m, access))
		},
		v1alpha1.ModelProviderGoogle: func(m *v1alpha1.Model, access model.Access) (model.Driver, error) {
			return google.New(options(m, access))
		},
	}
}

// options are those of a Model's driver. Without parameters, the provider's defaults apply.
func options(m *v1alpha1.Model, access model.Access) provider.Options {
	o := provider.Options{HTTP: access.HTTP, BaseURL: model.BaseURL(m), Key: access.Key}
	if m.Spec.Parameters != nil {
		o.Parameters = *m.Spec.Parameters
	}
	return o
}
