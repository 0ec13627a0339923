package watchdog

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestAPassThatHangsFailsTheCheck(t *testing.T) {
	now := time.Unix(1000, 0)
	w := New(func() time.Time { return now })
	entered, release, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	r := w.Watch("Turn", reconcile.Func(func(context.Context, ctrl.Request) (ctrl.Result, error) {
		close(entered)
		<-release
		return ctrl.Result{RequeueAfter: time.Hour}, nil
	}))
	var result ctrl.Result
	go func() {
		defer close(ended)
		result, _ = r.Reconcile(
			t.Context(),
			ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "demo-1"}},
		)
	}()
	<-entered
	now = now.Add(Limit)
	if err := w.Check(nil); err != nil {
		t.Errorf("a pass that takes as long as it may: %v", err)
	}
	now = now.Add(time.Second)
	if err := w.Check(nil); err == nil || !strings.Contains(err.Error(), "Turn ns/demo-1") {
		t.Errorf("a pass that hangs gives %v", err)
	}
	close(release)
	<-ended
	if err := w.Check(nil); err != nil || result.RequeueAfter != time.Hour {
		t.Errorf("after its end: %v, %v", err, result)
	}
}
