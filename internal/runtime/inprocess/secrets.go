package inprocess

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/internal/runtime/invocation/executor"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// lookForSecrets looks for the Secrets of the calls that wait for one. A call whose Secrets exist may start.
func (a *acting) lookForSecrets(ctx context.Context, indexes []int) error {
	var failed []error
	for _, i := range indexes {
		call := &a.calls()[i]
		of := executor.Asker{Namespace: a.turn.Namespace, User: turnstate.UserOf(a.turn)}
		missing, err := a.loop.Steps.MissingSecret(ctx, of, a.config.Tools.Planned(*call))
		if err != nil {
			failed = append(failed, err)
			continue
		}
		if missing != nil {
			a.step.Withhold(call, missing, a.loop.Clock.Now())
			continue
		}
		a.step.Release(call)
	}
	return errors.Join(failed...)
}

// awaitKey reports on the Turn that its Model has no API key, and waits until objects have changed, the Turn is to end
// or a time limit has passed.
func (r *run) awaitKey(ctx context.Context, missing *turnstate.MissingKey) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	progress := &r.turn.Status.TurnProgress
	missing.Describe(progress)
	r.show()
	select {
	case <-r.alerts:
	case <-r.alarm(ctx, r.nextLimit()):
	case <-ctx.Done():
		return ctx.Err()
	}
	turnstate.Resume(progress)
	r.show()
	return nil
}

// show updates the conditions from the status, and shows both to all callers.
func (r *run) show() {
	turnstate.SetConditions(&r.turn.Status, r.turn.Generation, metav1.NewTime(r.loop.Clock.Now().Truncate(time.Second)))
	r.publish(true)
}
