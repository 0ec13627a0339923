package turn

import (
	"context"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/activity"
	"github.com/capstan-dev/capstan/internal/runtime/host"
	"github.com/capstan-dev/capstan/internal/runtime/projection"
)

const (
	// firstKeyRetry is how long a Turn whose call has found no API key leaves the Model alone, which tells otherwise
	// when it has one. Each further such pause of the step is twice as long.
	firstKeyRetry = 5 * time.Second
	// lastKeyRetry bounds these pauses.
	lastKeyRetry = 5 * time.Minute
)

// awaitKey holds a model call back while its Model has no API key, and says so on the Turn. The Model looks for its
// key; what becomes of that wakes the Turn through its Session, so that Turns that wait cost nothing.
func (r *Reconciler) awaitKey(ctx context.Context, s *scope, step *stepMemory, c host.Config) (flow, error) {
	progress := &s.turn.Status.TurnProgress
	missing := host.KeylessBy(c)
	switch {
	case missing != nil:
		// The Model knows, and tells when it has its key.
		step.keyRetry = time.Time{}
		return r.waitForKey(ctx, s, missing)
	case !host.WaitsForReference(progress):
		return proceed, nil
	case r.Clock().Before(step.keyRetry):
		s.deadline(step.keyRetry)
		return stop, nil
	}
	host.Resume(progress)
	projection.SetConditions(&s.turn.Status, s.turn.Generation, nowSeconds(r.Clock()))
	return r.write(ctx, s, writeWaiting)
}

// waitForKey says on the Turn which key is missing, once.
func (r *Reconciler) waitForKey(ctx context.Context, s *scope, missing *host.Keyless) (flow, error) {
	progress := &s.turn.Status.TurnProgress
	var err error
	if progress.Phase != v1alpha1.TurnWaiting || !missing.Described(progress) {
		missing.Describe(progress)
		projection.SetConditions(&s.turn.Status, s.turn.Generation, nowSeconds(r.Clock()))
		_, err = r.write(ctx, s, writeWaiting)
	}
	r.standBack(s)
	return stop, err
}

// keyless deals with a model call that has found no API key. Its Model has been told, and knows better from then on;
// should it have found the key meanwhile, its condition does not change, and the Turn tries again by itself.
func (r *Reconciler) keyless(ctx context.Context, s *scope, step *stepMemory, missing *host.Keyless) (flow, error) {
	delete(step.pauses, activity.Key{Turn: s.turn.UID, Step: s.plan().Step})
	step.keyPause = min(max(2*step.keyPause, firstKeyRetry), lastKeyRetry)
	step.keyRetry = r.Clock().Add(step.keyPause)
	s.deadline(step.keyRetry)
	return r.waitForKey(ctx, s, missing)
}
