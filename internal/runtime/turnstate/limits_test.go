package turnstate

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

func TestTimeLimitsFollowFromStatus(t *testing.T) {
	began := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	turn := func(phase v1alpha1.TurnPhase, deadline, wait int64) *v1alpha1.Turn {
		turn := &v1alpha1.Turn{}
		if deadline > 0 {
			turn.Spec.ActiveDeadlineSeconds = &deadline
		}
		if wait > 0 {
			turn.Spec.WaitTimeout = &metav1.Duration{Duration: time.Duration(wait) * time.Second}
		}
		turn.Status.Phase = phase
		turn.Status.Summary = &v1alpha1.TurnSummary{StartedAt: &metav1.MicroTime{Time: began}}
		turn.Status.Conditions = []metav1.Condition{{
			Type: v1alpha1.ConditionWaitingForToolResults, LastTransitionTime: metav1.NewTime(began.Add(time.Minute)),
		}}
		return turn
	}
	for name, c := range map[string]struct {
		turn *v1alpha1.Turn
		want map[string]time.Duration
	}{
		"none": {turn(v1alpha1.TurnPhaseAct, 0, 0), nil},
		"a deadline": {
			turn(v1alpha1.TurnPhaseReason, 30, 0), map[string]time.Duration{"deadline_exceeded": 30 * time.Second},
		},
		"a wait that has not begun": {turn(v1alpha1.TurnPhaseAct, 0, 30), nil},
		"a wait": {
			turn(v1alpha1.TurnPhaseWaitingForToolResults, 0, 30), map[string]time.Duration{"wait_timeout": 90 * time.Second},
		},
		"a wait and a deadline": {
			turn(v1alpha1.TurnPhaseWaitingForToolResults, 100, 30),
			map[string]time.Duration{"wait_timeout": 90 * time.Second, "deadline_exceeded": 100 * time.Second},
		},
		"a Turn that has not started": {
			&v1alpha1.Turn{
				Spec: v1alpha1.TurnSpec{ActiveDeadlineSeconds: new(int64(1)), WaitTimeout: &metav1.Duration{Duration: time.Second}},
			},
			nil,
		},
	} {
		got := TimeLimits(c.turn)
		if len(got) != len(c.want) {
			t.Errorf("%s: %d limits, want %d", name, len(got), len(c.want))
		}
		for _, limit := range got {
			if after, ok := c.want[string(limit.Expiry.Code)]; !ok || !limit.At.Equal(began.Add(after)) {
				t.Errorf("%s: %s at %v", name, limit.Expiry.Code, limit.At)
			}
		}
	}
}
