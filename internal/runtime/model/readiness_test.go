package model_test

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/simulator"
)

func TestReadinessOfAModel(t *testing.T) {
	registry := model.Registry{
		v1alpha1.ModelProviderSimulated: simulator.Factory,
		"Broken": func(*v1alpha1.Model, model.Access) (model.Driver, error) {
			return nil, errors.New("the address is not valid")
		},
	}
	for name, test := range map[string]struct {
		spec    v1alpha1.ModelSpec
		reason  string
		message string
	}{
		"a driver can be made": {
			spec:   v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderSimulated, Simulation: &v1alpha1.Simulation{}},
			reason: v1alpha1.ReasonReady,
		},
		"no script": {
			spec: v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderSimulated}, reason: v1alpha1.ReasonModelNotReady,
			message: "spec.simulation",
		},
		"an unknown provider": {
			spec: v1alpha1.ModelSpec{Provider: "Unheard"}, reason: v1alpha1.ReasonModelNotReady, message: `"Unheard"`,
		},
		"the factory fails": {
			spec: v1alpha1.ModelSpec{Provider: "Broken"}, reason: v1alpha1.ReasonModelNotReady,
			message: "the address is not valid",
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := registry.Check(&v1alpha1.Model{ObjectMeta: metav1.ObjectMeta{Name: "some"}, Spec: test.spec})
			reason, message := model.Readiness(err)
			if reason != test.reason || message == "" || !strings.Contains(message, test.message) {
				t.Errorf("Readiness = %s, %q, want %s with %s", reason, message, test.reason, test.message)
			}
		})
	}
}
