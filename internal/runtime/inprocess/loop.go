// Package inprocess runs Turns in the calling process, without an API server: the planner, the steps, the journal and
// the fold are those of the controllers, and so is a Turn's status (RT-04 to RT-07).
//
// Each running Turn has its own goroutine, which is the only one to work on it. It opens a step, runs it, closes it by
// an entry of the journal, and projects that entry into the status, until the Turn has ended. The Turns of one Session
// run one after another, in the order of their arrival (GAP-15).
//
// The journal has all state that a process loses when it ends: a Turn of the same name and message continues where the
// journal shows that it was. This never starts a call twice that may start only once: it is claimed in the journal
// before it starts.
package inprocess

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/config"
	"github.com/capstan-dev/capstan/internal/runtime/step"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// ErrStopped means that the loop has ended while a Turn was running. The Turn's state stays in the journal; another
// loop can continue it.
var ErrStopped = errors.New("the runtime has been stopped")

// Clock returns the current time.
type Clock interface {
	// Now returns the current time.
	Now() time.Time
	// Reach waits until a time is reached, and reports false if the context ends first.
	Reach(ctx context.Context, t time.Time) bool
}

// Objects are the current objects that Turns use. They are safe for concurrent use.
type Objects interface {
	config.Source
	// Session returns the Session of a name; nil for none.
	Session(name string) *v1alpha1.Session
	// Texts reads the definitions of the tools of MCPServers. All else is whole.
	Texts() turnstate.Texts
	// AddSession adds the Session of a sub-agent, and returns it; or the one that has its name, unchanged.
	AddSession(session *v1alpha1.Session) (*v1alpha1.Session, error)
}

// Job is a call of a Job tool, for the function that replaces its container.
type Job struct {
	// Turn that makes the call, and its Session.
	Turn    *v1alpha1.Turn
	Session string
	// Call as it was pinned.
	Call v1alpha1.ToolCall
	// Tool that is called.
	Tool *v1alpha1.Tool
	// Arguments as the tool gets them.
	Arguments string
	// Locale of the response to the user; empty for none.
	Locale string
	// Inputs are the files that the tool gets, and Outputs the paths of those that it returns; nil for a Tool that shares
	// none.
	Inputs  *result.Files
	Outputs []string
	// KeepsOutput reports whether an output that is longer than a result is kept.
	KeepsOutput bool
}

// Options are the dependencies of a Loop. All but OnPause are required.
type Options struct {
	// Steps runs the steps.
	Steps *step.Runner
	// Objects that Turns run with.
	Objects Objects
	// Clock returns the current time.
	Clock Clock
	// Jobs runs a call of a Job tool and returns the report that a launcher would have written; false if no function
	// replaces the tool. The context ends when the call is to stop.
	Jobs func(ctx context.Context, job Job) (result.Report, bool)
	// Log receives the errors that no Turn shows.
	Log *slog.Logger
	// OnPause is called when a tool call waits for its next attempt, or a model call for its rate limit, with the time of
	// that.
	OnPause func(until time.Time)
}

// Loop runs Turns. It is safe for concurrent use.
type Loop struct {
	Options
	// life ends with the process that the loop represents.
	life context.Context //nolint:containedctx // Turns outlive the calls that begin them.

	mu       sync.Mutex
	sessions map[string]*queue
	turns    map[string]*run
	// taskEnded is closed when the end of a background task was delivered.
	taskEnded chan struct{}

	// process identifies the process that the loop represents.
	process types.UID
	// tasks is held by what follows for background tasks, and guards taskRuns, those that run. It is locked before mu.
	tasks    sync.Mutex
	taskRuns map[string]*taskRun
}

// New returns a Loop that lives as long as the context. When that ends, Turns stay where they are, as those of a
// manager that is stopped.
func New(life context.Context, o Options) *Loop {
	return &Loop{
		Options: o, life: life, sessions: map[string]*queue{}, turns: map[string]*run{},
		taskRuns: map[string]*taskRun{}, taskEnded: make(chan struct{}), process: types.UID(uuid.NewString()),
	}
}

// Run runs a Turn until it has ended or waits for ToolResults or a Secret, and returns it with its status. The Turn has
// a name, a UID and a Session that exists. If it is running already, Run waits for it; it is an error if the running
// Turn has another message. If ctx ends first, the Turn is cancelled, and returned with the context's error (RT-04).
func (l *Loop) Run(ctx context.Context, turn *v1alpha1.Turn) (*v1alpha1.Turn, error) {
	r, err := l.submit(turn)
	if err != nil {
		return nil, err
	}
	return l.await(ctx, r)
}

// submit adds a Turn to its Session's queue, or finds it there.
func (l *Loop) submit(turn *v1alpha1.Turn) (*run, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.life.Err(); err != nil {
		return nil, ErrStopped
	}
	if known := l.turns[turn.Name]; known != nil && !known.done {
		if !known.same(turn) {
			return nil, fmt.Errorf("a Turn named %q with another message is in progress: use another name", turn.Name)
		}
		return known, nil
	}
	q := l.queueOf(turn.Spec.SessionRef.Name)
	if q.ended {
		return nil, fmt.Errorf("the Session %q has ended: apply one with another name", turn.Spec.SessionRef.Name)
	}
	q.order++
	r := newRun(l, q, turn)
	l.turns[turn.Name] = r
	q.add(r)
	return r, nil
}

// queueOf returns the queue of a Session. The lock is held.
func (l *Loop) queueOf(session string) *queue {
	q := l.sessions[session]
	if q == nil {
		q = &queue{}
		l.sessions[session] = q
		go l.resumeTasks(session)
	}
	return q
}

// Turn returns a Turn that was passed to Run, with its current status; nil for an unused name.
func (l *Loop) Turn(name string) *v1alpha1.Turn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.turns[name]; r != nil {
		return r.shown.DeepCopy()
	}
	return nil
}

// Await waits until a Turn has ended or waits for ToolResults or a Secret, and returns it. If ctx ends first it returns
// the Turn in its current state, with the context's error, and the Turn continues.
func (l *Loop) Await(ctx context.Context, name string) (*v1alpha1.Turn, error) {
	r, err := l.find(name)
	if err != nil {
		return nil, err
	}
	return l.watch(ctx, r)
}

// Cancel ends a Turn, as its desiredState does, and returns it once it has ended. A Turn that has ended stays
// unchanged.
func (l *Loop) Cancel(ctx context.Context, name string) (*v1alpha1.Turn, error) {
	r, err := l.find(name)
	if err != nil {
		return nil, err
	}
	l.cancel(r)
	return l.watch(ctx, r)
}

func (l *Loop) find(name string) (*run, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.turns[name]; r != nil {
		return r, nil
	}
	return nil, fmt.Errorf("no Turn named %q: run it first", name)
}

// cancel requests the end of a Turn.
func (l *Loop) cancel(r *run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.done {
		return
	}
	r.shown.Spec.DesiredState = v1alpha1.DesiredStateCancelled
	r.cancelled, r.waits = true, false
	if r.queue.remove(r) {
		if r.shown.Spec.Delivery == v1alpha1.DeliverySteer {
			go l.withdraw(r)
			return
		}
		now := metav1.NewMicroTime(l.Clock.Now())
		turnstate.Apply(&r.shown.Status, r.shown.Generation, turnstate.CancelledBeforeStart(now), now)
		r.finish(nil)
		return
	}
	r.alert()
}

// withdraw ends a Turn whose message may be being steered into another one: the journal decides which comes first.
func (l *Loop) withdraw(r *run) {
	l.mu.Lock()
	message := r.shown.DeepCopy()
	l.mu.Unlock()
	session := l.Objects.Session(message.Spec.SessionRef.Name)
	progress, into, err := l.Steps.CancelSteer(l.life, turnstate.TurnOf(message, session), 0)
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.done {
		return
	}
	if err == nil {
		if into != nil {
			r.shown.Status.SteeredInto = &v1alpha1.TurnReference{Name: into.Name, UID: into.UID}
		}
		turnstate.Apply(&r.shown.Status, r.shown.Generation, progress, metav1.NewMicroTime(l.Clock.Now()))
	}
	r.finish(err)
}

// Changed reports that Objects have changed: waiting Turns check them again.
func (l *Loop) Changed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, q := range l.sessions {
		if q.active != nil {
			q.active.waits = false // Until it has checked them.
			q.active.alert()
		}
	}
}

// await waits for a Turn, and cancels it when ctx ends first.
func (l *Loop) await(ctx context.Context, r *run) (*v1alpha1.Turn, error) {
	turn, err := l.watch(ctx, r)
	if ctx.Err() == nil || l.life.Err() != nil || r.over() {
		return turn, err
	}
	l.cancel(r)
	ended, endErr := l.watch(context.WithoutCancel(ctx), r)
	return ended, errors.Join(err, endErr)
}

// watch waits until a Turn has ended, or waits for others.
func (l *Loop) watch(ctx context.Context, r *run) (*v1alpha1.Turn, error) {
	for {
		turn, changed, err := r.current()
		if changed == nil {
			return turn, err
		}
		select {
		case <-changed:
		case <-l.life.Done():
			return turn, ErrStopped
		case <-ctx.Done():
			if l.life.Err() != nil {
				return turn, ErrStopped
			}
			return turn, fmt.Errorf("waiting for Turn %s: %w", r.shown.Name, context.Cause(ctx))
		}
	}
}

// config returns the current configuration of a Turn of a Session.
func (l *Loop) config(ctx context.Context, session *v1alpha1.Session, turn *v1alpha1.Turn) (turnstate.Config, error) {
	resolved, err := config.Resolve(ctx, l.Objects, session)
	if err != nil {
		return turnstate.Config{}, fmt.Errorf("resolving the configuration of Session %s: %w", session.Name, err)
	}
	c := turnstate.ConfigOf(resolved, turnstate.ControlsOf(turn))
	c.Texts = l.Objects.Texts()
	return c, nil
}
