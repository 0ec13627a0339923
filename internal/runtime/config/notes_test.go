package config

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// asDefault gives a Model the annotation of the default.
func asDefault(m v1alpha1.Model) v1alpha1.Model {
	m.Annotations = map[string]string{v1alpha1.AnnotationDefaultModel: "true"}
	return m
}

// keyless is a Model whose condition reports why it has no API key.
func keyless(name string, fallbacks ...string) v1alpha1.Model {
	m := someModel(name, metav1.ConditionFalse, fallbacks...)
	m.Status.Conditions[0].Reason, m.Status.Conditions[0].Message = v1alpha1.ReasonSecretMissing, "Create it."
	return m
}

func TestSeveralDefaultsAndCallsOfFallbacksAreNoted(t *testing.T) {
	for name, test := range map[string]struct {
		modelRef string
		models   []v1alpha1.Model
		want     []string
	}{
		"one default": {
			models: []v1alpha1.Model{asDefault(someModel("a", metav1.ConditionTrue)), someModel("b", metav1.ConditionTrue)},
		},
		"no default": {models: []v1alpha1.Model{someModel("a", metav1.ConditionTrue)}},
		"a named Model": {
			modelRef: "b",
			models: []v1alpha1.Model{
				asDefault(someModel("a", metav1.ConditionTrue)), asDefault(someModel("b", metav1.ConditionTrue)),
			},
		},
		"two defaults": {
			models: []v1alpha1.Model{
				asDefault(someModel("b", metav1.ConditionTrue)), asDefault(someModel("a", metav1.ConditionTrue)),
			},
			want: []string{`Model "a" is the default`, `another one is "b"`},
		},
		"a fallback serves": {
			modelRef: "a", models: []v1alpha1.Model{keyless("a", "b"), someModel("b", metav1.ConditionTrue)},
			want: []string{`Fallback "b" is called in place of Model "a"`, "(SecretMissing). Create it."},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Resolved{Models: test.models, Effective: Effective{ModelRef: test.modelRef}}
			got := strings.Join(r.Notes(), " ")
			if (got == "") != (len(test.want) == 0) {
				t.Errorf("the notes are %q", got)
			}
			for _, want := range test.want {
				if !strings.Contains(got, want) {
					t.Errorf("the notes are %q, want %q in them", got, want)
				}
			}
		})
	}
}

// Rules: BLK-01.
func TestAnArchivedHarnessOrAgentIsNoted(t *testing.T) {
	harness, agent := &v1alpha1.Harness{}, &v1alpha1.Agent{}
	old, gone := harness.DeepCopy(), agent.DeepCopy()
	old.Spec.Lifecycle, gone.Spec.Lifecycle = v1alpha1.LifecycleArchived, v1alpha1.LifecycleArchived
	for name, test := range map[string]struct {
		resolved Resolved
		want     string
	}{
		"neither":     {Resolved{HarnessName: "base", Harness: harness, AgentName: "ann", Agent: agent}, ""},
		"the Harness": {Resolved{HarnessName: "base", Harness: old}, `Harness "base" is archived`},
		"the Agent": {
			Resolved{HarnessName: "base", Harness: harness, AgentName: "ann", Agent: gone}, `Agent "ann" is archived`,
		},
		"a Harness that does not exist": {Resolved{HarnessName: "base"}, ""},
	} {
		got := strings.Join(test.resolved.Notes(), " ")
		if !strings.HasPrefix(got, test.want) || (got == "") != (test.want == "") {
			t.Errorf("%s: the notes are %q, want %q", name, got, test.want)
		}
	}
}

func TestAModelThatHasNoKeyHoldsUpASessionUnlessAFallbackCanBeCalled(t *testing.T) {
	for name, test := range map[string]struct {
		effective Effective
		models    []v1alpha1.Model
		reason    string
	}{
		"named":       {Effective{ModelRef: "a"}, []v1alpha1.Model{keyless("a")}, v1alpha1.ReasonModelNotReady},
		"the default": {Effective{}, []v1alpha1.Model{asDefault(keyless("a"))}, v1alpha1.ReasonModelNotReady},
		"no fallback has one": {
			Effective{ModelRef: "a"}, []v1alpha1.Model{keyless("a", "b"), keyless("b")}, v1alpha1.ReasonModelNotReady,
		},
		"a fallback has one": {
			Effective{ModelRef: "a"},
			[]v1alpha1.Model{keyless("a", "b", "c"), keyless("b"), someModel("c", metav1.ConditionTrue)},
			"",
		},
		"only a fallback has none": {
			Effective{ModelRef: "c"}, []v1alpha1.Model{keyless("a"), someModel("c", metav1.ConditionTrue, "a")}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Resolved{Harness: &v1alpha1.Harness{}, Effective: test.effective, Models: test.models}
			reason, message := r.Problem()
			if reason != test.reason ||
				(reason != "") != strings.Contains(message, `Model "a" is not ready (SecretMissing). Create it.`) {
				t.Errorf("Problem = %q, %q, want reason %q", reason, message, test.reason)
			}
		})
	}
}

// Rules: CFG-07.
func TestAModelOfControlsThatDoesNotExistIsReported(t *testing.T) {
	r := &Resolved{Models: []v1alpha1.Model{someModel("a", metav1.ConditionTrue)}}
	for name, want := range map[string]string{"a": "", "gone": "gone"} {
		if got := r.ModelNotFound(&v1alpha1.TurnControls{ModelRef: &v1alpha1.LocalReference{Name: name}}); got != want {
			t.Errorf("controls that name %q: got %q, want %q", name, got, want)
		}
	}
	if r.ModelNotFound(nil) != "" || r.ModelNotFound(&v1alpha1.TurnControls{}) != "" {
		t.Error("controls that name none: one was not found")
	}
}
