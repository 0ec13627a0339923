package utility

import (
	"testing"

	"k8s.io/utils/ptr"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Rules: SVC-01.
func TestTheConfigurationNamesAModel(t *testing.T) {
	if name, err := Parse(`{"modelRef":{"name":"small"}}`); err != nil || name != "small" {
		t.Errorf("%q, %v", name, err)
	}
	for _, config := range []string{"", "{}", `{"modelRef":{}}`, `{"modelRef":1}`} {
		if name, err := Parse(config); err == nil {
			t.Errorf("%s names %q", config, name)
		}
	}
}

// Rules: SVC-01.
func TestAModelReasonsLittleForACapability(t *testing.T) {
	for effort, want := range map[v1alpha1.ReasoningEffort]v1alpha1.ReasoningEffort{
		"": "", v1alpha1.ReasoningEffortNone: v1alpha1.ReasoningEffortNone,
		v1alpha1.ReasoningEffortHigh: v1alpha1.ReasoningEffortLow,
	} {
		m := &v1alpha1.Model{Spec: v1alpha1.ModelSpec{
			Recovery:   v1alpha1.ModelRecoveryFinalize,
			Parameters: &v1alpha1.ModelParameters{ReasoningEffort: effort, MaxOutputTokens: ptr.To[int32](5)},
		}}
		tuned := Tuned(m)
		if got := tuned.Spec.Parameters.ReasoningEffort; got != want {
			t.Errorf("%q becomes %q", effort, got)
		}
		if tuned.Spec.Recovery != v1alpha1.ModelRecoveryRestart || *tuned.Spec.Parameters.MaxOutputTokens != 5 {
			t.Errorf("%+v", tuned.Spec)
		}
		if m.Spec.Parameters.ReasoningEffort != effort || m.Spec.Recovery != v1alpha1.ModelRecoveryFinalize {
			t.Error("the Model itself was changed")
		}
	}
}
