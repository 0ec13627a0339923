package turn

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// A write that only shows progress has a tenth of the requests to the API server, and waits in line for it without
// being tried again.
func TestProgressWaitsForItsTenthOfTheRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.begin(
			builder.JobTool("work", v1alpha1.SideEffectPure).Obj(),
			builder.JobTool("endless", v1alpha1.SideEffectPure).Obj(),
		)
		m, queue := w.busyManager()
		defer queue.ShutDown()
		m.withoutCluster("the Jobs", func() bool { return len(w.jobs()) == 2 })
		for range 3 {
			w.play()
		}
		before := w.turn().ResourceVersion
		for range 3 {
			w.sleep(2 * progressInterval)
			if next, err := m.pass(); err != nil || next.RequeueAfter > 0 && next.RequeueAfter < progressInterval {
				t.Fatalf("%+v, %v: the pass is repeated", next, err)
			}
		}
		if after := w.turn().ResourceVersion; after != before || queue.Len() != 0 {
			t.Fatalf("version %s, then %s with %d wake-ups: progress is shown without a share", before, after, queue.Len())
		}
		if key, _ := queue.Get(); key.Name != turnName {
			t.Fatalf("%s was woken", key)
		}
		if _, err := m.pass(); err != nil || !w.shows("work", v1alpha1.ToolCallStateSucceeded)() {
			t.Fatalf("%v: the call is %+v", err, w.call("work"))
		}
	})
}

// That a Turn waits for people is no mere progress.
func TestAWaitIsShownWithoutAShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.begin(builder.JobTool("work", v1alpha1.SideEffectPure).Obj(), builder.ClientTool("ask").Obj())
		m, queue := w.busyManager()
		defer queue.ShutDown()
		m.until("the wait", func() bool { return w.turn().Status.Phase == v1alpha1.TurnPhaseWaitingForToolResults })
		if queue.Len() != 0 {
			t.Error("the Turn has waited for a share")
		}
	})
}

// TestWhatIsNotShownYetIsShownWithinASecond: whatever differs, no other event has to come.
func TestWhatIsNotShownYetIsShownWithinASecond(t *testing.T) {
	w := newWorld(t)
	w.begin(builder.ClientTool("ask").Obj())
	m := w.manager(0)
	m.until("the wait", w.shows("ask", v1alpha1.ToolCallStateWaiting))
	turn := w.turn()
	shown := turn.Status.Summary.Calls
	turn.Status.Summary.Calls = "9/9" // as if it was not the newest one
	w.updateStatus(turn)
	next, err := m.pass()
	if err != nil || next.RequeueAfter <= 0 || next.RequeueAfter > progressInterval {
		t.Fatalf("the pass gives %+v, %v", next, err)
	}
	w.sleep(next.RequeueAfter)
	if _, err := m.pass(); err != nil || w.turn().Status.Summary.Calls != shown {
		t.Errorf("the status has %q, %v; want %q", w.turn().Status.Summary.Calls, err, shown)
	}
}

// busyManager is a manager that has just used its share of progress writes, and its queue of Turns that were woken.
func (w *world) busyManager() (*manager, workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	w.t.Helper()
	m := w.manager(0)
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	if err := m.Wakes.Start(w.t.Context(), queue); err != nil {
		w.t.Fatal(err)
	}
	m.Progress = fairshare.NewRate(10, 10, nil).Tenth()
	if !m.Progress.Request(testNamespace, nil).Granted() {
		w.t.Fatal("the first request has to wait")
	}
	<-time.After(time.Millisecond)
	return m, queue
}
