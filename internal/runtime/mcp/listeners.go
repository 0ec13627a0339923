package mcp

import (
	"context"
	"crypto/sha256"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capstan-dev/capstan/internal/runtime/egress"
)

const (
	// DefaultMaxListeners is the number of servers that are listened to without ListenersOptions.Max.
	DefaultMaxListeners = 128
	// maxNoticesBytes is the maximum size of all notices of a server until it is listened to anew.
	maxNoticesBytes = 256 << 10
	// maxSilence is how long a stream may have no data.
	maxSilence = 6 * time.Hour
	// openTimeout is how long a stream may take to open.
	openTimeout = 10 * time.Second
)

// Subject is an MCPServer whose server is listened to.
type Subject struct {
	Namespace, Name string
}

// ListenersOptions are the limits of Listeners, and what they call.
type ListenersOptions struct {
	// Max is the number of servers that are listened to. A namespace alone may have all but an eighth. Default
	// DefaultMaxListeners.
	Max int
	// Noticed is called when a server has noticed that its tools have changed. It must not block.
	Noticed func(Subject)
}

// Listeners listen to servers that send a notice when their tools change: by a stream that stays open, with servers of
// both generations of the protocol. A stream that has ended is not opened again before the next Listen. What a server
// sends is bounded: its notices by their size, and its own requests by those that are responded to at once.
type Listeners struct {
	egress  *egress.Client
	options ListenersOptions

	mu     sync.Mutex
	of     map[Subject]*listener
	order  []Subject
	closed bool
}

// listener is what is known of one server.
type listener struct {
	// of identifies the url and the headers.
	of [sha256.Size]byte
	// silent reports whether the server does not send notices.
	silent bool
	// end ends the stream; nil for none.
	end context.CancelFunc
}

// NewListeners returns Listeners that listen to no server.
func NewListeners(client *egress.Client, o ListenersOptions) *Listeners {
	if o.Max <= 0 {
		o.Max = DefaultMaxListeners
	}
	return &Listeners{egress: client, options: o, of: map[Subject]*listener{}}
}

// Open is the number of servers that are listened to.
func (l *Listeners) Open() int {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.order)
}

// Listen listens to a server, unless it is listened to already or has not offered notices. It returns once the server
// would send one. An error of the server is none here: its tools are discovered from time to time as well.
func (l *Listeners) Listen(ctx context.Context, subject Subject, server Server) {
	if l == nil {
		return
	}
	of := server.identity()
	if l.known(subject, of) {
		return
	}
	l.Forget(subject)
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	alive, end := context.WithCancel(context.WithoutCancel(ctx))
	next := &listener{of: of, end: end}
	s := &streams{ended: end}
	session, err := l.connect(ctx, server, s, func() { l.options.Noticed(subject) })
	if err != nil {
		end()
	} else {
		about := session.InitializeResult()
		offered := about.Capabilities != nil && about.Capabilities.Tools != nil && about.Capabilities.Tools.ListChanged
		forgetAbout(about)
		if next.silent = !offered || !s.opened.Load(); next.silent {
			end()
		}
		// The session ends with the stream, and the stream with the session.
		go func() {
			<-alive.Done()
			l.remove(subject, next)
			_ = session.Close() // Nothing can be done about a session that the server keeps.
		}()
	}
	if alive.Err() != nil {
		next.end = nil
	}
	l.add(subject, next)
}

// connect opens the stream of a server.
func (l *Listeners) connect(
	ctx context.Context, server Server, s *streams, noticed func(),
) (*sdk.ClientSession, error) {
	s.transport = newTransport(l.egress, server, egress.TransportOptions{MaxBody: maxNoticesBytes, Idle: maxSilence})
	client := sdk.NewClient(implementation(), &sdk.ClientOptions{
		Capabilities:           &sdk.ClientCapabilities{},
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { noticed() },
	})
	return client.Connect(ctx, &sdk.StreamableClientTransport{
		Endpoint:     server.URL,
		HTTPClient:   &http.Client{Transport: s},
		MaxRetries:   -1,
		MaxEventSize: maxNoticesBytes,
	}, nil)
}

// streams sends the requests of a client that listens. It knows the one whose response is the stream of notices.
type streams struct {
	*transport
	// opened reports whether the stream has begun, and ended is called once it has ended.
	opened atomic.Bool
	ended  func()
}

// RoundTrip implements http.RoundTripper.
func (s *streams) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet && methodOf(r) != methodListen {
		return s.transport.RoundTrip(r)
	}
	ctx, cancel := context.WithCancel((&exchange{bulky: true}).within(r.Context()))
	patience := time.AfterFunc(openTimeout, cancel)
	answer, err := s.transport.RoundTrip(r.WithContext(ctx))
	if err != nil {
		cancel()
		s.ended()
		return nil, err
	}
	patience.Stop()
	if answer.StatusCode/100 == 2 {
		s.opened.Store(true)
	}
	answer.Body = &streamed{ReadCloser: answer.Body, ended: func() {
		cancel()
		s.ended()
	}}
	return answer, nil
}

// streamed is the body of a stream.
type streamed struct {
	io.ReadCloser
	ended func()
}

// Read implements io.Reader.
func (s *streamed) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if err != nil {
		s.ended()
	}
	return n, err
}

// Close implements io.Closer.
func (s *streamed) Close() error {
	s.ended()
	return s.ReadCloser.Close()
}

// known reports whether there is nothing to do for a server.
func (l *Listeners) known(subject Subject, of [sha256.Size]byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.of[subject]
	return l.closed || k != nil && k.of == of && (k.silent || k.end != nil)
}

// Tried reports whether a server with this url and these headers was listened to before, whether it could be or not.
func (l *Listeners) Tried(subject Subject) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed || l.of[subject] != nil
}

// add adds what is known of a server, and ends the streams that there is no room for.
func (l *Listeners) add(subject Subject, next *listener) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of[subject] = next
	if next.end == nil {
		return
	}
	if l.closed {
		l.stop(subject)
		return
	}
	l.order = append(l.order, subject)
	have := map[string]int{}
	for _, s := range l.order {
		have[s.Namespace]++
	}
	if namespace, must := surplus(have, subject.Namespace, l.options.Max); must {
		i := slices.IndexFunc(l.order, func(s Subject) bool { return s.Namespace == namespace })
		l.stop(l.order[i])
	}
}

// remove records that a stream has ended.
func (l *Listeners) remove(subject Subject, ended *listener) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of[subject] == ended {
		l.stop(subject)
	}
}

// stop ends the stream of a server, with the lock held.
func (l *Listeners) stop(subject Subject) {
	l.order = slices.DeleteFunc(l.order, func(s Subject) bool { return s == subject })
	if k := l.of[subject]; k != nil && k.end != nil {
		k.end()
		k.end = nil
	}
}

// Forget ends the stream of an MCPServer, which has changed or is gone.
func (l *Listeners) Forget(subject Subject) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop(subject)
	delete(l.of, subject)
}

// Close ends all streams. No server is listened to afterwards.
func (l *Listeners) Close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for subject := range l.of {
		l.stop(subject)
	}
}
