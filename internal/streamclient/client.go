package streamclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
)

const (
	// silence is how long a connection may be without a byte: three heartbeats.
	silence = 45 * time.Second
	// patience is how long the manager may be out of reach.
	patience = 2 * time.Minute
	// firstPause and lastPause are the pauses between attempts to connect.
	firstPause, lastPause = 200 * time.Millisecond, 10 * time.Second
	// maxAnswer bounds the answer to a request that was refused.
	maxAnswer = 64 << 10
	// maxRefused is how often new credentials are tried.
	maxRefused = 2
)

// Endpoint is where the manager serves.
type Endpoint struct {
	// URL of the server, without a path.
	URL string
	// Client sends requests with the credentials of the caller.
	Client *http.Client
}

// Endpoints finds the manager.
type Endpoints interface {
	// Endpoint returns where to connect until the context ends. It is called before each attempt. The error is an
	// *UnreachableError if there is no way.
	Endpoint(ctx context.Context) (Endpoint, error)
}

// Fixed is an Endpoint that does not change.
type Fixed Endpoint

// Endpoint implements Endpoints.
func (f Fixed) Endpoint(context.Context) (Endpoint, error) { return Endpoint(f), nil }

// UnreachableError reports that the manager cannot be reached. What happens can be seen by watching objects.
type UnreachableError struct{ Err error }

// Error implements error.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("the event stream of the manager cannot be reached: %v", e.Err)
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// EndedError reports that the manager has ended a stream for a reason that connecting again does not change.
type EndedError struct{ stream.StreamEnded }

// Error implements error.
func (e *EndedError) Error() string {
	return fmt.Sprintf("the event stream has ended: %s (%s)", e.Message, e.Reason)
}

// ErrReplaced reports that a Session was deleted and another one was created under its name.
var ErrReplaced = errors.New("the Session was deleted, and another one has its name")

// Client follows Sessions. It is safe for concurrent use.
type Client struct {
	Endpoints Endpoints
	// Silence and Patience replace the defaults: 45s without a byte end a connection, and 2m without a connection end
	// the stream with an *UnreachableError.
	Silence, Patience time.Duration
}

var _ stream.Follower = &Client{}

// Follow implements stream.Follower. The error is an *UnreachableError, an *EndedError, ErrReplaced, or the status with
// which the manager refuses (k8s.io/apimachinery/pkg/api/errors).
func (c *Client) Follow(ctx context.Context, session stream.Session, after int64) iter.Seq2[stream.Event, error] {
	return func(yield func(stream.Event, error) bool) {
		f := &following{Client: c, session: session, after: after, yield: yield, connected: time.Now()}
		if err := f.run(ctx); err != nil && !errors.Is(err, errStopped) && ctx.Err() == nil {
			yield(stream.Event{}, err)
		}
	}
}

// errStopped reports that the one who follows wants no more events, or that there are none.
var errStopped = errors.New("the one who follows has stopped")

// following is one call of Follow.
type following struct {
	*Client
	session stream.Session
	after   int64
	yield   func(stream.Event, error) bool

	// connected is when the last event or heartbeat came.
	connected time.Time
	refused   int
	failures  int
	// wait is what the manager has asked to wait before the next attempt.
	wait time.Duration
}

// run connects until there is nothing more to follow.
func (f *following) run(ctx context.Context) error {
	for {
		err := f.once(ctx)
		var final *finalError
		if errors.As(err, &final) {
			return final.error
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		patient := f.Patience
		if patient == 0 {
			patient = patience
		}
		if time.Since(f.connected) > patient {
			return &UnreachableError{err}
		}
		f.failures++
		timer := time.NewTimer(f.pause())
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// pause is the time before the next attempt: random, so that all clients of a manager do not come at once.
func (f *following) pause() time.Duration {
	longest := min(firstPause<<min(f.failures-1, 10), lastPause)
	wait := max(f.wait, longest/2+rand.N(longest/2))
	f.wait = 0
	return wait
}

// finalError is an error after which another attempt is of no use.
type finalError struct{ error }

// once connects once, and returns why the connection has ended.
func (f *following) once(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	endpoint, err := f.Endpoints.Endpoint(ctx)
	if err != nil {
		var unreachable *UnreachableError
		if errors.As(err, &unreachable) {
			return &finalError{unreachable}
		}
		return err
	}
	request, err := f.request(ctx, endpoint)
	if err != nil {
		return &finalError{err}
	}
	limit := f.Silence
	if limit == 0 {
		limit = silence
	}
	quiet := time.AfterFunc(limit, cancel)
	defer quiet.Stop()
	response, err := endpoint.Client.Do(request)
	if err != nil {
		return fmt.Errorf("connecting to the manager: %w", err)
	}
	defer func() { _ = response.Body.Close() }() // What was not read is of no use.
	if response.StatusCode != http.StatusOK {
		return f.refuse(response)
	}
	f.refused = 0
	events := newReader(response.Body, func() {
		f.connected, f.failures = time.Now(), 0
		quiet.Reset(limit)
	})
	for {
		data, err := events.next()
		if err != nil {
			return fmt.Errorf("reading the event stream: %w", err)
		}
		if err := f.receive(data); err != nil {
			return err
		}
	}
}

// request is the request for the events that are missing.
func (f *following) request(ctx context.Context, at Endpoint) (*http.Request, error) {
	path, err := url.JoinPath(at.URL, "v1", "namespaces", f.session.Namespace, "sessions", f.session.Name, "events")
	if err != nil {
		return nil, fmt.Errorf("the address %q of the manager: %w", at.URL, err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, path+"?after="+strconv.FormatInt(f.after, 10), nil)
	if err != nil {
		return nil, fmt.Errorf("the address %q of the manager: %w", at.URL, err)
	}
	request.Header.Set("Accept", "text/event-stream")
	return request, nil
}

// refuse returns what follows from an answer that is not a stream.
func (f *following) refuse(response *http.Response) error {
	refusal := refusal(response)
	switch response.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusGatewayTimeout,
		http.StatusInternalServerError:
		if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 {
			f.wait = min(time.Duration(seconds)*time.Second, lastPause)
		}
		return refusal
	case http.StatusUnauthorized:
		f.refused++
		if f.refused < maxRefused {
			return refusal // The credentials may have expired meanwhile.
		}
	}
	return &finalError{refusal}
}

// receive passes on an event.
func (f *following) receive(data []byte) error {
	var e stream.Event
	if err := json.Unmarshal(data, &e); err != nil {
		return fmt.Errorf("reading an event: %w", err)
	}
	if e.Session.UID != "" {
		if f.session.UID != "" && f.session.UID != e.Session.UID {
			return &finalError{ErrReplaced}
		}
		f.session.UID = e.Session.UID
	}
	switch {
	case e.Type == stream.TypeStreamEnded:
		return f.ended(e)
	case e.Sequence == 0:
	case e.Sequence <= f.after:
		return nil
	case e.Sequence != f.after+1:
		return fmt.Errorf("event %d follows event %d", e.Sequence, f.after)
	}
	if e.Sequence > 0 {
		f.after = e.Sequence
	}
	if !f.yield(e, nil) {
		return &finalError{errStopped}
	}
	return nil
}

// ended returns what follows from the end of a stream.
func (f *following) ended(e stream.Event) error {
	data, err := stream.Decode[stream.StreamEnded](e)
	if err != nil {
		return err
	}
	switch data.Reason {
	case stream.EndedSessionDeleted:
		f.yield(e, nil)
		return &finalError{errStopped}
	case stream.EndedJournal, stream.EndedSequenceUnknown:
		return &finalError{&EndedError{data}}
	default: // The next attempt finds out whether it goes on.
		return &EndedError{data}
	}
}
