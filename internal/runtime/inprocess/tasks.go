package inprocess

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/background"
	"github.com/capstan-dev/capstan/internal/runtime/config"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
)

// TaskHost is the background.Host of a Loop.
type TaskHost struct{ *Loop }

var _ background.Host = TaskHost{}

// taskRetry is the pause after a change of the tasks of a Session that has failed.
const taskRetry = time.Second

// taskRun is a background task that a function of this process carries out. The lock of tasks guards it.
type taskRun struct {
	session types.UID
	stop    context.CancelFunc
	// outcome of the function; nil while it runs.
	outcome *tool.Outcome
}

// Announce implements background.Host: a process that starts looks at the tasks of each Session that it runs. It has
// one namespace, and its tests bound the tasks.
func (TaskHost) Announce(context.Context, background.Session, *background.Task) error { return nil }

// Changed implements background.Host. A task has begun when its call returns, unless something has failed.
func (h TaskHost) Changed(of background.Session) {
	if h.tryTasks(of) {
		go h.lookAtTasks(of)
	}
}

// resumeTasks looks at the tasks that an earlier process has left in a Session: it has ended with them.
func (l *Loop) resumeTasks(name string) {
	session := l.Objects.Session(name)
	if session == nil || l.Steps.Records == nil {
		return
	}
	l.lookAtTasks(background.Session{Namespace: session.Namespace, Name: session.Name, UID: session.UID})
}

// lookAtTasks carries out what follows for the active tasks of a Session. What has failed is tried again: nothing else
// would do so.
func (l *Loop) lookAtTasks(of background.Session) {
	for l.tryTasks(of) {
		if !l.Clock.Reach(l.life, l.Clock.Now().Add(taskRetry)) {
			return
		}
	}
}

// tryTasks does so once, and reports whether it is to be tried again.
func (l *Loop) tryTasks(of background.Session) bool {
	err := l.advanceTasks(of)
	if err == nil || l.life.Err() != nil {
		return false
	}
	l.Log.Error("Failed to advance the background tasks", "error", err, "session", of.Name)
	return true
}

// advanceTasks carries out what follows for the active tasks of a Session. A Session that has ended delivers nothing.
func (l *Loop) advanceTasks(of background.Session) error {
	l.tasks.Lock()
	defer l.tasks.Unlock()
	if l.sessionOver(of) {
		l.stopTasks(of)
		return nil
	}
	tasks := background.Of(l.Steps.Records, of, l.Clock.Now)
	active, err := tasks.List(l.life, true)
	if err != nil {
		return fmt.Errorf("reading the background tasks of Session %s: %w", of.Name, err)
	}
	var failed []error
	for i := range active {
		if err := l.advanceTask(of, tasks, &active[i]); err != nil {
			failed = append(failed, fmt.Errorf("background task %s: %w", active[i].ID, err))
		}
	}
	return errors.Join(failed...)
}

// sessionOver reports whether a Session has ended, or was replaced.
func (l *Loop) sessionOver(of background.Session) bool {
	session := l.Objects.Session(of.Name)
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.sessions[of.Name]
	return session == nil || session.UID != of.UID || q != nil && q.ended
}

// stopTasks stops the functions that run for the tasks of a Session.
func (l *Loop) stopTasks(of background.Session) {
	for id, run := range l.taskRuns {
		if run.session == of.UID {
			run.stop()
			delete(l.taskRuns, id)
		}
	}
}

// advanceTask carries out what follows for a task.
func (l *Loop) advanceTask(of background.Session, tasks *background.Tasks, t *background.Task) error {
	run := l.taskRuns[t.ID]
	var outcome tool.Outcome
	switch {
	case t.End != nil:
		return l.deliverTask(of, tasks, t)
	case t.Cancelled != nil && t.PodUID == "":
		outcome = background.CancelledBeforeStart()
	case t.PodUID == "", t.PodUID == l.process && run == nil:
		return l.startTask(of, tasks, t)
	case t.PodUID != l.process:
		outcome = tool.Unknown(v1alpha1.ToolCallReasonManagerLost, "the process that ran it has ended")
	case run.outcome != nil && t.Cancelled != nil:
		outcome = background.CancelledAfterStart(*run.outcome)
	case run.outcome != nil:
		outcome = *run.outcome
	case t.Cancelled != nil:
		run.stop()
		return nil
	default:
		return nil
	}
	ended, err := tasks.End(l.life, t, outcome)
	if err != nil || ended == nil {
		return err
	}
	return l.deliverTask(of, tasks, ended)
}

// startTask records that this process runs a task, and runs it.
func (l *Loop) startTask(of background.Session, tasks *background.Tasks, t *background.Task) error {
	job, refused, err := l.taskJob(of, tasks, t)
	if err != nil {
		return err
	}
	if refused != nil {
		ended, err := tasks.End(l.life, t, *refused)
		if err != nil || ended == nil {
			return err
		}
		return l.deliverTask(of, tasks, ended)
	}
	recorded, err := tasks.RecordPod(l.life, t.ID, l.process)
	if err != nil || recorded == nil || recorded.PodUID != l.process {
		return err
	}
	ctx, stop := context.WithCancel(l.life)
	run := &taskRun{session: of.UID, stop: stop}
	l.taskRuns[t.ID] = run
	go func() {
		defer stop()
		outcome, _ := l.carryOut(ctx, *job)
		if l.life.Err() != nil {
			return
		}
		l.tasks.Lock()
		run.outcome = &outcome
		l.tasks.Unlock()
		l.lookAtTasks(of)
	}()
	return nil
}

// taskJob returns what a function carries out for a task, or the outcome of a task that must not start.
func (l *Loop) taskJob(
	of background.Session, tasks *background.Tasks, t *background.Task,
) (*Job, *tool.Outcome, error) {
	session := l.Objects.Session(of.Name)
	if session == nil || session.UID != of.UID {
		return nil, nil, fmt.Errorf("reading Session %s: it does not exist", of.Name)
	}
	resolved, err := config.Resolve(l.life, l.Objects, session)
	if err != nil {
		return nil, nil, fmt.Errorf("resolving the configuration of Session %s: %w", of.Name, err)
	}
	current := resolved.Tools[t.Tool.Name]
	if current == nil || !definition.Of(current).Holds(t.Call()) || !background.Allowed(&current.Spec) {
		changed := tool.Changed()
		return nil, &changed, nil
	}
	arguments, err := tasks.Arguments(l.life, t.ID)
	if err != nil {
		return nil, nil, fmt.Errorf("reading its arguments: %w", err)
	}
	turn := l.Turn(t.Turn.Name)
	if turn == nil {
		turn = &v1alpha1.Turn{}
		turn.Namespace, turn.Name, turn.UID = of.Namespace, t.Turn.Name, t.Turn.UID
		turn.Spec.SessionRef.Name = of.Name
	}
	return &Job{
		Turn: turn, Session: of.Name, Call: t.Call(), Tool: current, Arguments: arguments, Locale: t.Locale,
	}, nil, nil
}

// deliverTask runs the Turn that delivers the end of a task.
func (l *Loop) deliverTask(of background.Session, tasks *background.Tasks, t *background.Task) error {
	text := ""
	if t.End.State == v1alpha1.ToolCallStateSucceeded {
		var err error
		text, err = tasks.Result(l.life, t.ID)
		if err != nil && !errors.Is(err, record.ErrNotFound) {
			return fmt.Errorf("reading its result: %w", err)
		}
	}
	own := background.NewTurn(of, t, text)
	own.UID, own.Generation = types.UID(uuid.NewString()), 1
	if _, err := l.submit(own); err != nil {
		return err
	}
	if _, err := tasks.Deliver(l.life, t.ID); err != nil {
		return err
	}
	delete(l.taskRuns, t.ID)
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.taskEnded)
	l.taskEnded = make(chan struct{})
	return nil
}

// AwaitTask waits until the end of a background task was delivered, and returns the Turn that delivers it, once that
// has ended or waits.
func (l *Loop) AwaitTask(ctx context.Context, id string) (*v1alpha1.Turn, error) {
	for {
		l.mu.Lock()
		r, ended := l.turns[background.Name(id)], l.taskEnded
		l.mu.Unlock()
		if r != nil {
			return l.watch(ctx, r)
		}
		select {
		case <-ended:
		case <-l.life.Done():
			return nil, ErrStopped
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for background task %s: %w", id, context.Cause(ctx))
		}
	}
}
