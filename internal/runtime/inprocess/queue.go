package inprocess

import (
	"slices"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// queue is the Turns of one Session that have not ended. The Loop's lock guards it.
type queue struct {
	// order counts the Turns in the order of their arrival.
	order int64
	// active is the one that runs; nil for none.
	active *run
	// waiting are those that wait to be admitted, in order.
	waiting []*run
	// steers are the messages that wait to go into the active one, in order (STEER-01).
	steers []*run
	// hooks are those of the Session; nil until its first Turn has begun. ended reports whether the Session accepts no
	// Turn any more.
	hooks *v1alpha1.SessionHooks
	ended bool
}

// open are the Turns that have not ended.
func (q *queue) open() []*run {
	all := slices.Concat(q.waiting, q.steers)
	if q.active != nil {
		all = append(all, q.active)
	}
	return all
}

// add adds a Turn: it runs at once, waits behind others, or waits to be steered into the running one.
func (q *queue) add(r *run) {
	r.number = q.order
	if r.shown.Spec.Delivery == v1alpha1.DeliverySteer && q.active != nil {
		q.steers = append(q.steers, r)
		q.active.waits = false
		q.active.alert()
		return
	}
	q.waiting = append(q.waiting, r)
	q.admit()
}

// admit starts the next Turn when none runs.
func (q *queue) admit() {
	if q.active != nil || len(q.waiting) == 0 {
		return
	}
	q.active, q.waiting = q.waiting[0], q.waiting[1:]
	go q.active.drive()
}

// remove removes a Turn that has not begun, and reports whether it was there.
func (q *queue) remove(r *run) bool {
	is := func(other *run) bool { return other == r }
	found := slices.ContainsFunc(q.waiting, is) || slices.ContainsFunc(q.steers, is)
	q.waiting = slices.DeleteFunc(q.waiting, is)
	q.steers = slices.DeleteFunc(q.steers, is)
	return found
}

// release ends the run of the active Turn. Messages that were not steered into it are queued like any other.
func (q *queue) release() {
	q.active = nil
	q.waiting = append(q.waiting, q.steers...)
	q.steers = nil
	slices.SortStableFunc(q.waiting, func(a, b *run) int { return int(a.number - b.number) })
	q.admit()
}
