package turn

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// TestAJobThatDoesSomethingElseThanWasPlannedEndsTheTurn covers DUR-05: a Job with the call's name and owner has other
// arguments. Rules: VEC-22.
func TestAJobThatDoesSomethingElseThanWasPlannedEndsTheTurn(t *testing.T) {
	for _, class := range []v1alpha1.SideEffect{
		v1alpha1.SideEffectPure, v1alpha1.SideEffectIdempotent, v1alpha1.SideEffectAtMostOnce,
	} {
		t.Run(string(class), func(t *testing.T) {
			w := newWorld(t).begin(builder.JobTool("work", class).Obj())
			m := w.manager(0)
			m.withoutCluster("the Job", func() bool { return w.jobOf("work") != nil })
			job := w.jobOf("work")
			before := job.DeepCopy()
			job.Annotations[v1alpha1.AnnotationFingerprint] = strings.Repeat("0", 64)
			if err := w.client.Patch(t.Context(), job, client.MergeFrom(before)); err != nil {
				t.Fatal(err)
			}
			m.until("the end", w.finished)
			turn := w.turn()
			if e := turn.Status.Error; turn.Status.Phase != v1alpha1.TurnPhaseFailed || e == nil ||
				e.Fields["violation"] != "determinism" ||
				e.Fields["call"] != "1-0" ||
				e.Fields["job"] != before.Name {
				t.Errorf("phase %s, error %+v", turn.Status.Phase, turn.Status.Error)
			}
			if len(w.asked) != 1 || w.starts("work") > 1 {
				t.Errorf("the model was called %d times, the tool started %d times", len(w.asked), w.starts("work"))
			}
		})
	}
}

func TestATurnOnAnInheritedHarnessRunsWithAllLayersInOrder(t *testing.T) {
	w := newWorld(t)
	root := &v1alpha1.Harness{}
	root.Name, root.Spec.SystemPrompt, root.Spec.Tools = "root", "Be brief.", []v1alpha1.LocalReference{{Name: "work"}}
	w.create(root)
	w.create(builder.JobTool("work", v1alpha1.SideEffectPure).Obj())
	w.begin(builder.JobTool("look", v1alpha1.SideEffectPure).Obj())
	w.calls = []string{"work", "look"}
	leaf := &v1alpha1.Harness{}
	leaf.Name, leaf.Namespace = "base", testNamespace
	w.change(leaf, func() {
		leaf.Spec.ParentRef, leaf.Spec.SystemPrompt = &v1alpha1.LocalReference{Name: "root"}, "Be kind."
	})

	w.manager(0).until("the end", w.finished)
	if turn := w.turn(); turn.Status.Phase != v1alpha1.TurnPhaseSucceeded {
		t.Fatalf("the Turn ended as %+v", turn.Status)
	}
	for _, r := range w.asked {
		var tools []string
		for _, definition := range r.Tools {
			tools = append(tools, definition.Name)
		}
		if strings.Join(tools, " ") != "work look" || !strings.HasPrefix(r.SystemPrompt, "Be brief.\n\nBe kind.") {
			t.Errorf("the model is given the tools %v and the prompt %q", tools, r.SystemPrompt)
		}
	}
	if w.starts("work") != 1 || w.starts("look") != 1 || len(w.asked) != 2 {
		t.Errorf(
			"work was started %d times, look %d times, the model called %d times",
			w.starts("work"),
			w.starts("look"),
			len(w.asked),
		)
	}
}
