package tooloutput

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/feed"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

const (
	// maxLogs bounds the logs that are followed at once, maxNamespaceLogs and maxSessionLogs those of a namespace and of
	// a Session.
	maxLogs, maxNamespaceLogs, maxSessionLogs = 64, 16, 8
	// maxCalls bounds the calls of a Session that are followed or wait for that.
	maxCalls = 64
	// bytesPerSecond bounds the text that is passed on, of all namespaces together, and burstBytes that of a moment.
	bytesPerSecond, burstBytes = 256 << 10, 64 << 10
	// turnTime is how long a log is followed while another one waits for its place.
	turnTime = 30 * time.Second
)

// Logs follows the logs of tool containers.
type Logs interface {
	// FollowToolLog returns at most so many bytes of a log, from its beginning on. The caller closes it.
	FollowToolLog(ctx context.Context, pod *corev1.Pod, most int64) (io.ReadCloser, error)
}

// Options are the settings of a Follower.
type Options struct {
	// Client has the Jobs and the pods of calls, from the cache.
	Client client.Reader
	// Logs are those of the pods.
	Logs Logs
	// Requests bounds the requests to the API server; nil for no bound.
	Requests *fairshare.Rate
	// Log receives the errors, which change nothing else.
	Log logr.Logger
}

// Follower follows the logs of running tools of Sessions with subscribers. It is a Runnable of the leader.
type Follower struct {
	Options

	places *fairshare.Pool
	bytes  *fairshare.Rate

	mu sync.Mutex
	// sessions are nil after the end of the leadership.
	sessions map[types.UID]*session
	logs     map[string]logs
	work     sync.WaitGroup
}

var _ feed.Outputs = &Follower{}

// session is a Session with subscribers.
type session struct {
	journal.Session
	receive func(feed.Output)
	// places are those of its logs, and waiting the logs that wait for one. The Follower's lock protects waiting.
	places  chan struct{}
	waiting int
	// calls are those that run, each with the end of its follower. One whose follower has ended stays until it runs no
	// more.
	calls map[attempt]context.CancelFunc
}

// New returns a Follower of no Sessions.
func New(o Options) *Follower {
	return &Follower{
		Options: o, sessions: map[types.UID]*session{}, logs: map[string]logs{},
		places: fairshare.NewPool(fairshare.Options{
			Total: fairshare.Amount{Places: maxLogs}, PerNamespace: fairshare.Amount{Places: maxNamespaceLogs},
		}),
		bytes: fairshare.NewRate(bytesPerSecond, burstBytes, nil),
	}
}

// Start waits for the end of the leadership, and ends all followers. It implements manager.Runnable.
func (f *Follower) Start(ctx context.Context) error {
	<-ctx.Done()
	f.stop()
	f.work.Wait()
	return nil
}

// stop ends all followers, and all later ones at once.
func (f *Follower) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.sessions {
		s.end()
	}
	f.sessions = nil
}

// logs counts those of a namespace.
type logs struct{ open, waiting int }

// count counts logs of a namespace.
func (f *Follower) count(namespace string, open, waiting int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := logs{f.logs[namespace].open + open, f.logs[namespace].waiting + waiting}
	if f.logs[namespace] = now; now == (logs{}) {
		delete(f.logs, namespace)
	}
}

// countWaiting counts logs of a Session that wait for a place in it.
func (f *Follower) countWaiting(s *session, more int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.waiting += more
}

// wanted reports whether another log waits for the place of one of a Session: one of the Session or of the namespace,
// or one of a namespace that may have more.
func (f *Follower) wanted(s *session) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.waiting > 0 || f.logs[s.Namespace].waiting > 0 {
		return true
	}
	if f.places.Held().Places < maxLogs {
		return false
	}
	for _, other := range f.logs {
		if other.waiting > 0 && other.open < maxNamespaceLogs {
			return true
		}
	}
	return false
}

// end ends the followers of a Session.
func (s *session) end() {
	for _, cancel := range s.calls {
		cancel()
	}
}

// Follow implements feed.Outputs.
func (f *Follower) Follow(of journal.Session, receive func(feed.Output)) (end func()) {
	s := &session{
		Session: of, receive: receive, places: make(chan struct{}, maxSessionLogs), calls: map[attempt]context.CancelFunc{},
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sessions != nil {
		f.sessions[of.UID] = s
	}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		s.end()
		if f.sessions[of.UID] == s {
			delete(f.sessions, of.UID)
		}
	}
}

// Turn implements feed.Outputs: it begins to follow the calls that run, and ends the followers of all others.
func (f *Follower) Turn(of types.UID, turn *v1alpha1.Turn) {
	calls := running(turn)
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.sessions[of]
	if s == nil {
		return
	}
	for one, cancel := range s.calls {
		if _, runs := calls[one]; one.turn == turn.UID && !runs {
			cancel()
			delete(s.calls, one)
		}
	}
	for one, call := range calls {
		if _, known := s.calls[one]; known || len(s.calls) == maxCalls {
			continue
		}
		ctx, cancel := context.WithCancel(context.Background())
		s.calls[one] = cancel
		followed := newCall(s, turn, one, call)
		f.work.Go(func() {
			defer cancel()
			f.follow(ctx, followed)
		})
	}
}

// call is an attempt of a tool call that is followed.
type call struct {
	*session
	attempt
	turn    stream.Turn
	status  v1alpha1.ToolCall
	context map[string]string
	read    output
}

func newCall(s *session, turn *v1alpha1.Turn, of attempt, status v1alpha1.ToolCall) *call {
	identity := event.Identity{
		Session: s.UID, Turn: turn.UID, InputMessage: string(turn.UID), TraceParent: turn.Spec.TraceParent,
	}
	return &call{
		session: s, attempt: of, turn: stream.Turn{Name: turn.Name, UID: turn.UID}, status: *status.DeepCopy(),
		context: event.NewFactory(identity, nil).Step(of.step, 1).ToolContext(of.call),
	}
}
