package background

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/excerpt"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// StoreName is the name of the store that has the tasks of a Session.
const StoreName = "tasks"

// Keys of the store, and the kinds of the records of tasks.
const (
	taskPrefix     = "task/"
	argumentPrefix = "arguments/"
	resultPrefix   = "result/"
	rootsKey       = "roots"

	kindActive    = "active"
	kindDelivered = "delivered"
)

// Session names the Session of tasks.
type Session = record.Session

// Tasks are the tasks of a Session. They are safe for concurrent use.
type Tasks struct {
	store record.Store
	scope record.Scope
	clock func() time.Time
}

// Of returns the tasks of a Session.
func Of(store record.Store, of Session, clock func() time.Time) *Tasks {
	return &Tasks{store: store, clock: clock, scope: of.Scope(StoreName)}
}

// LimitError is why a task cannot be started. Its text is for the model.
type LimitError struct{ text string }

// Error implements error.
func (e *LimitError) Error() string { return e.text }

// TooMany is why no task can be started in a namespace that has as many as it may have.
func TooMany(most int32) error {
	return &LimitError{fmt.Sprintf(
		"the namespace has at least %d background tasks, and more are not permitted. Try again when one has ended", most)}
}

// tooMany is why no task can be started in a Session that has as many as it may have.
func tooMany(active int) error {
	return &LimitError{fmt.Sprintf("this session has %d background tasks; at most %d can be active. Wait for one of them "+
		"to end, or cancel one with %s", active, MaxActive, CancelTool)}
}

// counted is the number of tasks that have followed from the message of a Turn.
type counted struct {
	UID   types.UID `json:"uid"`
	Tasks int       `json:"tasks"`
}

// Prepare returns the task that a call has started, if it has, and nil otherwise. The error is a *LimitError if it must
// not start one. Nothing is changed.
func (s *Tasks) Prepare(ctx context.Context, t *Task) (*Task, error) {
	x, err := s.store.List(ctx, s.scope)
	if err != nil {
		return nil, err
	}
	if _, exists := x.Find(taskPrefix + t.ID); exists {
		return s.Get(ctx, t.ID)
	}
	_, err = s.start(ctx, x, t, "")
	return nil, err
}

// Start records a task that was announced, with its arguments, or finds it: a repeated operation of the same cause
// changes nothing. The error is a *LimitError if the task must not start.
func (s *Tasks) Start(ctx context.Context, cause record.Cause, t Task, arguments string) (Task, error) {
	t.ID, t.Recorded = ID(t.Turn.UID, t.CallID), s.clock().UTC()
	_, err := s.store.Update(ctx, s.scope, cause,
		func(ctx context.Context, x *record.Index) (*record.Operation, error) {
			if _, exists := x.Find(taskPrefix + t.ID); exists {
				return nil, nil
			}
			return s.start(ctx, x, &t, arguments)
		})
	if err != nil {
		return Task{}, err
	}
	found, err := s.Get(ctx, t.ID)
	if err == nil && found == nil {
		// It was delivered and forgotten since: the call is an old one.
		found = &t
		found.Delivered = true
	}
	if err != nil {
		return Task{}, err
	}
	return *found, nil
}

// start returns the operation that records a task, and forgets the oldest of those that were delivered.
func (s *Tasks) start(
	ctx context.Context, x *record.Index, t *Task, arguments string,
) (*record.Operation, error) {
	var active int
	var delivered []record.Item
	for _, item := range x.Items {
		switch {
		case !strings.HasPrefix(item.Key, taskPrefix):
		case item.Kind == kindActive:
			active++
		default:
			delivered = append(delivered, item)
		}
	}
	if active >= MaxActive {
		return nil, tooMany(active)
	}
	roots, err := s.count(ctx, x, t)
	if err != nil {
		return nil, err
	}
	own, err := put(t)
	if err != nil {
		return nil, err
	}
	o := &record.Operation{Put: []record.Put{
		own, roots, {Key: argumentPrefix + t.ID, Value: []byte(tool.ArgumentsOrEmpty(arguments))},
	}}
	slices.SortFunc(delivered, func(a, b record.Item) int { return cmp.Compare(a.Revision, b.Revision) })
	for _, item := range delivered[:max(len(delivered)-maxKept+1, 0)] {
		id := strings.TrimPrefix(item.Key, taskPrefix)
		o.Delete = append(o.Delete, item.Key, resultPrefix+id)
	}
	return o, nil
}

// count counts a task for the message that it follows from.
func (s *Tasks) count(ctx context.Context, x *record.Index, t *Task) (record.Put, error) {
	var roots []counted
	if item, found := x.Find(rootsKey); found {
		value, err := s.store.Load(ctx, s.scope, item)
		if err == nil {
			err = json.Unmarshal(value, &roots)
		}
		if err != nil {
			return record.Put{}, fmt.Errorf("reading the number of tasks: %w", err)
		}
	}
	at := slices.IndexFunc(roots, func(c counted) bool { return c.UID == t.Root.UID })
	if at < 0 && t.Root.UID != t.Turn.UID || at >= 0 && roots[at].Tasks >= MaxPerRoot {
		return record.Put{}, &LimitError{fmt.Sprintf("at most %d background tasks can follow from one message of the user. "+
			"Report what you have and wait for the next message", MaxPerRoot)}
	}
	c := counted{UID: t.Root.UID}
	if at >= 0 {
		c = roots[at]
		roots = slices.Delete(roots, at, at+1)
	}
	c.Tasks++
	roots = append(roots, c)
	roots = roots[max(len(roots)-maxRoots, 0):]
	value, err := json.Marshal(roots)
	return record.Put{Key: rootsKey, Value: value}, err
}

// put returns the record of a task.
func put(t *Task) (record.Put, error) {
	value, err := json.Marshal(t)
	if err != nil {
		return record.Put{}, fmt.Errorf("encoding task %s: %w", t.ID, err)
	}
	kind := kindActive
	if t.Delivered {
		kind = kindDelivered
	}
	return record.Put{Key: taskPrefix + t.ID, Value: value, Kind: kind}, nil
}

// Get returns a task; nil for none.
func (s *Tasks) Get(ctx context.Context, id string) (*Task, error) {
	_, value, err := s.store.Get(ctx, s.scope, taskPrefix+id)
	if errors.Is(err, record.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading task %s: %w", id, err)
	}
	return decode(value)
}

func decode(value []byte) (*Task, error) {
	t := &Task{}
	if err := json.Unmarshal(value, t); err != nil {
		return nil, fmt.Errorf("decoding a task: %w", err)
	}
	return t, nil
}

// List returns the tasks in the order of their start: all that are kept, or those that are active.
func (s *Tasks) List(ctx context.Context, activeOnly bool) ([]Task, error) {
	x, err := s.store.List(ctx, s.scope)
	if err != nil {
		return nil, err
	}
	var tasks []Task
	for _, item := range x.Items {
		if !strings.HasPrefix(item.Key, taskPrefix) || activeOnly && item.Kind != kindActive {
			continue
		}
		value, err := s.store.Load(ctx, s.scope, item)
		if errors.Is(err, record.ErrNotFound) {
			_, value, err = s.store.Get(ctx, s.scope, item.Key)
		}
		if errors.Is(err, record.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", item.Key, err)
		}
		t, err := decode(value)
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, *t)
	}
	slices.SortStableFunc(tasks, func(a, b Task) int {
		return cmp.Or(a.Recorded.Compare(b.Recorded), cmp.Compare(a.ID, b.ID))
	})
	return tasks, nil
}

// Arguments returns the arguments of a task that has not ended.
func (s *Tasks) Arguments(ctx context.Context, id string) (string, error) {
	_, value, err := s.store.Get(ctx, s.scope, argumentPrefix+id)
	return string(value), err
}

// Result returns the result of a task that has succeeded.
func (s *Tasks) Result(ctx context.Context, id string) (string, error) {
	_, value, err := s.store.Get(ctx, s.scope, resultPrefix+id)
	return string(value), err
}

// errGone reports a task that is not in the store.
var errGone = errors.New("the task does not exist")

// change changes a task unless change reports that nothing is to change, and returns it as it then is. Changes are
// decided by the state of the task: a repeated one changes nothing.
func (s *Tasks) change(
	ctx context.Context, id string, change func(*Task, *record.Operation) bool,
) (*Task, error) {
	var now *Task
	_, err := s.store.Update(ctx, s.scope, record.Cause{},
		func(ctx context.Context, x *record.Index) (*record.Operation, error) {
			item, found := x.Find(taskPrefix + id)
			if !found {
				return nil, errGone
			}
			value, err := s.store.Load(ctx, s.scope, item)
			if err != nil {
				return nil, err
			}
			if now, err = decode(value); err != nil {
				return nil, err
			}
			o := &record.Operation{Expect: map[string]int64{item.Key: item.Revision}}
			if !change(now, o) {
				return nil, nil
			}
			own, err := put(now)
			o.Put = append(o.Put, own)
			return o, err
		})
	if errors.Is(err, errGone) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("changing task %s: %w", id, err)
	}
	return now, nil
}

// RecordPod records the only pod that may run a task. It changes nothing if another one is recorded, or if the task was
// cancelled or has ended. The caller lets the pod start only if the returned task has it.
func (s *Tasks) RecordPod(ctx context.Context, id string, pod types.UID) (*Task, error) {
	return s.change(ctx, id, func(t *Task, _ *record.Operation) bool {
		if t.PodUID != "" || t.Cancelled != nil || t.End != nil {
			return false
		}
		t.PodUID = pod
		return true
	})
}

// Cancel records that a task is to be cancelled. It changes nothing if the task has ended.
func (s *Tasks) Cancel(ctx context.Context, id string) (*Task, error) {
	return s.change(ctx, id, func(t *Task, _ *record.Operation) bool {
		if t.Cancelled != nil || t.End != nil {
			return false
		}
		at := s.clock().UTC()
		t.Cancelled = &at
		return true
	})
}

// Withdraw records that an announced task never starts, and why, unless it was recorded: a request to record it that
// arrives later changes nothing. It returns the task as it then is.
func (s *Tasks) Withdraw(
	ctx context.Context, announced v1alpha1.BackgroundTask, refusal tool.Outcome,
) (*Task, error) {
	now := s.clock().UTC()
	t := Task{
		ID: announced.ID, Tool: Tool{Name: announced.Tool}, Turn: v1alpha1.ObjectIdentity{Name: announced.Turn},
		Recorded: now, Delivered: true,
		End: &End{
			State: refusal.State, Reason: refusal.Reason, Error: excerpt.Of(refusal.Error, tool.MaxErrorBodyBytes), At: now,
		},
	}
	_, err := s.store.Update(ctx, s.scope, record.Cause{},
		func(_ context.Context, x *record.Index) (*record.Operation, error) {
			if _, exists := x.Find(taskPrefix + t.ID); exists {
				return nil, nil
			}
			own, err := put(&t)
			return &record.Operation{Put: []record.Put{own}}, err
		})
	if err != nil {
		return nil, fmt.Errorf("withdrawing task %s: %w", t.ID, err)
	}
	return s.Get(ctx, t.ID)
}

// Left returns those of the shown tasks that are yet to be delivered, or recorded.
func (s *Tasks) Left(ctx context.Context, shown []v1alpha1.BackgroundTask) ([]v1alpha1.BackgroundTask, error) {
	var left []v1alpha1.BackgroundTask
	for _, of := range shown {
		t, err := s.Get(ctx, of.ID)
		if err != nil {
			return nil, err
		}
		if t == nil || t.Active() {
			left = append(left, of)
		}
	}
	return left, nil
}

// End records the end of a task, unless one is recorded. An end as not executed is refused if a pod was recorded since
// it was decided.
func (s *Tasks) End(ctx context.Context, decided *Task, outcome tool.Outcome) (*Task, error) {
	return s.change(ctx, decided.ID, func(t *Task, o *record.Operation) bool {
		if t.End != nil || t.PodUID != decided.PodUID {
			return false
		}
		t.End = &End{
			State: outcome.State, Reason: outcome.Reason, At: s.clock().UTC(), Fence: event.NewFence(),
			StartedAt: outcome.StartedAt, FinishedAt: outcome.FinishedAt,
		}
		if outcome.State == v1alpha1.ToolCallStateSucceeded && outcome.Result != nil {
			result := tool.CutResult(*outcome.Result)
			t.End.ResultBytes = int64(len(result))
			o.Put = append(o.Put, record.Put{Key: resultPrefix + t.ID, Value: []byte(result)})
		} else {
			t.End.Error = excerpt.Of(outcome.Error, tool.MaxErrorBodyBytes)
		}
		o.Delete = append(o.Delete, argumentPrefix+t.ID)
		return true
	})
}

// Deliver records that the Turn that delivers the end of a task exists, or can never exist.
func (s *Tasks) Deliver(ctx context.Context, id string) (*Task, error) {
	return s.change(ctx, id, func(t *Task, _ *record.Operation) bool {
		if t.Delivered || t.End == nil {
			return false
		}
		t.Delivered = true
		return true
	})
}
