package crash_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/format"
)

// version is one state that an object had. Resource versions are revisions of etcd, so that those of different objects
// can be compared.
type version[T client.Object] struct {
	revision int64
	deleted  bool
	object   T
}

// history is every version of every object of one namespace, in the order of etcd.
type history struct {
	turns    []version[*v1alpha1.Turn]
	sessions []version[*v1alpha1.Session]
	results  []version[*v1alpha1.ToolResult]
	entries  []version[*written]
	jobs     []version[*batchv1.Job]
	pods     []version[*corev1.Pod]
	// settled is since when the newest version of each Turn shows an act step without open calls.
	settled map[types.UID]beats
	// milestones were reached, the newest at reached.
	milestones map[string]bool
	reached    beats
}

// observer watches the cluster by a connection that nothing disturbs.
type observer struct {
	mu         sync.Mutex
	namespaces map[string]*history
	// over are the namespaces that are not observed any more.
	over   map[string]bool
	broken error
	// longest is the longest time between two milestones of a namespace, and longestIn that namespace.
	longest   beats
	longestIn string
}

// observe starts an observer, which ends with the context.
func observe(ctx context.Context, c client.WithWatch) (*observer, error) {
	o := &observer{namespaces: map[string]*history{}, over: map[string]bool{}}
	for _, list := range kinds() {
		stream, err := c.Watch(ctx, list)
		if err != nil {
			return nil, fmt.Errorf("watching %T: %w", list, err)
		}
		go o.follow(ctx, c, list, stream)
	}
	return o, nil
}

// kinds are lists of all that is observed.
func kinds() []client.ObjectList {
	return []client.ObjectList{
		&v1alpha1.TurnList{},
		&v1alpha1.SessionList{},
		&v1alpha1.ToolResultList{},
		&v1alpha1.JournalEntryList{},
		&batchv1.JobList{},
		&corev1.PodList{},
	}
}

// follow reads a watch, and opens it again where it ended.
func (o *observer) follow(ctx context.Context, c client.WithWatch, list client.ObjectList, stream watch.Interface) {
	var last string
	for {
		for event := range stream.ResultChan() {
			object, ok := event.Object.(client.Object)
			if !ok {
				o.breaks(fmt.Errorf("the watch of %T of the test reported %s: %v", list, event.Type, event.Object))
				return
			}
			last = object.GetResourceVersion()
			o.see(event.Type == watch.Deleted, object)
		}
		stream.Stop()
		if ctx.Err() != nil {
			return
		}
		var err error
		if stream, err = c.Watch(
			ctx,
			list,
			&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: last}},
		); err != nil {
			o.breaks(fmt.Errorf("watching %T again: %w", list, err))
			return
		}
	}
}

// breaks notes that the observer does not see everything any more.
func (o *observer) breaks(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.broken = err
}

func (o *observer) see(deleted bool, object client.Object) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over[object.GetNamespace()] {
		return
	}
	h := o.of(object.GetNamespace())
	at := revision(object)
	for _, milestone := range milestonesOf(deleted, object) {
		if h.milestones[milestone] {
			continue
		}
		now := pulse.now()
		if h.reached > 0 && now-h.reached > o.longest {
			o.longest, o.longestIn = now-h.reached, object.GetNamespace()
		}
		h.milestones[milestone], h.reached = true, now
	}
	switch object := object.(type) {
	case *v1alpha1.Turn:
		h.turns = append(h.turns, version[*v1alpha1.Turn]{at, deleted, object})
		if deleted || !isSettled(object) {
			delete(h.settled, object.UID)
		} else if _, known := h.settled[object.UID]; !known {
			h.settled[object.UID] = pulse.now()
		}
	case *v1alpha1.Session:
		h.sessions = append(h.sessions, version[*v1alpha1.Session]{at, deleted, object})
	case *v1alpha1.ToolResult:
		h.results = append(h.results, version[*v1alpha1.ToolResult]{at, deleted, object})
	case *v1alpha1.JournalEntry:
		h.entries = append(h.entries, version[*written]{at, deleted, writtenOf(object)})
	case *batchv1.Job:
		h.jobs = append(h.jobs, version[*batchv1.Job]{at, deleted, object})
	case *corev1.Pod:
		h.pods = append(h.pods, version[*corev1.Pod]{at, deleted, object})
	}
}

// of is the history of a namespace. The caller holds the lock.
func (o *observer) of(namespace string) *history {
	h := o.namespaces[namespace]
	if h == nil {
		h = &history{settled: map[types.UID]beats{}, milestones: map[string]bool{}}
		o.namespaces[namespace] = h
	}
	return h
}

// forget drops the history of a namespace, also the future one.
func (o *observer) forget(namespace string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over[namespace] = true
	delete(o.namespaces, namespace)
}

// snapshot returns the history of a namespace so far. Its objects are shared: they are read only.
func (o *observer) snapshot(namespace string) history {
	o.mu.Lock()
	defer o.mu.Unlock()
	h := *o.of(namespace)
	h.settled, h.milestones = nil, nil
	return h
}

// progress is how many milestones a namespace has reached.
func (o *observer) progress(namespace string) progress {
	o.mu.Lock()
	defer o.mu.Unlock()
	h := o.of(namespace)
	return progress{len(h.milestones), h.reached}
}

// longestWait describes the longest time in which a run made no progress.
func (o *observer) longestWait() string {
	o.mu.Lock()
	longest, namespace := o.longest, o.longestIn
	o.mu.Unlock()
	if r := tools.of(namespace); r != nil {
		return fmt.Sprintf("%d beats, in %q", longest, r.name)
	}
	return fmt.Sprintf("%d beats", longest)
}

// milestonesOf returns the milestones that an object shows. None of them comes twice: an object that changes back and
// forth makes no progress.
func milestonesOf(deleted bool, object client.Object) []string {
	uid := string(object.GetUID())
	reached := []string{fmt.Sprint(uid, deleted, object.GetDeletionTimestamp() != nil)}
	switch object := object.(type) {
	case *v1alpha1.Turn:
		reached = append(reached, fmt.Sprint(uid, object.Status.Phase, step(object)))
		for _, c := range object.Status.ToolCalls {
			reached = append(reached, fmt.Sprint(uid, c.ID, c.Attempt, c.State, c.PodUID))
		}
	case *v1alpha1.Session:
		active := types.UID("")
		if object.Status.ActiveTurn != nil {
			active = object.Status.ActiveTurn.UID
		}
		reached = append(reached, fmt.Sprint(uid, object.Status.Phase, active))
		for _, t := range object.Status.BackgroundTasks {
			reached = append(reached, fmt.Sprint(uid, t.ID))
		}
	case *v1alpha1.ToolResult:
		for _, c := range object.Status.Conditions {
			reached = append(reached, fmt.Sprint(uid, c.Status))
		}
	case *batchv1.Job:
		reached = append(reached, fmt.Sprint(uid, object.Status.Active, object.Status.Succeeded, object.Status.Failed))
	case *corev1.Pod:
		reached = append(reached, fmt.Sprint(uid, object.Status.Phase, len(object.Spec.SchedulingGates)))
	}
	return reached
}

// stuck reports a Turn that has shown an act step without open calls for longer than the given time.
func (o *observer) stuck(namespace string, moment beats) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for uid, since := range o.of(namespace).settled {
		if lasted := pulse.now() - since; lasted > moment {
			return fmt.Errorf(
				"%s: Turn %s shows all calls of its act step as settled for %d beats",
				settledStepCloses,
				uid,
				lasted,
			)
		}
	}
	return nil
}

// isSettled reports whether the open step of a Turn is an act step all of whose calls have their final state.
func isSettled(turn *v1alpha1.Turn) bool {
	plan := turn.Status.Plan
	if plan == nil || plan.Phase != v1alpha1.PlanPhaseAct || len(turn.Status.ToolCalls) == 0 {
		return false
	}
	for _, call := range turn.Status.ToolCalls {
		if !call.State.Settled() {
			return false
		}
	}
	return true
}

func revision(object client.Object) int64 {
	n, err := strconv.ParseInt(object.GetResourceVersion(), 10, 64)
	if err != nil {
		panic(fmt.Sprintf("resource version of %T %s: %v", object, object.GetName(), err))
	}
	return n
}

// newest is the last version of the object of a name; the zero value when there is none, or when it was deleted.
func newest[T client.Object](versions []version[T], name string) (found T) {
	for _, v := range versions {
		switch {
		case v.object.GetName() != name:
		case v.deleted:
			var none T
			found = none
		default:
			found = v.object
		}
	}
	return found
}

// turn is the newest version of a Turn; an empty one before it was seen and after it was deleted.
func (o *observer) turn(namespace, name string) *v1alpha1.Turn {
	if turn := newest(o.snapshot(namespace).turns, name); turn != nil {
		return turn.DeepCopy()
	}
	return &v1alpha1.Turn{}
}

func (o *observer) session(namespace string) *v1alpha1.Session {
	if session := newest(o.snapshot(namespace).sessions, sessionName); session != nil {
		return session.DeepCopy()
	}
	return &v1alpha1.Session{}
}

// toolResults are the newest versions of the ToolResults of a namespace.
func (o *observer) toolResults(namespace string) []*v1alpha1.ToolResult {
	var found []*v1alpha1.ToolResult
	versions := o.snapshot(namespace).results
	seen := map[string]bool{}
	for _, v := range versions {
		if name := v.object.Name; !seen[name] {
			seen[name] = true
			if result := newest(versions, name); result != nil {
				found = append(found, result)
			}
		}
	}
	return found
}

// caughtUp reports whether the observer has seen all that is in the namespace now.
func (o *observer) caughtUp(ctx context.Context, c client.Client, namespace string) error {
	o.mu.Lock()
	broken := o.broken
	o.mu.Unlock()
	if broken != nil {
		return broken
	}
	seen := map[types.UID]int64{}
	note(seen, o.snapshot(namespace))
	for _, list := range kinds() {
		if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return err
		}
		for _, object := range itemsOf(list) {
			if seen[object.GetUID()] < revision(object) {
				return fmt.Errorf(
					"the test has not seen version %s of %T %s",
					object.GetResourceVersion(),
					object,
					object.GetName(),
				)
			}
		}
	}
	return nil
}

// note collects the newest revision of each object of a history.
func note(seen map[types.UID]int64, h history) {
	noteAll(seen, h.turns)
	noteAll(seen, h.sessions)
	noteAll(seen, h.results)
	noteAll(seen, h.entries)
	noteAll(seen, h.jobs)
	noteAll(seen, h.pods)
}

func noteAll[T client.Object](seen map[types.UID]int64, versions []version[T]) {
	for _, v := range versions {
		seen[v.object.GetUID()] = v.revision
	}
}

// written is an entry of a journal with its content.
type written struct {
	*v1alpha1.JournalEntry
	Spec journal.Entry
}

// writtenOf decodes an entry. What this build has written, it can read.
func writtenOf(object *v1alpha1.JournalEntry) *written {
	content, err := format.Decode(&object.Spec)
	if err != nil {
		panic(fmt.Sprintf("JournalEntry %s: %v", object.Name, err))
	}
	return &written{object, *content}
}

func itemsOf(list client.ObjectList) []client.Object {
	switch list := list.(type) {
	case *v1alpha1.TurnList:
		return pointers[v1alpha1.Turn](list.Items)
	case *v1alpha1.SessionList:
		return pointers[v1alpha1.Session](list.Items)
	case *v1alpha1.ToolResultList:
		return pointers[v1alpha1.ToolResult](list.Items)
	case *v1alpha1.JournalEntryList:
		return pointers[v1alpha1.JournalEntry](list.Items)
	case *batchv1.JobList:
		return pointers[batchv1.Job](list.Items)
	case *corev1.PodList:
		return pointers[corev1.Pod](list.Items)
	default:
		panic(fmt.Sprintf("unexpected list %T", list))
	}
}

func pointers[T any, P interface {
	*T
	client.Object
}](items []T) []client.Object {
	objects := make([]client.Object, len(items))
	for i := range items {
		objects[i] = P(&items[i])
	}
	return objects
}

func step(turn *v1alpha1.Turn) int32 {
	if turn.Status.Plan == nil {
		return 0
	}
	return turn.Status.Plan.Step
}

// runs reports whether the Turn has an open step.
func runs(turn *v1alpha1.Turn) bool {
	return turn.Status.Plan != nil && !ended(turn)
}

func ended(turn *v1alpha1.Turn) bool {
	return meta.IsStatusConditionTrue(turn.Status.Conditions, v1alpha1.ConditionFinished)
}

// isRun reports whether a namespace is one of a run.
func isRun(namespace string) bool {
	return strings.HasPrefix(namespace, namespacePrefix)
}
