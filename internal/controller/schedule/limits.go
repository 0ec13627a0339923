package schedule

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/queue"
	"github.com/capstan-dev/capstan/internal/runtime/schedule"
)

// Defaults of the history limits.
const (
	defaultSucceeded = 3
	defaultFailed    = 1
)

// dropped returns the Turns of a Schedule that have ended and that its history limits do not keep: the oldest ticks
// first. Turns of active ticks are kept, whatever their state.
func dropped(s *v1alpha1.Schedule, turns []v1alpha1.Turn) []*v1alpha1.Turn {
	var succeeded, failed []*v1alpha1.Turn
	for i := range turns {
		turn := &turns[i]
		switch {
		case !queue.Finished(turn), schedule.Active(s, turn.Name):
		case meta.IsStatusConditionTrue(turn.Status.Conditions, v1alpha1.ConditionSucceeded):
			succeeded = append(succeeded, turn)
		default:
			failed = append(failed, turn)
		}
	}
	over := beyond(succeeded, ptr.Deref(s.Spec.SuccessfulTurnsHistoryLimit, defaultSucceeded))
	return append(over, beyond(failed, ptr.Deref(s.Spec.FailedTurnsHistoryLimit, defaultFailed))...)
}

// beyond returns all but the newest ticks.
func beyond(turns []*v1alpha1.Turn, limit int32) []*v1alpha1.Turn {
	slices.SortFunc(turns, func(a, b *v1alpha1.Turn) int {
		return cmp.Or(schedule.TickOf(a).Compare(schedule.TickOf(b)), cmp.Compare(a.Name, b.Name))
	})
	return turns[:max(0, len(turns)-int(limit))]
}
