package turn

import (
	"testing"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
)

// The pass in which a Turn ends begins while its time limit is ahead.
func TestATurnThatHasEndedIsNotWokenByItsTimeLimit(t *testing.T) {
	w := newWorld(t)
	w.begin()
	turn := w.turn()
	w.change(turn, func() { turn.Spec.ActiveDeadlineSeconds = new(int64(60)) })
	m := w.manager(0)
	var last ctrl.Result
	for range 20 {
		var err error
		if last, err = m.pass(); err != nil {
			t.Fatal(err)
		}
		if w.finished() {
			break
		}
		if last.RequeueAfter <= 0 || last.RequeueAfter > time.Minute {
			t.Errorf("the next pass of a Turn with a time limit is after %v", last.RequeueAfter)
		}
		if m.Activities.Len() > 0 {
			<-m.woken
		}
	}
	if !w.finished() || last.RequeueAfter != 0 {
		t.Errorf("finished: %v; the next pass is after %v", w.finished(), last.RequeueAfter)
	}
}
