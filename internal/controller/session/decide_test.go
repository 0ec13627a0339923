package session

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

var now = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))

func turnWith(name string, change func(*v1alpha1.Turn)) *v1alpha1.Turn {
	turn := &v1alpha1.Turn{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: now}}
	if change != nil {
		change(turn)
	}
	return turn
}

func hasEnded(turn *v1alpha1.Turn) {
	turn.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionFinished, Status: metav1.ConditionTrue}}
}

func isCancelled(turn *v1alpha1.Turn) { turn.Spec.DesiredState = v1alpha1.DesiredStateCancelled }

func isGoing(turn *v1alpha1.Turn) { turn.DeletionTimestamp = &now }

func waitsForTools(turn *v1alpha1.Turn) { turn.Status.Phase = v1alpha1.TurnPhaseWaitingForToolResults }

// Rules: LIFE-08.
func TestPhase(t *testing.T) {
	active := &v1alpha1.ActiveTurn{Name: "t", UID: "1"}
	for name, test := range map[string]struct {
		status v1alpha1.SessionStatus
		active *v1alpha1.Turn
		usable bool
		want   v1alpha1.SessionPhase
	}{
		"not usable": {want: v1alpha1.SessionPhasePending},
		"not usable any more, after Turns": {
			status: v1alpha1.SessionStatus{Totals: v1alpha1.SessionTotals{Turns: 3}}, want: v1alpha1.SessionPhasePending,
		},
		"usable, no Turn yet": {usable: true, want: v1alpha1.SessionPhaseStarted},
		"after Turns": {
			status: v1alpha1.SessionStatus{Totals: v1alpha1.SessionTotals{Turns: 1}}, usable: true,
			want: v1alpha1.SessionPhaseIdle,
		},
		"a Turn runs": {
			status: v1alpha1.SessionStatus{ActiveTurn: active}, active: turnWith("t", nil), usable: true,
			want: v1alpha1.SessionPhaseActive,
		},
		"a Turn runs that the cache lacks": {
			status: v1alpha1.SessionStatus{ActiveTurn: active}, usable: true, want: v1alpha1.SessionPhaseActive,
		},
		"a Turn runs, not usable any more": {
			status: v1alpha1.SessionStatus{ActiveTurn: active}, active: turnWith("t", nil), want: v1alpha1.SessionPhaseActive,
		},
		"a Turn waits": {
			status: v1alpha1.SessionStatus{ActiveTurn: active}, active: turnWith("t", waitsForTools), usable: true,
			want: v1alpha1.SessionPhaseWaitingForToolResults,
		},
		"a Turn waits, not usable any more": {
			status: v1alpha1.SessionStatus{ActiveTurn: active}, active: turnWith("t", waitsForTools),
			want: v1alpha1.SessionPhaseWaitingForToolResults,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := phaseOf(&test.status, test.active, test.usable); got != test.want {
				t.Errorf("phase %s, want %s", got, test.want)
			}
		})
	}
}

func TestReadyReportsWhatIsWrong(t *testing.T) {
	session := &v1alpha1.Session{}
	session.Generation = 4
	setReady(session, "", "", now)
	if c := session.Status.Conditions[0]; c.Status != metav1.ConditionTrue || c.Reason != v1alpha1.ReasonReady ||
		c.ObservedGeneration != 4 {
		t.Errorf("ready: %+v", c)
	}
	setReady(session, v1alpha1.ReasonToolNotFound, "Tool x.", now)
	if c := session.Status.Conditions[0]; len(session.Status.Conditions) != 1 || c.Status != metav1.ConditionFalse ||
		c.Reason != v1alpha1.ReasonToolNotFound ||
		c.Message != "Tool x." {
		t.Errorf("not ready: %+v", session.Status.Conditions)
	}
}

func TestWhichChangesOfATurnMoveItsSession(t *testing.T) {
	moved := turnChanged()
	fresh := turnWith("t", nil)
	plan := func(turn *v1alpha1.Turn) { turn.Status.Plan = &v1alpha1.TurnPlan{Step: 1} }
	both := func(turn *v1alpha1.Turn) { hasEnded(turn); plan(turn) }
	for name, test := range map[string]struct {
		before, after *v1alpha1.Turn
		want          bool
	}{
		"nothing":          {fresh, turnWith("t", nil), false},
		"a step":           {fresh, turnWith("t", plan), false},
		"the end":          {fresh, turnWith("t", hasEnded), true},
		"cancelling":       {fresh, turnWith("t", isCancelled), true},
		"deletion":         {fresh, turnWith("t", isGoing), true},
		"the wait begins":  {fresh, turnWith("t", waitsForTools), true},
		"the wait is over": {turnWith("t", waitsForTools), fresh, true},
		"after the end":    {turnWith("t", hasEnded), turnWith("t", both), false},
		"waiting goes on":  {turnWith("t", waitsForTools), turnWith("t", waitsForTools), false},
		"deleted at its end": {
			turnWith("t", hasEnded), turnWith("t", func(turn *v1alpha1.Turn) { hasEnded(turn); isGoing(turn) }), false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := moved.Update(event.UpdateEvent{ObjectOld: test.before, ObjectNew: test.after}); got != test.want {
				t.Errorf("moves the Session: %v, want %v", got, test.want)
			}
		})
	}
	for name, test := range map[string]struct {
		turn *v1alpha1.Turn
		want bool
	}{
		"a new one":                         {fresh, true},
		"one that ended while it was away":  {turnWith("t", both), true},
		"one that ended before it began":    {turnWith("t", hasEnded), false},
		"one that runs":                     {turnWith("t", plan), true},
		"one that is cancelled and not yet": {turnWith("t", isCancelled), true},
	} {
		t.Run("seen first: "+name, func(t *testing.T) {
			if got := moved.Create(event.CreateEvent{Object: test.turn}); got != test.want {
				t.Errorf("moves the Session: %v, want %v", got, test.want)
			}
		})
	}
	if !moved.Delete(event.DeleteEvent{Object: fresh}) {
		t.Error("a Turn that was deleted does not move its Session")
	}
}
