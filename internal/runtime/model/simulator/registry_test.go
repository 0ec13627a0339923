package simulator

import (
	"errors"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

func TestOnlyTheSimulatedProviderHasADriver(t *testing.T) {
	spec := v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderSimulated, Simulation: &v1alpha1.Simulation{}}
	if err := Registry().Check(&v1alpha1.Model{Spec: spec}); err != nil {
		t.Errorf("of a simulated Model: %v", err)
	}
	for _, provider := range model.Providers() {
		err := Registry().Check(&v1alpha1.Model{Spec: v1alpha1.ModelSpec{Provider: provider}})
		var none *NoDriverError
		if !errors.As(err, &none) || none.Provider != provider {
			t.Errorf("of a Model of %s: %v", provider, err)
		}
		if _, message := model.Readiness(err); !strings.Contains(message, "capstantest/providers") {
			t.Errorf("the condition of a Model of %s has no remedy: %s", provider, message)
		}
	}
}
