package turn

import (
	"testing"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
)

// TestAPauseBetweenTriesIsInThePlan has a provider that is busy for a while, and restarts the manager in every pause.
func TestAPauseBetweenTriesIsInThePlan(t *testing.T) {
	for name, restarts := range map[string]bool{"in one process": false, "with a restart in every pause": true} {
		t.Run(name, func(t *testing.T) {
			st := newStage(t)
			st.answer = func() (*model.Response, error) {
				if st.asked < 3 {
					return nil, provider.StatusError("Test", "m", 429, 20*time.Second, "")
				}
				return &model.Response{Text: "Hello.", FinishReason: model.FinishStop}, nil
			}
			for try := int32(1); try < 3; try++ {
				pause := st.pass()
				turn := st.turn()
				at := turn.Status.Plan.NotBefore
				if turn.Status.Phase != v1alpha1.TurnPhaseWaiting || turn.Status.Plan.Attempt != try ||
					turn.Status.Plan.Model != "m" ||
					at == nil {
					t.Fatalf("after try %d: phase %s, plan %+v", try, turn.Status.Phase, turn.Status.Plan)
				}
				if w := turn.Status.WaitsFor; len(w) != 1 || w[0].Type != v1alpha1.WaitTypeBackoff || !w[0].Until.Equal(at) ||
					w[0].Message == "" {
					t.Errorf("after try %d it waits for %+v", try, w)
				}
				if n := st.r.Activities.Len() + st.r.Turns.Active(); n != 0 {
					t.Errorf("after try %d it holds %d places", try, n)
				}
				if restarts {
					st.restart()
				}
				version := turn.ResourceVersion
				st.later(19 * time.Second)
				if early := st.pass(); st.asked != int(try) || early > time.Second+time.Millisecond ||
					st.turn().ResourceVersion != version {
					t.Errorf(
						"%d calls, the next pass after %v and %v, version %s after %s",
						st.asked,
						pause,
						early,
						st.turn().ResourceVersion,
						version,
					)
				}
				st.later(time.Second)
			}
			st.pass()
			st.expectSucceeded()
			if turn := st.turn(); st.asked != 3 || turn.Status.WaitsFor != nil || turn.Status.Plan.NotBefore != nil ||
				turn.Status.Plan.Attempt != 0 {
				t.Errorf("%d calls, status %+v", st.asked, turn.Status)
			}
		})
	}
}

func TestATurnIsCancelledInAPauseBetweenTries(t *testing.T) {
	st := newStage(t)
	st.answer = func() (*model.Response, error) { return nil, provider.StatusError("Test", "m", 429, time.Minute, "") }
	st.pass()
	turn := st.turn()
	turn.Spec.DesiredState, turn.Generation = v1alpha1.DesiredStateCancelled, 2
	if err := st.client.Update(t.Context(), turn); err != nil {
		t.Fatal(err)
	}
	st.pass()
	if got := st.turn().Status; got.Phase != v1alpha1.TurnPhaseCancelled || got.WaitsFor != nil {
		t.Errorf("status %+v", got)
	}
}
