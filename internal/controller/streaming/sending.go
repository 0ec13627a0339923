package streaming

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/feed"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

// Intervals of a stream. A zero value takes its default.
type Intervals struct {
	// Heartbeat is the longest time without a byte. Default 15s.
	Heartbeat time.Duration
	// Review is the time after which credentials and rights are checked again, and Unreviewed how long a stream goes on
	// while they cannot be. Default 1m and 3m.
	Review, Unreviewed time.Duration
	// Write bounds the time in which a caller must read a piece of at most 64 KiB. Default 30s.
	Write time.Duration
	// Retry is the pause after a failed read of the journal. Default 1s.
	Retry time.Duration
}

func (i Intervals) withDefaults() Intervals {
	for _, d := range []struct {
		value *time.Duration
		or    time.Duration
	}{
		{&i.Heartbeat, 15 * time.Second},
		{&i.Review, time.Minute},
		{&i.Unreviewed, 3 * time.Minute},
		{&i.Write, 30 * time.Second},
		{&i.Retry, time.Second},
	} {
		if *d.value == 0 {
			*d.value = d.or
		}
	}
	return i
}

const (
	// pieceBytes is how much is written at once.
	pieceBytes = 64 << 10
	// slowestBytes is how many bytes of an event a caller reads in a second at least.
	slowestBytes = 256 << 10
	// maxReadFailures ends a stream whose journal cannot be read. The caller connects again.
	maxReadFailures = 10
)

// sending is one stream.
type sending struct {
	*Handler
	subscription *feed.Subscription
	session      journal.Session
	request      *http.Request
	caller       *Caller
	action       Action
	w            http.ResponseWriter
	control      *http.ResponseController

	intervals Intervals
	// reviewed is when the caller was authenticated and authorized last, review when that is done again, and beat when
	// a heartbeat is due.
	reviewed, review, beat time.Time
	failures               int
}

// run sends events until the stream or the connection ends.
func (s *sending) run(ctx context.Context) {
	s.intervals = s.Intervals.withDefaults()
	header := s.w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no")
	header.Set("X-Content-Type-Options", "nosniff")
	s.w.WriteHeader(http.StatusOK)
	s.reviewed = s.Clock()
	s.schedule()
	if s.comment("connected") != nil {
		return
	}
	for {
		reason, message, err := s.one(ctx)
		if err != nil {
			return // The caller is gone.
		}
		if reason != "" {
			s.end(reason, message)
			return
		}
	}
}

// schedule sets the time of the next review: at the expiry of the credentials at the latest.
func (s *sending) schedule() {
	s.review = s.reviewed.Add(s.intervals.Review)
	if until := s.caller.Until; !until.IsZero() && until.Before(s.review) {
		s.review = until
	}
}

// one sends the next event, or does what is due before it. It returns the reason for which the stream ends, or an error
// if the caller is gone.
func (s *sending) one(ctx context.Context) (reason, message string, err error) {
	if now := s.Clock(); !now.Before(s.review) {
		if reason, message := s.again(ctx, now); reason != "" {
			return reason, message, nil
		}
	}
	due := s.review
	if s.beat.Before(due) {
		due = s.beat
	}
	waiting, cancel := context.WithTimeout(ctx, due.Sub(s.Clock()))
	frame, err := s.subscription.Next(waiting)
	over := waiting.Err() != nil
	cancel()
	if err == nil {
		s.failures = 0
		return "", "", s.write(ctx, frame)
	}
	if ctx.Err() != nil {
		return "", "", ctx.Err()
	}
	if errors.Is(err, context.DeadlineExceeded) && over {
		if s.Clock().Before(s.beat) {
			return "", "", nil
		}
		return "", "", s.comment("heartbeat")
	}
	return s.failed(ctx, err)
}

// failed returns the reason for which a stream ends after an error of its subscription; none if it is to be tried
// again.
func (s *sending) failed(ctx context.Context, err error) (reason, message string, gone error) {
	var ended *feed.EndedError
	switch {
	case errors.As(err, &ended):
		return ended.Reason, err.Error(), nil
	case errors.Is(err, feed.ErrBeyond):
		return stream.EndedSequenceUnknown, err.Error(), nil
	case errors.Is(err, journal.ErrCorrupt), errors.Is(err, journal.ErrFormat):
		return stream.EndedJournal, err.Error(), nil
	}
	s.failures++
	s.Log.Info("Failed to read the journal for a stream of events", "namespace", s.session.Namespace,
		"session", s.session.Name, "error", err.Error())
	if s.failures >= maxReadFailures {
		return stream.EndedShutdown, "the journal cannot be read now", nil
	}
	timer := time.NewTimer(s.intervals.Retry)
	defer timer.Stop()
	select {
	case <-timer.C:
		return "", "", nil
	case <-ctx.Done():
		return "", "", ctx.Err()
	}
}

// again authenticates and authorizes the caller again. It returns the reason for which the stream ends.
func (s *sending) again(ctx context.Context, now time.Time) (reason, message string) {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	if until := s.caller.Until; !until.IsZero() && !now.Before(until) {
		return stream.EndedUnauthorized, "the credentials have expired"
	}
	caller, err := s.Authenticator.Authenticate(s.request.WithContext(ctx))
	if errors.Is(err, errUnauthenticated) || err == nil && caller.GetName() != s.caller.GetName() {
		return stream.EndedUnauthorized, "the credentials are not valid any more"
	}
	allowed := false
	if err == nil {
		allowed, err = s.Authorizer.Allowed(ctx, caller, s.action)
	}
	switch {
	case err == nil && !allowed:
		return stream.EndedForbidden, forbidden(s.caller, s.action)
	case err == nil:
		s.caller, s.reviewed = caller, now
		s.schedule()
		return "", ""
	case now.Sub(s.reviewed) >= s.intervals.Unreviewed:
		return stream.EndedUnauthorized, "the API server cannot be asked whether the request is still allowed"
	}
	s.review = now.Add(s.intervals.Review / 4)
	return "", ""
}

// write sends a frame. The rights of the caller are reviewed when that is due, in the middle of a frame as well.
func (s *sending) write(ctx context.Context, f feed.Frame) error {
	review := func() error {
		now := s.Clock()
		if now.Before(s.review) {
			return nil
		}
		if reason, message := s.again(ctx, now); reason != "" {
			return fmt.Errorf("%s: %s", reason, message)
		}
		return nil
	}
	if err := s.bytes(f.Bytes, review); err != nil {
		return err
	}
	if s.subscription.More() {
		return nil
	}
	return s.flush()
}

// comment sends a comment, which clients ignore.
func (s *sending) comment(text string) error {
	if err := s.bytes([]byte(": "+text+"\n\n"), nil); err != nil {
		return err
	}
	return s.flush()
}

// bytes writes pieces, each of which the caller must read in time, and all of them at slowest so fast that memory which
// others wait for is not held for long. It asks before each piece, if review is set.
func (s *sending) bytes(all []byte, review func() error) error {
	end := time.Now().Add(s.intervals.Write + time.Duration(len(all))*time.Second/slowestBytes)
	for len(all) > 0 {
		if review != nil {
			if err := review(); err != nil {
				return err
			}
		}
		piece := all[:min(len(all), pieceBytes)]
		all = all[len(piece):]
		deadline := time.Now().Add(s.intervals.Write)
		if end.Before(deadline) {
			deadline = end
		}
		if err := s.control.SetWriteDeadline(deadline); err != nil {
			return fmt.Errorf("setting the time limit of a write: %w", err)
		}
		if _, err := s.w.Write(piece); err != nil {
			return fmt.Errorf("writing an event: %w", err)
		}
	}
	s.beat = s.Clock().Add(s.intervals.Heartbeat)
	return nil
}

func (s *sending) flush() error {
	if err := s.control.Flush(); err != nil {
		return fmt.Errorf("writing events: %w", err)
	}
	return nil
}

// end sends the last event.
func (s *sending) end(reason, message string) {
	frame, err := feed.EndFrame(s.session, s.Clock(), reason, message)
	if err == nil && s.bytes(frame.Bytes, nil) == nil {
		_ = s.flush() // A caller that is gone needs no reason.
	}
}
