package model

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

func TestTimeoutsOfAModel(t *testing.T) {
	const s = time.Second
	effort := func(e v1alpha1.ReasoningEffort) *v1alpha1.ModelParameters {
		return &v1alpha1.ModelParameters{ReasoningEffort: e}
	}
	given := &v1alpha1.ModelTimeouts{FirstContent: &metav1.Duration{Duration: 3 * s}, Call: &metav1.Duration{Duration: 5 * s}}
	for name, test := range map[string]struct {
		spec    v1alpha1.ModelSpec
		want    Timeouts
		bounded bool
	}{
		"defaults":            {v1alpha1.ModelSpec{Provider: v1alpha1.ProviderOpenAI}, Timeouts{120 * s, 120 * s, 1800 * s}, true},
		"reasoning":           {v1alpha1.ModelSpec{Parameters: effort(v1alpha1.ReasoningLow)}, Timeouts{600 * s, 120 * s, 1800 * s}, true},
		"no reasoning":        {v1alpha1.ModelSpec{Parameters: effort(v1alpha1.ReasoningNone)}, Timeouts{120 * s, 120 * s, 1800 * s}, true},
		"given":               {v1alpha1.ModelSpec{Parameters: effort(v1alpha1.ReasoningLow), Timeouts: given}, Timeouts{3 * s, 120 * s, 5 * s}, true},
		"a model by a script": {v1alpha1.ModelSpec{Provider: v1alpha1.ProviderSimulated}, Timeouts{}, false},
	} {
		if got, bounded := TimeoutsOf(&v1alpha1.Model{Spec: test.spec}); got != test.want || bounded != test.bounded {
			t.Errorf("%s: %v, %t; want %v, %t", name, got, bounded, test.want, test.bounded)
		}
	}
}
