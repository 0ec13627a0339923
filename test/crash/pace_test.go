package crash_test

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// beats measure how long the suite waits: one takes as long as a change of an object needs to come back as an event,
// and beatLength at least. A machine that is slow has few of them, and a run that hangs has as many as on any other.
type beats int64

const (
	// beatLength is how long a beat takes at least.
	beatLength = 100 * time.Millisecond
	// patience is how long a run may make no progress. Retries after a lost request are far shorter.
	patience beats = 450
	// moment is how long an act step may stay open without open calls.
	moment beats = 200
)

// heart counts beats.
type heart struct{ count atomic.Int64 }

// now is how many beats there were.
func (h *heart) now() beats { return beats(h.count.Load()) }

// pulseName is the name of the object that beats, and of its namespace.
const pulseName = "pulse"

// start makes the object that beats, which it does until the context ends.
func (h *heart) start(ctx context.Context, c client.WithWatch) error {
	if err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: pulseName}}); err != nil {
		return err
	}
	if err := c.Create(ctx, newPulse()); err != nil {
		return err
	}
	go func() {
		for ctx.Err() == nil {
			if err := h.beat(ctx, c); err != nil && ctx.Err() == nil {
				verbose("the pulse skips:", err)
			}
		}
	}()
	return nil
}

func newPulse() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: pulseName, Name: pulseName}}
}

// beat beats until its watch ends.
func (h *heart) beat(ctx context.Context, c client.WithWatch) error {
	stream, err := c.Watch(ctx, &corev1.ConfigMapList{}, client.InNamespace(pulseName))
	if err != nil {
		return err
	}
	defer stream.Stop()
	tick := time.NewTicker(beatLength)
	defer tick.Stop()
	for {
		next := strconv.FormatInt(h.count.Load()+1, 10)
		patch := client.RawPatch(types.MergePatchType, []byte(`{"data":{"beat":"`+next+`"}}`))
		if err := c.Patch(ctx, newPulse(), patch); err != nil {
			return err
		}
		for shown := ""; shown != next; {
			event, ok := <-stream.ResultChan()
			if !ok {
				return fmt.Errorf("the watch ended at beat %s", next)
			}
			if pulse, ok := event.Object.(*corev1.ConfigMap); ok {
				shown = pulse.Data["beat"]
			}
		}
		h.count.Add(1)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// hopeless is an error that no waiting mends.
type hopeless struct{ error }

// await waits until a condition is nil. Its last error is part of the error.
func await(ctx context.Context, condition func() error) error {
	return awaitFor(ctx, patience, condition)
}

// awaitFor is await with another patience.
func awaitFor(ctx context.Context, patience beats, condition func() error) error {
	return awaitProgress(ctx, patience, func() progress { return progress{} }, condition)
}

// await is await for what a run does: it goes on for as long as the run makes progress.
func (r *run) await(ctx context.Context, condition func() error) error {
	return awaitProgress(ctx, r.patience, func() progress { return r.seen.progress(r.namespace) }, condition)
}

// progress is how often something has happened, and when last.
type progress struct {
	made int
	last beats
}

// mostProgress is how often something may happen while a run is waited for. A run that goes round in circles comes to
// no end, and makes progress all the time.
const mostProgress = 5000

func awaitProgress(ctx context.Context, patience beats, made func() progress, condition func() error) error {
	began, first := time.Now(), pulse.now()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := condition()
		if err == nil {
			return nil
		}
		if _, ok := err.(hopeless); ok { //nolint:errorlint // Nothing wraps it.
			return err
		}
		now, p := pulse.now(), made()
		since := max(first, p.last)
		if now-since > patience || p.made > mostProgress {
			return fmt.Errorf("waited %s, the last %d of %d beats without progress, which was made %d times: %w",
				time.Since(began).Round(time.Second), now-since, now-first, p.made, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited %s: %w (%w)", time.Since(began).Round(time.Second), err, ctx.Err())
		case <-tick.C:
		}
	}
}

// Events that arrive after the end of a run belong neither to its history nor to its progress.
func TestAnObserverIgnoresRunsThatAreOver(t *testing.T) {
	o := &observer{namespaces: map[string]*history{}, over: map[string]bool{}}
	turn := &v1alpha1.Turn{
		ObjectMeta: metav1.ObjectMeta{Namespace: "crash-over", Name: "demo-1", UID: "u1", ResourceVersion: "1"},
	}
	o.see(false, turn)
	if got := o.progress("crash-over"); got.made == 0 {
		t.Errorf("progress of a run: %+v", got)
	}
	o.see(false, turn)
	if before, got := 2, o.progress("crash-over"); got.made != before {
		t.Errorf("%d milestones of one object that is seen twice, want %d", got.made, before)
	}
	o.forget("crash-over")
	o.see(true, turn)
	if len(o.namespaces) != 0 {
		t.Errorf("the history of a run that is over: %+v", o.namespaces)
	}
}
