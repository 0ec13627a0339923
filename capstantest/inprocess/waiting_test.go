package inprocess_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest/clock"
	"github.com/capstan-dev/capstan/capstantest/inprocess"
)

// refused checks that an error is a refusal with a reason.
func refused(t *testing.T, err error, reason string) {
	t.Helper()
	var refusal *inprocess.RefusedError
	if !errors.As(err, &refusal) || refusal.Reason != reason {
		t.Errorf("the error is %v, want a refusal with %s", err, reason)
	}
}

// Rules: CLIENT-03, CLIENT-04.
func TestClientsAnswerOneAfterAnother(t *testing.T) {
	runtime := start(t, inprocess.WithSimulation(calling([]string{"ask", "ask"})))
	turn := run(t, runtime, message("demo-1", "Go."))
	if turn.Status.Phase != v1alpha1.TurnPhaseWaitingForToolResults {
		t.Fatalf("the Turn is %+v", turn.Status)
	}
	_, err := runtime.Answer(t.Context(), "demo-1", "1-7", "What?")
	refused(t, err, v1alpha1.ReasonUnknownCall)
	_, err = runtime.Decide(t.Context(), "demo-1", "1-0", v1alpha1.DecisionApprove)
	refused(t, err, v1alpha1.ReasonNoApprovalNeeded)
	if _, err := runtime.Answer(
		t.Context(),
		"demo-1",
		"one",
		"What?",
	); err == nil ||
		!strings.Contains(err.Error(), "spec.callID") {
		t.Errorf("an id of no call: %v", err)
	}
	if _, err := runtime.Answer(t.Context(), "demo-9", "1-0", "What?"); err == nil {
		t.Error("an unknown Turn was answered")
	}
	turn, err = runtime.Answer(t.Context(), "demo-1", "1-1", "Second.")
	if err != nil || turn.Status.Phase != v1alpha1.TurnPhaseWaitingForToolResults || turn.Status.Summary.Calls != "1/2" {
		t.Fatalf("after one answer: %+v, %v", turn, err)
	}
	_, err = runtime.Refuse(t.Context(), "demo-1", "1-1", "Again.")
	refused(t, err, v1alpha1.ReasonAlreadyAnswered)
	turn, err = runtime.Refuse(t.Context(), "demo-1", "1-0", "The user is absent.")
	if err != nil || reason(turn) != "True EndTurn" {
		t.Fatalf("after both: %+v, %v", turn, err)
	}
	_, err = runtime.Answer(t.Context(), "demo-1", "1-0", "Late.")
	refused(t, err, v1alpha1.ReasonAlreadyAnswered)
}

// Rules: TOOL-07.
func TestApprovals(t *testing.T) {
	for name, test := range map[string]struct {
		decision v1alpha1.Decision
		state    v1alpha1.ToolCallState
		started  int
	}{
		"approved": {v1alpha1.DecisionApprove, v1alpha1.ToolCallStateSucceeded, 1},
		"rejected": {v1alpha1.DecisionReject, v1alpha1.ToolCallStateNotExecuted, 0},
	} {
		t.Run(name, func(t *testing.T) {
			started := 0
			runtime := start(t, inprocess.WithSimulation(calling([]string{"guarded"})),
				inprocess.WithTool("guarded", func(inprocess.Call) (string, string, int) { started++; return "paid", "", 0 }))
			turn := run(t, runtime, message("demo-1", "Go."))
			if turn.Status.Phase != v1alpha1.TurnPhaseWaitingForToolResults || started != 0 {
				t.Fatalf("before the decision: %+v, started %d times", turn.Status, started)
			}
			_, err := runtime.Answer(t.Context(), "demo-1", "1-0", "paid")
			refused(t, err, v1alpha1.ReasonDecisionExpected)
			turn, err = runtime.Decide(t.Context(), "demo-1", "1-0", test.decision)
			if err != nil || turn.Status.ToolCalls[0].State != test.state || started != test.started ||
				reason(turn) != "True EndTurn" {
				t.Errorf("after the decision: %+v, %v, started %d times", turn, err, started)
			}
		})
	}
}

// Rules: TOOL-07.
func TestAnApprovalThatIsMissing(t *testing.T) {
	c := clock.New(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
	runtime := start(t, inprocess.WithClock(c), inprocess.WithSimulation(calling([]string{"guarded"})))
	run(t, runtime, message("demo-1", "Go."))
	c.Advance(25 * time.Hour)
	turn := await(
		t,
		runtime,
		"demo-1",
		func(turn *v1alpha1.Turn) bool { return turn.Status.Phase == v1alpha1.TurnPhaseSucceeded },
	)
	if call := turn.Status.ToolCalls[0]; call.Reason != v1alpha1.ToolCallReasonApprovalTimeout {
		t.Errorf("the call is %+v", call)
	}
}

// await waits until a Turn is as it should be.
func await(t *testing.T, runtime *inprocess.Runtime, name string, is func(*v1alpha1.Turn) bool) *v1alpha1.Turn {
	t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if turn := runtime.Turn(name); turn != nil && is(turn) {
			return turn
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("the Turn is %+v", runtime.Turn(name))
		}
	}
}

// Rules: CLIENT-05.
func TestTimeLimits(t *testing.T) {
	seconds := int64(60)
	for name, test := range map[string]struct {
		limit  func(*v1alpha1.TurnSpec)
		reason string
		calls  []string
	}{
		"the deadline, while it waits": {
			func(s *v1alpha1.TurnSpec) { s.ActiveDeadlineSeconds = &seconds }, "False DeadlineExceeded", []string{"ask"},
		},
		"the deadline, in a tool": {
			func(s *v1alpha1.TurnSpec) { s.ActiveDeadlineSeconds = &seconds }, "False DeadlineExceeded", []string{"look"},
		},
		"the wait timeout": {func(s *v1alpha1.TurnSpec) {
			s.WaitTimeout = &metav1.Duration{Duration: time.Duration(seconds) * time.Second}
		}, "False WaitTimeout", []string{"ask"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := &clock.Clock{}
			begun := make(chan struct{}, 1)
			runtime := start(t, inprocess.WithClock(c), inprocess.WithSimulation(calling(test.calls)),
				inprocess.WithTools(func(call inprocess.Call) (string, string, int) {
					begun <- struct{}{}
					<-call.Context.Done()
					return "", "", 1
				}))
			turn := message("demo-1", "Go.")
			test.limit(&turn.Spec)
			ended := make(chan *v1alpha1.Turn, 1)
			go func() {
				turn, _ := runtime.RunTurn(context.WithoutCancel(t.Context()), turn)
				ended <- turn
			}()
			if test.calls[0] == "look" {
				<-begun
			} else if turn := <-ended; turn.Status.Phase != v1alpha1.TurnPhaseWaitingForToolResults {
				t.Fatalf("the Turn is %+v", turn.Status)
			}
			c.Advance(2 * time.Minute)
			last := await(
				t,
				runtime,
				"demo-1",
				func(turn *v1alpha1.Turn) bool { return turn.Status.Phase == v1alpha1.TurnPhaseFailed },
			)
			if reason(last) != test.reason {
				t.Errorf("the Turn ended with %s", reason(last))
			}
		})
	}
}

// Rules: CLIENT-05.
func TestAMessageSteersATurnThatWaits(t *testing.T) {
	runtime := start(t, inprocess.WithSimulation(calling([]string{"ask", "guarded"})))
	run(t, runtime, message("demo-1", "Go."))
	steer := message("demo-2", "Never mind.")
	steer.Spec.Delivery = v1alpha1.DeliverySteer
	steered := run(t, runtime, steer)
	if reason(steered) != "True Steered" || steered.Status.SteeredInto.Name != "demo-1" {
		t.Errorf("the message ended as %+v", steered.Status)
	}
	turn, err := runtime.Await(t.Context(), "demo-1")
	if err != nil || reason(turn) != "True EndTurn" || turn.Status.ToolCalls[0].Reason != "Steered" {
		t.Errorf("the Turn ended as %+v, %v", turn, err)
	}
	messages, err := runtime.Messages(t.Context(), "")
	if err != nil || messages[len(messages)-2].PlainText() != "Never mind." {
		t.Errorf("the messages are %+v, %v", messages, err)
	}
	// Where no Turn runs, it is one like any other.
	late := message("demo-3", "Once more.")
	late.Spec.Delivery = v1alpha1.DeliverySteer
	if turn := run(t, runtime, late); turn.Status.Phase != v1alpha1.TurnPhaseWaitingForToolResults {
		t.Errorf("without a Turn to go into: %+v", turn.Status)
	}
}
