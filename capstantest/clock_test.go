package capstantest_test

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
)

func TestWithoutPausesMovesTheClockToTheEndOfEachPause(t *testing.T) {
	start := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	later, seconds := metav1.NewMicroTime(start.Add(time.Hour)), metav1.NewTime(start.Add(time.Hour))
	waiting := func(kind v1alpha1.WaitType) v1alpha1.TurnStatus {
		return v1alpha1.TurnStatus{TurnProgress: v1alpha1.TurnProgress{
			Phase: v1alpha1.TurnPhaseWaiting, WaitsFor: []v1alpha1.TurnWait{{Type: kind, Until: &later}},
		}}
	}
	calling := func(state v1alpha1.ToolCallState) v1alpha1.TurnStatus {
		return v1alpha1.TurnStatus{TurnProgress: v1alpha1.TurnProgress{
			Phase: v1alpha1.TurnPhaseAct, ToolCalls: []v1alpha1.ToolCall{{ID: "1-0", State: state, NotBefore: &seconds}},
		}}
	}
	ended := waiting(v1alpha1.WaitTypeBackoff)
	ended.Phase = v1alpha1.TurnPhaseCancelled
	ended.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionFinished, Status: metav1.ConditionTrue}}
	for name, test := range map[string]struct {
		status v1alpha1.TurnStatus
		moved  bool
	}{
		"a model call that is repeated": {waiting(v1alpha1.WaitTypeBackoff), true},
		"a missing reference":           {waiting(v1alpha1.WaitTypeReference), false},
		"a tool call that is repeated":  {calling(v1alpha1.ToolCallStatePending), true},
		"a tool call that runs":         {calling(v1alpha1.ToolCallStateRunning), false},
		"a Turn that has ended":         {ended, false},
		"a Turn that does not wait":     {v1alpha1.TurnStatus{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := capstantest.NewClock(start)
			turn := &v1alpha1.Turn{Status: test.status}
			read, err := capstantest.WithoutPauses(c, func() (*v1alpha1.Turn, error) { return turn, nil })()
			if read != turn || err != nil {
				t.Errorf("read %v, %v", read, err)
			}
			if moved := !c.Now().Before(later.Time); moved != test.moved {
				t.Errorf("the clock shows %s, moved: %t, want %t", c.Now(), moved, test.moved)
			}
		})
	}
}

func TestWithoutPausesReturnsTheErrorOfTheRead(t *testing.T) {
	failed := errors.New("no connection")
	_, err := capstantest.WithoutPauses(&capstantest.Clock{}, func() (*v1alpha1.Turn, error) { return nil, failed })()
	if !errors.Is(err, failed) {
		t.Errorf("the error is %v", err)
	}
}
