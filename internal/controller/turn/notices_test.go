package turn

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/notice"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
)

// recordedEvents collects the recorded Events.
type recordedEvents struct{ notes []string }

func (s *recordedEvents) Eventf(_, _ runtime.Object, kind, reason, action, note string, args ...any) {
	s.notes = append(s.notes, kind+" "+reason+" "+action+": "+fmt.Sprintf(note, args...))
}

func TestWhichTurnsHaveEvents(t *testing.T) {
	at := func(phase v1alpha1.TurnPhase, reason string, calls ...v1alpha1.ToolCall) *v1alpha1.Turn {
		turn := &v1alpha1.Turn{}
		turn.Status.Phase, turn.Status.ToolCalls = phase, calls
		finished := metav1.ConditionFalse
		if reason != "" {
			finished = metav1.ConditionTrue
		}
		condition.Set(
			&turn.Status.Conditions,
			1,
			metav1.Now(),
			v1alpha1.ConditionSucceeded,
			metav1.ConditionUnknown,
			reason,
			"the user's own words",
		)
		condition.Set(&turn.Status.Conditions, 1, metav1.Now(), v1alpha1.ConditionFinished, finished, "Finished", "")
		return turn
	}
	ask := v1alpha1.ToolCall{
		ID:        "1-0",
		Name:      "ask",
		Executor:  v1alpha1.ToolExecutorClient,
		State:     v1alpha1.ToolCallStateWaiting,
		Arguments: "secret",
	}
	more := v1alpha1.ToolCall{
		ID:       "1-2",
		Name:     "ask",
		Executor: v1alpha1.ToolExecutorClient,
		State:    v1alpha1.ToolCallStateWaiting,
	}
	pay := v1alpha1.ToolCall{
		ID:        "1-1",
		Name:      "pay",
		Executor:  v1alpha1.ToolExecutorJob,
		Policy:    v1alpha1.ToolPolicyRequiresApproval,
		State:     v1alpha1.ToolCallStateWaiting,
		Arguments: "secret",
	}
	job := v1alpha1.ToolCall{
		ID:       "1-3",
		Name:     "work",
		Executor: v1alpha1.ToolExecutorJob,
		State:    v1alpha1.ToolCallStateRunning,
	}
	const (
		asks  = "Normal ClientTools Wait: Create a ToolResult for each of: 1-0 (ask)."
		pays  = "Normal Approval Wait: Approve or reject with a ToolResult: 1-1 (pay)."
		fails = "Warning ProviderRefused End: The Turn failed. See the condition Succeeded for the cause and the remedy."
	)
	for name, test := range map[string]struct {
		before, after *v1alpha1.Turn
		want          string
	}{
		"a model is called": {at(v1alpha1.TurnPhaseQueued, ""), at(v1alpha1.TurnPhaseReason, ""), ""},
		"a Job runs":        {at(v1alpha1.TurnPhaseReason, ""), at(v1alpha1.TurnPhaseAct, "", job), ""},
		"a client's result is requested": {
			at(v1alpha1.TurnPhaseReason, ""), at(v1alpha1.TurnPhaseWaitingForToolResults, "", ask), asks,
		},
		"a client is not waited for": {at(v1alpha1.TurnPhaseReason, ""), at(v1alpha1.TurnPhaseAct, "", ask), ""},
		"one of two clients answered": {
			at(v1alpha1.TurnPhaseWaitingForToolResults, "", ask, more), at(v1alpha1.TurnPhaseWaitingForToolResults, "", ask), "",
		},
		"an approval is requested": {at(v1alpha1.TurnPhaseReason, ""), at(v1alpha1.TurnPhaseAct, "", pay, job), pays},
		"the Job beside it has ended": {
			at(v1alpha1.TurnPhaseAct, "", pay, job), at(v1alpha1.TurnPhaseWaitingForToolResults, "", pay), "",
		},
		"the Turn has failed": {
			at(v1alpha1.TurnPhaseReason, ""), at(v1alpha1.TurnPhaseFailed, "ProviderRefused"), fails,
		},
		"the Turn had failed": {
			at(v1alpha1.TurnPhaseFailed, "ProviderRefused"), at(v1alpha1.TurnPhaseFailed, "ProviderRefused"), "",
		},
		"an earlier Turn of it failed": {
			at(v1alpha1.TurnPhaseQueued, ""), at(v1alpha1.TurnPhaseFailed, v1alpha1.ReasonAlreadyRan), "",
		},
		"the Turn was cancelled": {at(v1alpha1.TurnPhaseReason, ""), at(v1alpha1.TurnPhaseCancelled, "Cancelled"), ""},
		"the Turn has succeeded": {at(v1alpha1.TurnPhaseReason, ""), at(v1alpha1.TurnPhaseSucceeded, "EndTurn"), ""},
		"the same status": {
			at(v1alpha1.TurnPhaseWaitingForToolResults, "", ask), at(v1alpha1.TurnPhaseWaitingForToolResults, "", ask), "",
		},
		"a Turn that fails while it waits": {
			at(v1alpha1.TurnPhaseWaitingForToolResults, "", ask), at(v1alpha1.TurnPhaseFailed, "ProviderRefused"), fails,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &recordedEvents{}
			recorder := notice.NewRecorder(s, time.Now)
			for _, n := range noticesOf(test.before, test.after) {
				recorder.Record(test.after, n)
			}
			if got := strings.Join(s.notes, "\n"); got != test.want {
				t.Errorf("recorded %q, want %q", got, test.want)
			}
		})
	}
}

// TestAMissingSessionHasAnEventAfterAWhile verifies that a Turn which waits for its Session has one pass more, and one
// Event.
func TestAMissingSessionHasAnEventAfterAWhile(t *testing.T) {
	now, s := moment.Truncate(time.Second), &recordedEvents{}
	r := &Reconciler{Clock: func() time.Time { return now }}
	r.Notices = notice.NewRecorder(s, r.Clock)
	turn := &v1alpha1.Turn{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo-1", UID: "u1", CreationTimestamp: metav1.NewTime(now)},
	}
	turn.Spec.SessionRef.Name = "demo"
	session := &v1alpha1.Session{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}
	condition.SetReady(&session.Status.Conditions, 1, metav1.NewTime(now.Add(time.Hour)), v1alpha1.ReasonModelNotFound, "")
	notify := func(reason string) time.Time {
		pass := &scope{turn: turn, session: session}
		r.notifyMissing(pass, reason)
		return pass.wakeAt
	}
	if at := notify(v1alpha1.ReasonSessionNotFound); !at.Equal(now.Add(missingGrace)) || len(s.notes) > 0 {
		t.Errorf("checked again at %v, recorded %q", at, s.notes)
	}
	now = now.Add(missingGrace)
	for range 2 {
		if at := notify(v1alpha1.ReasonSessionNotFound); !at.IsZero() {
			t.Errorf("looked at again at %v", at)
		}
	}
	if at := notify(
		v1alpha1.ReasonSessionNotReady,
	); !at.Equal(
		moment.Truncate(time.Second).Add(time.Hour + missingGrace),
	) {
		t.Errorf("a Session that was ready until now: looked at again at %v", at)
	}
	now = now.Add(time.Hour)
	notify(v1alpha1.ReasonSessionNotReady)
	for _, quiet := range []string{v1alpha1.ReasonQueued, v1alpha1.ReasonSuspended} {
		if at := notify(quiet); !at.IsZero() {
			t.Errorf("%s is looked at again at %v", quiet, at)
		}
	}
	want := []string{
		`Warning SessionNotFound Wait: Session "demo" does not exist.`,
		`Warning SessionNotReady Wait: Session "demo" cannot run the Turn (ModelNotFound). See its condition Ready for the ` +
			`missing references.`,
	}
	if !slices.Equal(s.notes, want) {
		t.Errorf("recorded %q, want %q", s.notes, want)
	}
}
