package step

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
	"unicode/utf8"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/backoff"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

const (
	// keepEvery is the interval at which a streaming response is recorded in its first minute (HB-02). A response that
	// is shorter is requested again.
	keepEvery = 5 * time.Second
	// keepParts is the fraction of the elapsed time that passes between two parts after that: the journal of a long
	// response must not grow with its duration, and only a small part is lost with the process.
	keepParts = 12
	// keepTimeout bounds the write of one part. The next write includes the text of a failed one.
	keepTimeout = 10 * time.Second
	// discardTimeout bounds the time for discarding recorded parts. A slot is held meanwhile.
	discardTimeout = 30 * time.Second
)

// recording records the response of one attempt while it streams, as long as it is text, so that a later process can
// use it as the response (PART-02). It does not delay the stream.
type recording struct {
	draft *journal.Draft
	began time.Time
	// abandon ends the attempt: another process has closed the step.
	abandon context.CancelFunc
	// stop ends the recording; done is closed when it has ended.
	stop context.CancelFunc
	done chan struct{}
	// calls reports whether the model has begun to call tools.
	calls     chan struct{}
	callsOnce sync.Once

	mu       sync.Mutex
	received string

	// tried reports whether part of the text may be in the journal, discarded whether it is marked as discarded there.
	// Only the recording uses both until it has ended.
	tried, discarded bool
}

// record starts to record the streaming response of a Model. abandon ends the attempt.
func (run *Runner) record(
	ctx context.Context,
	t turnstate.Turn,
	m *v1alpha1.Model,
	message string,
	abandon context.CancelFunc,
) *recording {
	stopped, stop := context.WithCancel(ctx)
	r := &recording{
		draft: run.draft(t, journal.Partial{Message: message, Model: m.Name, Holder: run.holder()}),
		began: time.Now(), abandon: abandon, stop: stop, done: make(chan struct{}), calls: make(chan struct{}),
	}
	go r.run(stopped)
	return r
}

// draft is the writer of the open step's partial response.
func (run *Runner) draft(t turnstate.Turn, of journal.Partial) *journal.Draft {
	return run.Log.Draft(t.Session, t.Ref, t.Step(), t.Progress.Plan.OpenedAtOrdinal, of)
}

// Observe implements modelcall.Recording.
func (r *recording) Observe(p model.Partial) {
	if p.ToolCalls {
		r.callsOnce.Do(func() { close(r.calls) })
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.received = p.Text
}

// run records the consumed text at intervals. The next write includes the text of a failed one.
func (r *recording) run(stopped context.Context) {
	defer close(r.done)
	defer func() {
		if p := recover(); p != nil {
			// The response continues without a recording. A panic here would end the process, and the next one would
			// panic at the same place.
			utilruntime.HandleErrorWithContext(stopped, fmt.Errorf("%v\n%s", p, debug.Stack()),
				"recording a model response panicked")
		}
	}()
	timer := time.NewTimer(r.interval())
	defer timer.Stop()
	for {
		select {
		case <-stopped.Done():
			return
		case <-r.calls:
			// The end of the attempt checks whether this has failed, and retries.
			_ = r.discard(stopped)
			return
		case <-timer.C:
			if r.write(stopped) {
				timer.Reset(r.interval())
			}
		}
	}
}

// interval is the pause before the next part.
func (r *recording) interval() time.Duration {
	return max(keepEvery, time.Since(r.began)/keepParts)
}

// write records the consumed text, and reports whether there may be more to write.
func (r *recording) write(ctx context.Context) (goOn bool) {
	r.mu.Lock()
	text := r.received
	r.mu.Unlock()
	if text == "" {
		return true
	}
	if !utf8.ValidString(text) {
		return false // It would not be read back as it was written.
	}
	r.tried = true
	ctx, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()
	closed, err := r.draft.Keep(ctx, text)
	if closed {
		r.abandon()
	}
	return !closed && !permanent(err)
}

// permanent reports whether retrying the write of a part is useless or wrong.
func permanent(err error) bool {
	return errors.Is(err, journal.ErrFull) || errors.Is(err, journal.ErrTooLarge) || errors.Is(err, journal.ErrRefused) ||
		errors.Is(err, journal.ErrCorrupt) || errors.Is(err, journal.ErrFormat)
}

// discard marks the recorded text as discarded. Until then the step must not continue: a later process would use that
// text as the response.
func (r *recording) discard(ctx context.Context) error {
	if !r.tried || r.discarded {
		return nil
	}
	err := discard(ctx, r.draft)
	r.discarded = err == nil
	return err
}

// End implements modelcall.Recording. The recorded text is valid only if it can be the response. A complete
// response continues without an error: a journal that does not accept this entry does not accept the response either,
// which is kept until it does.
func (r *recording) End(ctx context.Context, answer *model.Response, failure error) error {
	r.stop()
	<-r.done
	if failure == nil && len(answer.ToolCalls) == 0 {
		return nil
	}
	if err := r.discard(ctx); err != nil && failure != nil {
		return err
	}
	return nil
}

// discard marks the recorded parts of a response as discarded. It retries for a while, unless a retry is useless.
func discard(ctx context.Context, draft *journal.Draft) error {
	ctx, cancel := context.WithTimeout(ctx, discardTimeout)
	defer cancel()
	for delay := firstRetry; ; delay = min(2*delay, lastRetry) {
		_, err := draft.Discard(ctx)
		if err == nil || permanent(err) || backoff.Wait(ctx, delay) != nil {
			return err
		}
	}
}
