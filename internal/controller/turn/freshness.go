package turn

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// freshnessLimit is how long a pass waits for the watch to show the last own write before it reads past the cache.
const freshnessLimit = 5 * time.Second

// freshen ensures that the pass sees at least the last own write: with an older version the pass waits for the watch,
// for at most freshnessLimit, and then reads live.
func (r *Reconciler) freshen(ctx context.Context, s *scope) error {
	if !older(s.turn.ResourceVersion, s.memory.written) {
		s.memory.behindSince = time.Time{}
		return nil
	}
	staleReads.Inc()
	now := r.Clock()
	if s.memory.behindSince.IsZero() {
		s.memory.behindSince = now
	}
	if waited := now.Sub(s.memory.behindSince); waited < freshnessLimit {
		s.behind = true
		s.deadline(now.Add(freshnessLimit - waited))
		return nil
	}
	liveReads.Inc()
	turn := &v1alpha1.Turn{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(s.turn), turn); err != nil {
		if client.IgnoreNotFound(err) == nil {
			s.behind = true
			return nil
		}
		return fmt.Errorf("reading the Turn past the cache: %w", err)
	}
	if turn.UID != s.turn.UID {
		// The memory is not that of this Turn. The watch event of its creation starts it.
		s.behind = true
		return nil
	}
	// The API server's version counts, even if versions went back because etcd was restored.
	s.memory.written, s.memory.behindSince = turn.ResourceVersion, time.Time{}
	turnstate.LeaveOutMessage(turn)
	s.turn, s.base = turn.DeepCopy(), turn
	return nil
}

// lacksRecord reports whether the pass sees a version of the Turn from before the record of a pod whose gate is open:
// watches of Turns and pods have no common order, and another process may have written the record. The pass then waits
// for the newer version, as for one of its own.
func (r *Reconciler) lacksRecord(ctx context.Context, s *scope, call v1alpha1.ToolCall, pod *corev1.Pod) (bool, error) {
	if !act.Withdrawable(call) || pod == nil || gated(pod) {
		return false, nil
	}
	liveReads.Inc()
	turn := &v1alpha1.Turn{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(s.turn), turn); err != nil {
		return true, client.IgnoreNotFound(err)
	}
	if turn.UID == s.turn.UID && !older(s.base.ResourceVersion, turn.ResourceVersion) {
		return false, nil // A user removed the gate.
	}
	staleReads.Inc()
	s.memory.written = turn.ResourceVersion
	s.deadline(r.Clock().Add(freshnessLimit))
	return true, nil
}

// older reports whether version seen came before version written. Versions that cannot be compared count as current:
// the optimistic lock of the next write protects the Turn.
func older(seen, written string) bool {
	if written == "" {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(seen, written)
	return err == nil && order < 0
}
