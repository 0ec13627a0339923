package turn

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

const (
	// firstKeyRetry is the pause of a Turn whose model call has found no API key, if no change of the Model wakes it
	// earlier. Each further such pause of the step is twice as long.
	firstKeyRetry = 5 * time.Second
	// lastKeyRetry bounds these pauses.
	lastKeyRetry = 5 * time.Minute
)

// awaitKey holds a model call back while its Model has no API key, and reports it on the Turn. The Model's reconciler
// checks for the key; a change of the Model wakes the Turn through its Session, so that waiting Turns cost nothing.
func (r *Reconciler) awaitKey(ctx context.Context, s *scope, step *stepMemory, c turnstate.Config) (flow, error) {
	progress := &s.turn.Status.TurnProgress
	missing := turnstate.FindMissingKey(c)
	switch {
	case missing != nil:
		// The Model's condition has it, and its change wakes the Turn.
		step.keyRetry = time.Time{}
		if flow, err := r.findClosedOrStop(ctx, s); err != nil || flow == again {
			return flow, err
		}
		return r.reportMissingKey(s, missing), nil
	case !turnstate.WaitsForReference(progress):
		return proceed, nil
	case r.Clock().Before(step.keyRetry) && !becameReady(step.readySince, c):
		s.deadline(step.keyRetry)
		return r.findClosedOrStop(ctx, s)
	}
	turnstate.Resume(progress)
	turnstate.SetConditions(&s.turn.Status, s.turn.Generation, nowSeconds(r.Clock()))
	return writeThenRepeat(writeWaiting), nil
}

// becameReady reports whether a Model of the configuration has become Ready since the given times, by name.
func becameReady(since map[string]metav1.Time, c turnstate.Config) bool {
	for name, at := range turnstate.ReadySince(c) {
		if before, known := since[name]; !known || !before.Equal(&at) {
			return true
		}
	}
	return false
}

// reportMissingKey reports the missing key on the Turn, once.
func (r *Reconciler) reportMissingKey(s *scope, missing *turnstate.MissingKey) flow {
	progress := &s.turn.Status.TurnProgress
	flow := stop
	if progress.Phase != v1alpha1.TurnPhaseWaiting || !missing.Described(progress) {
		missing.Describe(progress)
		turnstate.SetConditions(&s.turn.Status, s.turn.Generation, nowSeconds(r.Clock()))
		flow = writeThenStop(writeWaiting)
	}
	r.notifyMissingReference(s)
	r.releaseSlot(s)
	return flow
}

// handleMissingKey handles a model call that has found no API key. Its Model was enqueued for a check; if that finds
// the key, the Model's condition does not change, and so the Turn retries by itself. A Model that becomes Ready ends
// the pause.
func (r *Reconciler) handleMissingKey(s *scope, step *stepMemory, missing *turnstate.MissingKey) flow {
	delete(step.pauses, s.stepKey())
	step.keyPause = min(max(2*step.keyPause, firstKeyRetry), lastKeyRetry)
	step.keyRetry = r.Clock().Add(step.keyPause)
	s.deadline(step.keyRetry)
	return r.reportMissingKey(s, missing)
}
