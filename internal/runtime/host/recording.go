package host

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
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

const (
	// keepEvery is how often what has come of an answer is written down in its first minute (HB-02). What comes in less
	// time is asked for again.
	keepEvery = 5 * time.Second
	// keepParts is the part of the time so far that passes between two pieces after that: the log of a long answer must
	// not grow with its length in time, and what is lost with the process stays a small part of the whole.
	keepParts = 12
	// keepTimeout bounds the writing of one piece. The next one makes up for it.
	keepTimeout = 10 * time.Second
	// discardTimeout bounds the time for which it is tried to take back what was written. A place is held meanwhile.
	discardTimeout = 30 * time.Second
)

// recording writes down what comes of one try to get an answer, for as long as it is text, so that a later process can
// take it for the answer (PART-02). It does not hold up what comes.
type recording struct {
	draft *journal.Draft
	began time.Time
	// abandon ends the try: somebody else has closed the step.
	abandon context.CancelFunc
	// stop ends the recording; done says that it has ended.
	stop context.CancelFunc
	done chan struct{}
	// calls says that the model has begun to call tools.
	calls     chan struct{}
	callsOnce sync.Once

	mu    sync.Mutex
	heard string

	// tried reports whether some of the text may be in the log, discarded that it does not count any more. Both are the
	// recording's own until it has ended.
	tried, discarded bool
}

// record begins to write down what comes of an answer of a Model. abandon ends the try.
func (h *Host) record(ctx context.Context, t Turn, m *v1alpha1.Model, message string, abandon context.CancelFunc) *recording {
	stopped, stop := context.WithCancel(ctx)
	r := &recording{
		draft: h.draft(t, journal.Partial{Message: message, Model: m.Name, Holder: h.holder()}),
		began: time.Now(), abandon: abandon, stop: stop, done: make(chan struct{}), calls: make(chan struct{}),
	}
	go r.run(stopped)
	return r
}

// draft is what the open step's answer is kept in.
func (h *Host) draft(t Turn, of journal.Partial) *journal.Draft {
	return h.Log.Draft(t.Session, t.Ref, t.step(), t.Progress.Plan.OpenedAt, of)
}

// hear takes note of what has come.
func (r *recording) hear(p model.Partial) {
	if p.ToolCalls {
		r.callsOnce.Do(func() { close(r.calls) })
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard = p.Text
}

// run writes down what was heard, whenever it is time. A piece that cannot be written is made up for by the next one.
func (r *recording) run(stopped context.Context) {
	defer close(r.done)
	defer func() {
		if p := recover(); p != nil {
			// The response goes on without a recording. A panic here would end the process, and the next one would come
			// to the same place.
			utilruntime.HandleErrorWithContext(stopped, fmt.Errorf("%v\n%s", p, debug.Stack()), "recording a model response panicked")
		}
	}()
	timer := time.NewTimer(r.interval())
	defer timer.Stop()
	for {
		select {
		case <-stopped.Done():
			return
		case <-r.calls:
			// The end of the try finds out whether this has failed, and tries again.
			_ = r.discard(stopped)
			return
		case <-timer.C:
			if r.write(stopped) {
				timer.Reset(r.interval())
			}
		}
	}
}

// interval is how long the next piece waits.
func (r *recording) interval() time.Duration {
	return max(keepEvery, time.Since(r.began)/keepParts)
}

// write writes down what was heard, and says whether there may be more to write.
func (r *recording) write(ctx context.Context) (goOn bool) {
	r.mu.Lock()
	text := r.heard
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
	return !closed && !hopeless(err)
}

// hopeless reports whether a piece cannot be written later either, or should not be.
func hopeless(err error) bool {
	return errors.Is(err, journal.ErrFull) || errors.Is(err, journal.ErrTooLarge) || errors.Is(err, journal.ErrRefused) ||
		errors.Is(err, journal.ErrCorrupt) || errors.Is(err, journal.ErrFormat)
}

// discard takes back what was written. Until it has, nothing that follows may happen: a later process would take that
// text for the answer.
func (r *recording) discard(ctx context.Context) error {
	if !r.tried || r.discarded {
		return nil
	}
	err := discard(ctx, r.draft)
	r.discarded = err == nil
	return err
}

// end ends the recording of a try that is over. What was written counts only as long as a text alone may be the answer.
// A response that is whole goes on without an error: a journal that does not take this does not take the response
// either, which is kept until it does.
func (r *recording) end(ctx context.Context, answer *model.Response, failure error) error {
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

// discard takes back what was kept of an answer. It tries for a while, unless trying again is of no use.
func discard(ctx context.Context, draft *journal.Draft) error {
	ctx, cancel := context.WithTimeout(ctx, discardTimeout)
	defer cancel()
	for delay := firstRetry; ; delay = min(2*delay, lastRetry) {
		_, err := draft.Discard(ctx)
		if err == nil || hopeless(err) || wait(ctx, delay) != nil {
			return err
		}
	}
}

// wait waits, and gives up with the context.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
