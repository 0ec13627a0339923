package model

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// reasoner is a driver whose model reasons, or does not.
type reasoner bool

func (r reasoner) Reasons(Request) bool { return bool(r) }

func (reasoner) Generate(context.Context, Request) (*Response, error) { return nil, nil }

// Rules: HB-02.
func TestTimeoutsOfAModel(t *testing.T) {
	const s = time.Second
	effort := func(e v1alpha1.ReasoningEffort) *v1alpha1.ModelParameters {
		return &v1alpha1.ModelParameters{ReasoningEffort: e}
	}
	given := &v1alpha1.ModelTimeouts{
		FirstContent: &metav1.Duration{Duration: 3 * s},
		Call:         &metav1.Duration{Duration: 5 * s},
	}
	for name, test := range map[string]struct {
		spec    v1alpha1.ModelSpec
		driver  Driver
		want    Timeouts
		bounded bool
	}{
		"defaults": {
			v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderOpenAI}, nil, Timeouts{120 * s, 120 * s, 1800 * s}, true,
		},
		"reasoning": {
			v1alpha1.ModelSpec{Parameters: effort(v1alpha1.ReasoningEffortLow)},
			reasoner(false),
			Timeouts{600 * s, 120 * s, 1800 * s},
			true,
		},
		"no reasoning": {
			v1alpha1.ModelSpec{Parameters: effort(v1alpha1.ReasoningEffortNone)},
			reasoner(false),
			Timeouts{120 * s, 120 * s, 1800 * s},
			true,
		},
		"without a request": {
			v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderOpenAI},
			reasoner(true),
			Timeouts{600 * s, 120 * s, 1800 * s},
			true,
		},
		"although it is turned off": {
			v1alpha1.ModelSpec{Parameters: effort(v1alpha1.ReasoningEffortNone)},
			reasoner(true),
			Timeouts{600 * s, 120 * s, 1800 * s},
			true,
		},
		"given": {
			v1alpha1.ModelSpec{Parameters: effort(v1alpha1.ReasoningEffortLow), Timeouts: given},
			reasoner(true),
			Timeouts{3 * s, 120 * s, 5 * s},
			true,
		},
		"a model by a script": {v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderSimulated}, nil, Timeouts{}, false},
	} {
		if got, bounded := TimeoutsOf(
			&v1alpha1.Model{Spec: test.spec},
			test.driver,
			Request{},
		); got != test.want ||
			bounded != test.bounded {
			t.Errorf("%s: %v, %t; want %v, %t", name, got, bounded, test.want, test.bounded)
		}
	}
}
