package config

import (
	"reflect"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Rules: CFG-08.
func TestTheLocaleOfAMessageComesBeforeThatOfTheSession(t *testing.T) {
	for name, test := range map[string]struct {
		controls      *v1alpha1.TurnControls
		session, want string
	}{
		"neither":                   {want: ""},
		"the Session's":             {session: "de-CH", want: "de-CH"},
		"controls without a locale": {controls: &v1alpha1.TurnControls{}, session: "de-CH", want: "de-CH"},
		"the message's":             {controls: &v1alpha1.TurnControls{Locale: "fr"}, want: "fr"},
		"the message's before the Session's": {
			controls: &v1alpha1.TurnControls{Locale: "fr"}, session: "de-CH", want: "fr",
		},
		"blanks are none": {
			controls: &v1alpha1.TurnControls{Locale: " \t"}, session: "de-CH", want: "de-CH",
		},
		"blanks around one are not part of it": {
			controls: &v1alpha1.TurnControls{Locale: " fr "}, session: "de-CH", want: "fr",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Locale(test.controls, test.session); got != test.want {
				t.Errorf("Locale = %q, want %q", got, test.want)
			}
		})
	}
}

// Rules: CFG-09, LLM-06.
func TestTheEffortOfAMessageComesBeforeThatOfTheModel(t *testing.T) {
	limit := int32(7)
	own := &v1alpha1.ModelParameters{MaxOutputTokens: &limit, ReasoningEffort: v1alpha1.ReasoningEffortLow}
	high := &v1alpha1.TurnControls{ReasoningEffort: v1alpha1.ReasoningEffortHigh}
	for name, test := range map[string]struct {
		controls   *v1alpha1.TurnControls
		parameters *v1alpha1.ModelParameters
		want       *v1alpha1.ModelParameters
	}{
		"neither":          {nil, nil, nil},
		"the Model's":      {nil, own, own},
		"controls without": {&v1alpha1.TurnControls{Locale: "fr"}, own, own},
		"the message's":    {high, nil, &v1alpha1.ModelParameters{ReasoningEffort: v1alpha1.ReasoningEffortHigh}},
		"both": {
			high, own, &v1alpha1.ModelParameters{MaxOutputTokens: &limit, ReasoningEffort: v1alpha1.ReasoningEffortHigh},
		},
		"none comes before": {
			&v1alpha1.TurnControls{ReasoningEffort: v1alpha1.ReasoningEffortNone}, own,
			&v1alpha1.ModelParameters{MaxOutputTokens: &limit, ReasoningEffort: v1alpha1.ReasoningEffortNone},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := &v1alpha1.Model{Spec: v1alpha1.ModelSpec{Parameters: test.parameters}}
			if got := Tuned(m, test.controls); !reflect.DeepEqual(got.Spec.Parameters, test.want) || got == m {
				t.Errorf("the parameters are %+v, want %+v", got.Spec.Parameters, test.want)
			}
			if own.ReasoningEffort != v1alpha1.ReasoningEffortLow || m.Spec.Parameters != test.parameters {
				t.Error("the Model has changed")
			}
		})
	}
}
