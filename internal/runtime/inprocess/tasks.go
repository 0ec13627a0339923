package inprocess

import (
	"context"
	"errors"
	"fmt"

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

// taskRun is a background task that a function of this process carries out.
type taskRun struct {
	stop context.CancelFunc
}

// Admit implements background.Host: a process has one namespace, and its tests bound it.
func (TaskHost) Admit(context.Context, background.Session) error { return nil }

// Changed implements background.Host.
func (h TaskHost) Changed(_ context.Context, of background.Session) error {
	return h.advanceTasks(of)
}

// resumeTasks looks at the tasks that an earlier process has left in a Session: it has ended with them.
func (l *Loop) resumeTasks(name string) {
	session := l.Objects.Session(name)
	if session == nil || l.Steps.Records == nil {
		return
	}
	of := background.Session{Namespace: session.Namespace, Name: session.Name, UID: session.UID}
	if err := l.advanceTasks(of); err != nil && l.life.Err() == nil {
		l.Log.Error("Failed to resume the background tasks", "error", err, "session", session.Name)
	}
}

// advanceTasks carries out what follows for the active tasks of a Session.
func (l *Loop) advanceTasks(of background.Session) error {
	l.tasks.Lock()
	defer l.tasks.Unlock()
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

// advanceTask carries out what follows for a task.
func (l *Loop) advanceTask(of background.Session, tasks *background.Tasks, t *background.Task) error {
	run := l.taskRun(t.ID)
	var outcome tool.Outcome
	switch {
	case t.End != nil:
		return l.deliverTask(of, tasks, t)
	case t.Cancelled != nil && t.PodUID == "":
		outcome = background.CancelledBeforeStart()
	case t.PodUID == "":
		return l.startTask(of, tasks, t)
	case t.PodUID != l.process:
		outcome = tool.Unknown(v1alpha1.ToolCallReasonManagerLost, "the process that ran it has ended")
	case t.Cancelled != nil && run != nil:
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
	l.mu.Lock()
	l.taskRuns[t.ID] = &taskRun{stop: stop}
	l.mu.Unlock()
	go func() {
		defer stop()
		outcome, _ := l.carryOut(ctx, *job)
		if l.life.Err() != nil {
			return
		}
		if err := l.endTask(of, tasks, recorded, outcome); err != nil {
			l.Log.Error("Failed to end a background task", "error", err, "session", of.Name, "task", t.ID)
		}
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

// endTask records the end of a task that this process has run, and delivers it.
func (l *Loop) endTask(
	of background.Session, tasks *background.Tasks, t *background.Task, outcome tool.Outcome,
) error {
	l.tasks.Lock()
	defer l.tasks.Unlock()
	now, err := tasks.Get(l.life, t.ID)
	if err != nil || now == nil {
		return err
	}
	if now.Cancelled != nil {
		outcome = background.CancelledAfterStart(outcome)
	}
	ended, err := tasks.End(l.life, now, outcome)
	if err != nil || ended == nil {
		return err
	}
	return l.deliverTask(of, tasks, ended)
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
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.taskRuns, t.ID)
	close(l.taskEnded)
	l.taskEnded = make(chan struct{})
	return nil
}

func (l *Loop) taskRun(id string) *taskRun {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.taskRuns[id]
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
