package crash_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
)

// patience is how long anything may take. Retries after a lost request are far shorter.
const patience = time.Minute

// untilSomebodyElse is how long anything may take that another process has to finish: it is started when the first has died everywhere.
const untilSomebodyElse = 10 * time.Minute

// observer sees every version of the Turns, Sessions and ToolResults, and holds at all times what must hold at all times.
type observer struct {
	mu       sync.Mutex
	turns    map[types.NamespacedName]*v1alpha1.Turn
	sessions map[types.NamespacedName]*v1alpha1.Session
	results  map[types.NamespacedName]*v1alpha1.ToolResult
	wrong    map[string][]error
	broken   error
}

// observe starts an observer, which ends with the context.
func observe(ctx context.Context, c client.WithWatch) (*observer, error) {
	o := &observer{
		turns: map[types.NamespacedName]*v1alpha1.Turn{}, sessions: map[types.NamespacedName]*v1alpha1.Session{},
		results: map[types.NamespacedName]*v1alpha1.ToolResult{}, wrong: map[string][]error{},
	}
	for _, list := range []client.ObjectList{&v1alpha1.TurnList{}, &v1alpha1.SessionList{}, &v1alpha1.ToolResultList{}} {
		stream, err := c.Watch(ctx, list)
		if err != nil {
			return nil, fmt.Errorf("watching %T: %w", list, err)
		}
		go o.follow(ctx, stream)
	}
	return o, nil
}

func (o *observer) follow(ctx context.Context, stream watch.Interface) {
	defer stream.Stop()
	for event := range stream.ResultChan() {
		o.see(event)
	}
	if ctx.Err() == nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.broken = errors.New("a watch of the test ended, so that it no longer sees everything")
	}
}

func (o *observer) see(event watch.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch object := event.Object.(type) {
	case *v1alpha1.Turn:
		if event.Type == watch.Deleted {
			delete(o.turns, client.ObjectKeyFromObject(object))
			return
		}
		before := o.turns[client.ObjectKeyFromObject(object)]
		o.turns[client.ObjectKeyFromObject(object)] = object
		o.check(before, object)
	case *v1alpha1.Session:
		o.sessions[client.ObjectKeyFromObject(object)] = object
	case *v1alpha1.ToolResult:
		o.results[client.ObjectKeyFromObject(object)] = object
	}
}

// check holds what must be true of every version of a Turn. Versions of Turns come in one order, so that it is true of the cluster too.
func (o *observer) check(before, after *v1alpha1.Turn) {
	fail := func(format string, arguments ...any) {
		o.wrong[after.Namespace] = append(o.wrong[after.Namespace], fmt.Errorf("Turn %s: "+format, append([]any{after.Name}, arguments...)...))
	}
	for key, other := range o.turns {
		if key.Namespace == after.Namespace && other.UID != after.UID && other.Spec.SessionRef == after.Spec.SessionRef && runs(other) && runs(after) {
			fail("runs while Turn %s of the same Session does", other.Name)
		}
	}
	if before == nil || before.UID != after.UID {
		return
	}
	if ended(before) && (!ended(after) || before.Status.Phase != after.Status.Phase) {
		fail("had ended with %s and went on to %s", before.Status.Phase, after.Status.Phase)
	}
	if step(after) < step(before) {
		fail("went back from step %d to %d", step(before), step(after))
	}
	if step(after) == step(before) {
		for i := range min(len(before.Status.ToolCalls), len(after.Status.ToolCalls)) {
			was, is := before.Status.ToolCalls[i].PodUID, after.Status.ToolCalls[i].PodUID
			if was != "" && was != is {
				fail("call %s was given to pod %s and then to %q", before.Status.ToolCalls[i].ID, was, is)
			}
		}
	}
}

func step(turn *v1alpha1.Turn) int32 {
	if turn.Status.Plan == nil {
		return 0
	}
	return turn.Status.Plan.Step
}

// runs says that the Turn has an open step.
func runs(turn *v1alpha1.Turn) bool {
	return turn.Status.Plan != nil && !ended(turn)
}

func ended(turn *v1alpha1.Turn) bool {
	return condition.IsTrue(turn.Status.Conditions, v1alpha1.ConditionFinished)
}

// turn is the newest version of a Turn; an empty one before it was seen.
func (o *observer) turn(namespace, name string) *v1alpha1.Turn {
	o.mu.Lock()
	defer o.mu.Unlock()
	if turn := o.turns[types.NamespacedName{Namespace: namespace, Name: name}]; turn != nil {
		return turn.DeepCopy()
	}
	return &v1alpha1.Turn{}
}

func (o *observer) session(namespace string) *v1alpha1.Session {
	o.mu.Lock()
	defer o.mu.Unlock()
	if session := o.sessions[types.NamespacedName{Namespace: namespace, Name: sessionName}]; session != nil {
		return session.DeepCopy()
	}
	return &v1alpha1.Session{}
}

// toolResults are the newest versions of the ToolResults of a namespace.
func (o *observer) toolResults(namespace string) []*v1alpha1.ToolResult {
	o.mu.Lock()
	defer o.mu.Unlock()
	var found []*v1alpha1.ToolResult
	for key, result := range o.results {
		if key.Namespace == namespace {
			found = append(found, result.DeepCopy())
		}
	}
	return found
}

// violations are what was seen in a namespace that must never be.
func (o *observer) violations(namespace string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return errors.Join(append(append([]error{}, o.wrong[namespace]...), o.broken)...)
}

// await waits until a condition says nil. What it said last is the error.
func await(ctx context.Context, condition func() error) error {
	return awaitFor(ctx, patience, condition)
}

func awaitFor(ctx context.Context, patience time.Duration, condition func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := condition()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited %s: %w", patience, err)
		case <-tick.C:
		}
	}
}
