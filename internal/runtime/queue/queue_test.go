package queue

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

var now = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))

func turnWith(name string, changes ...func(*v1alpha1.Turn)) *v1alpha1.Turn {
	turn := named(name, now.Time)
	turn.UID = types.UID(name)
	for _, change := range changes {
		if change != nil {
			change(turn)
		}
	}
	return turn
}

func hasEnded(turn *v1alpha1.Turn) {
	turn.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionFinished, Status: metav1.ConditionTrue}}
}

func isCancelled(turn *v1alpha1.Turn) { turn.Spec.DesiredState = v1alpha1.DesiredStateCancelled }

func isSuspended(turn *v1alpha1.Turn) { turn.Spec.Suspend = new(true) }

func isResumed(turn *v1alpha1.Turn) { turn.Spec.Suspend = new(false) }

func isGoing(turn *v1alpha1.Turn) { turn.DeletionTimestamp = &now }

func isSteer(turn *v1alpha1.Turn) { turn.Spec.Delivery = v1alpha1.DeliverySteer }

func hasBegun(turn *v1alpha1.Turn) { turn.Status.Plan = &v1alpha1.TurnPlan{Step: 1} }

func later(turn *v1alpha1.Turn) { turn.CreationTimestamp = metav1.NewTime(now.Add(time.Second)) }

func TestNextTurn(t *testing.T) {
	for name, test := range map[string]struct {
		turns []*v1alpha1.Turn
		want  string
	}{
		"none at all":            {},
		"the first in order":     {turns: []*v1alpha1.Turn{turnWith("t-10", nil), turnWith("t-2", nil)}, want: "t-2"},
		"not one that has ended": {turns: []*v1alpha1.Turn{turnWith("t-1", hasEnded), turnWith("t-2", nil)}, want: "t-2"},
		"not one that is going":  {turns: []*v1alpha1.Turn{turnWith("t-1", isGoing), turnWith("t-2", nil)}, want: "t-2"},
		"not one to be cancelled": {
			turns: []*v1alpha1.Turn{turnWith("t-1", isCancelled), turnWith("t-2", nil)}, want: "t-2",
		},
		"not one that is suspended": {
			turns: []*v1alpha1.Turn{turnWith("t-1", isSuspended), turnWith("t-2", nil)}, want: "t-2",
		},
		"one that has begun, to close its step": {
			turns: []*v1alpha1.Turn{turnWith("t-1", hasBegun, isCancelled, isGoing, isSuspended), turnWith("t-2", nil)},
			want:  "t-1",
		},
		"one that was resumed": {turns: []*v1alpha1.Turn{turnWith("t-1", isResumed), turnWith("t-2", nil)}, want: "t-1"},
		"none that can be started": {
			turns: []*v1alpha1.Turn{turnWith("t-1", hasEnded), turnWith("t-2", isGoing), turnWith("t-3", isCancelled)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if next := Next(test.turns); next != nil {
				got = next.Name
			}
			if got != test.want {
				t.Errorf("next is %q, want %q", got, test.want)
			}
		})
	}
}

func TestNextTurnLeavesTheListAsItIs(t *testing.T) {
	turns := []*v1alpha1.Turn{turnWith("t-2", nil), turnWith("t-1", nil)}
	Next(turns)
	if turns[0].Name != "t-2" {
		t.Error("the list was sorted in place")
	}
}

func TestTheSteersThatAreQueuedAtAnAdmissionAreNamed(t *testing.T) {
	queued, end := QueuedSteers([]*v1alpha1.Turn{
		turnWith(
			"t-2",
			isSteer,
		),
		turnWith("t-1", isSteer),
		turnWith("t-3"),
		turnWith("t-0", isSteer, hasEnded),
		turnWith("t-4", isSteer, isCancelled),
	}, "t-1")
	if !slices.Equal(queued, []types.UID{"t-2"}) || end != nil {
		t.Errorf("%v are queued, up to %+v", queued, end)
	}
	var turns []*v1alpha1.Turn
	for i := range 70 {
		turns = append(turns, turnWith(fmt.Sprintf("t-%d", i), isSteer))
	}
	active := v1alpha1.ActiveTurn{Name: "t", UID: "t"}
	active.QueuedSteers, active.QueueEnd = QueuedSteers(turns, "t")
	if len(active.QueuedSteers) != MaxQueuedSteers || active.QueueEnd == nil || active.QueueEnd.Name != "t-69" {
		t.Errorf("%d are named, up to %+v", len(active.QueuedSteers), active.QueueEnd)
	}
	steers := Steers(append(turns, turnWith("a", isSteer, later)), active)
	if len(steers) != 1 || steers[0].Name != "a" {
		t.Errorf("%d messages go into the Turn", len(steers))
	}
}

func TestSteersAreThoseThatCameWhenTheTurnWasActive(t *testing.T) {
	active := v1alpha1.ActiveTurn{Name: "t-1", UID: "t-1", QueueEnd: positionOf(turnWith("t-5"))}
	for name, test := range map[string]struct {
		active v1alpha1.ActiveTurn
		turns  []*v1alpha1.Turn
		want   []string
	}{
		"none": {active: active},
		"in order": {
			active: active,
			turns:  []*v1alpha1.Turn{turnWith("a", isSteer, later), turnWith("t-10", isSteer), turnWith("t-6", isSteer)},
			want:   []string{"t-6", "t-10", "a"},
		},
		"not a queued Turn": {
			active: active, turns: []*v1alpha1.Turn{turnWith("t-6"), turnWith("t-7", isSteer)}, want: []string{"t-7"},
		},
		"not an earlier Turn": {
			active: active,
			turns:  []*v1alpha1.Turn{turnWith("t-2", isSteer), turnWith("t-5", isSteer), turnWith("t-6", isSteer)},
			want:   []string{"t-6"},
		},
		"not the active one": {
			active: v1alpha1.ActiveTurn{Name: "t-9", UID: "t-9"}, turns: []*v1alpha1.Turn{turnWith("t-9", isSteer)},
		},
		"not one that has begun":          {active: active, turns: []*v1alpha1.Turn{turnWith("t-6", isSteer, hasBegun)}},
		"not one that has ended":          {active: active, turns: []*v1alpha1.Turn{turnWith("t-6", isSteer, hasEnded)}},
		"not one that is to be cancelled": {active: active, turns: []*v1alpha1.Turn{turnWith("t-6", isSteer, isCancelled)}},
		"not one that is going":           {active: active, turns: []*v1alpha1.Turn{turnWith("t-6", isSteer, isGoing)}},
		"created in the same second": {
			active: v1alpha1.ActiveTurn{Name: "t-5", UID: "t-5", QueuedSteers: []types.UID{"t-3"}},
			turns: []*v1alpha1.Turn{
				turnWith("t-1", isSteer), turnWith("t-3", isSteer), turnWith("t-9", isSteer),
			}, want: []string{"t-1", "t-9"},
		},
		"admitted by a build that did not record the end of the queue": {
			active: v1alpha1.ActiveTurn{Name: "t-1", UID: "t-1"}, turns: []*v1alpha1.Turn{
				turnWith("t-6", isSteer),
			}, want: []string{"t-6"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, turn := range Steers(test.turns, test.active) {
				got = append(got, turn.Name)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("steers %v, want %v", got, test.want)
			}
		})
	}
}
