package turn

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

// An entry of a later version may be a claim, or the end of the step: as long as it cannot be read, no model is called
// and no tool is started.
func TestATurnOnAJournalOfALaterVersionExecutesNothing(t *testing.T) {
	for name, phase := range map[string]v1alpha1.PlanPhase{
		"in a reason step": v1alpha1.PlanPhaseReason, "in an act step": v1alpha1.PlanPhaseAct,
	} {
		t.Run(name, func(t *testing.T) {
			st := newStage(t)
			later := &v1alpha1.JournalEntrySpec{Session: "demo", Ordinal: 1, Format: journal.Format + 1, Final: true}
			of := journal.Session{Namespace: "ns", Name: "demo", UID: "session-uid"}
			if err := st.store.Store.Create(t.Context(), of, later); err != nil {
				t.Fatal(err)
			}
			st.begin(1)
			turn := st.turn()
			turn.Status.Plan.Phase = phase
			if phase == v1alpha1.PlanPhaseAct {
				turn.Status.ToolCalls = []v1alpha1.ToolCall{{
					ID: "1-0", Name: "look", Executor: v1alpha1.ToolExecutorJob, SideEffect: v1alpha1.SideEffectPure,
					State: v1alpha1.ToolCallStatePending, Attempt: 1,
				}}
			}
			if err := st.client.Status().Update(t.Context(), turn); err != nil {
				t.Fatal(err)
			}
			for range 5 {
				pause := st.pass()
				st.expectStalled(v1alpha1.ReasonJournalFormatUnsupported, "Upgrade the manager")
				st.later(pause)
			}
			jobs := &batchv1.JobList{}
			if err := st.client.List(t.Context(), jobs); err != nil {
				t.Fatal(err)
			}
			if st.asked > 0 || st.store.creates > 0 || len(jobs.Items) > 0 {
				t.Errorf("%d model calls, %d entries, %d Jobs", st.asked, st.store.creates, len(jobs.Items))
			}
			if call := st.turn().Status.ToolCalls; len(call) > 0 && call[0].State != v1alpha1.ToolCallStatePending {
				t.Errorf("the call is %+v", call[0])
			}
		})
	}
}
