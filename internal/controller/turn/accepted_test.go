package turn

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// freezeResults makes the watch of ToolResults stop: the cache keeps showing those of now.
func freezeResults(w *world) {
	frozen := &v1alpha1.ToolResultList{}
	if err := w.client.List(w.t.Context(), frozen, client.InNamespace(testNamespace)); err != nil {
		w.t.Fatal(err)
	}
	w.hooks.List = func(
		ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption,
	) error {
		if results, ok := list.(*v1alpha1.ToolResultList); ok {
			frozen.DeepCopyInto(results)
			return nil
		}
		return c.List(ctx, list, options...)
	}
}

// countAccepting counts the writes that accept ToolResults.
func countAccepting(w *world) *int {
	writes := new(int)
	w.hooks.SubResourcePatch = func(
		ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch,
		options ...client.SubResourcePatchOption,
	) error {
		if _, ok := o.(*v1alpha1.ToolResult); ok {
			*writes++
		}
		return c.SubResource(sub).Patch(ctx, o, patch, options...)
	}
	return writes
}

// approval approves the first call of a tool.
func (w *world) approval(name string) *v1alpha1.ToolResult {
	w.t.Helper()
	return w.decision(name, v1alpha1.DecisionApprove)
}

// decision decides about the first call of a tool.
func (w *world) decision(name string, decision v1alpha1.Decision) *v1alpha1.ToolResult {
	w.t.Helper()
	call := w.call(name)
	given := &v1alpha1.ToolResult{Spec: v1alpha1.ToolResultSpec{
		TurnRef: v1alpha1.TurnReference{Name: turnName, UID: w.turn().UID}, CallID: call.ID, CallDigest: call.CallDigest,
		Decision: decision,
	}}
	given.Name = "decision-" + name
	w.create(given)
	return given
}

func (w *world) expectAccepted(result *v1alpha1.ToolResult) {
	w.t.Helper()
	key := types.NamespacedName{Namespace: testNamespace, Name: result.Name}
	if err := w.client.Get(w.t.Context(), key, result); err != nil {
		w.t.Fatal(err)
	}
	c := meta.FindStatusCondition(result.Status.Conditions, v1alpha1.ConditionAccepted)
	if c == nil || c.Reason != v1alpha1.ReasonAccepted {
		w.t.Errorf("ToolResult %s has the condition %+v", result.Name, c)
	}
}

func guardedTool(name string) *v1alpha1.Tool {
	guarded := builder.JobTool(name, v1alpha1.SideEffectAtMostOnce).Obj()
	guarded.Spec.Policy = v1alpha1.ToolPolicyRequiresApproval
	return guarded
}

// The call starts although the watch of ToolResults does not show yet that its approval was accepted.
func TestAnApprovedCallStartsWhileTheWatchOfToolResultsLags(t *testing.T) {
	for name, test := range map[string]struct {
		// restarts reports whether another process leads once the approval was accepted.
		restarts bool
		writes   int
	}{
		"the same process": {writes: 1},
		"a new process":    {restarts: true, writes: 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.begin(guardedTool("pay"), builder.ClientTool("human").Obj())
			writes := countAccepting(w)
			m := w.manager(0)
			m.until("the wait", w.shows("pay", v1alpha1.ToolCallStateWaiting))
			decision := w.approval("pay")
			freezeResults(w)
			m = w.manager(0)
			if test.restarts {
				m.until("the approval", func() bool { return *writes > 0 })
				m = w.manager(0)
			}
			for range 12 {
				_, err := m.pass()
				if err != nil {
					t.Errorf("a pass failed: %v", err)
				}
				w.play()
				w.sleep(time.Second)
			}
			if got := w.starts("pay"); got != 1 {
				t.Errorf("it was started %d times", got)
			}
			if *writes != test.writes {
				t.Errorf("%d writes to ToolResults, want %d", *writes, test.writes)
			}
			w.expectAccepted(decision)
		})
	}
}

// A client that changes its ToolResult meanwhile neither stops the call nor keeps the ToolResult from being accepted.
func TestAToolResultThatWasChangedMeanwhileIsAccepted(t *testing.T) {
	w := newWorld(t)
	w.begin(guardedTool("pay"), builder.ClientTool("human").Obj())
	m := w.manager(0)
	m.until("the wait", w.shows("pay", v1alpha1.ToolCallStateWaiting))
	decision := w.approval("pay")
	freezeResults(w)
	w.change(decision, func() { decision.Labels = map[string]string{"seen": "yes"} })
	m = w.manager(0)
	m.until("the call", func() bool { return w.starts("pay") == 1 })
	w.expectAccepted(decision)
	if decision.Labels["seen"] != "yes" {
		t.Error("the change was lost")
	}
}
