package turn

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// The request of a process that has died for a Job arrives after its successor has looked for the Job, and has
// found a reason not to execute the call. No entry states then that the call was not executed, unless it cannot be.
func TestAJobOfAnEarlierProcessArrivesLate(t *testing.T) {
	for _, class := range []v1alpha1.SideEffect{
		v1alpha1.SideEffectPure, v1alpha1.SideEffectIdempotent, v1alpha1.SideEffectAtMostOnce,
	} {
		t.Run(string(class), func(t *testing.T) {
			w := newWorld(t)
			var late func() error
			onCreate(w, isJob, func(create func() error, _ string) error {
				late = create
				return apierrors.NewTimeoutError("the request timed out", 1)
			})
			w.begin(builder.JobTool("look", class).Obj())
			first := w.manager(0)
			first.withoutCluster("the request", func() bool { return late != nil })

			onCreate(w, isJob, func(_ func() error, name string) error { return jobQuota(name) })
			second := w.manager(0)
			second.until("the end of the call", func() bool { return w.resultText("look") != "" })
			if err := late(); err != nil {
				t.Fatal(err)
			}
			// The cluster runs what it may before the next pass, and the first process has not noticed that it has lost.
			w.play()
			w.play()
			for range 3 {
				_, _ = first.pass()
				w.play()
			}
			second.until("the end", w.finished)
			text := w.resultText("look")
			if w.starts("look") > 0 && strings.Contains(text, "The tool was not executed") {
				t.Errorf("it was started %d times, and the model received %q", w.starts("look"), text)
			}
			if class == v1alpha1.SideEffectAtMostOnce {
				if call := w.call(
					"look",
				); call.State != v1alpha1.ToolCallStateNotExecuted || call.PodUID != "" ||
					w.starts("look") != 0 {
					t.Errorf("the call is %s, with pod %q, and was started %d times", call.State, call.PodUID, w.starts("look"))
				}
			}
			for range 3 {
				next, err := second.pass()
				if err != nil {
					t.Fatal(err)
				}
				w.sleep(min(next.RequeueAfter, 2*cacheLag))
			}
			if jobs := w.jobs(); class == v1alpha1.SideEffectAtMostOnce && len(jobs) != 0 {
				t.Errorf("%d Jobs are left that can still run", len(jobs))
			}
		})
	}
}

// The text for the model about a call that an earlier process may have started is the same while no Job comes.
func TestACallThatAnEarlierProcessMayHaveStartedIsNotCalledNotExecuted(t *testing.T) {
	w := newWorld(t)
	onCreate(w, isJob, func(func() error, string) error { return apierrors.NewTimeoutError("the request timed out", 1) })
	w.begin(builder.JobTool("look", v1alpha1.SideEffectPure).Obj())
	requested := func() bool { return w.call("look").Attempt == 1 }
	w.manager(0).withoutCluster("the intent", requested)
	onCreate(w, isJob, func(_ func() error, name string) error { return jobQuota(name) })
	w.manager(0).until("the end", w.finished)
	call, text := w.call("look"), w.resultText("look")
	if call.State != v1alpha1.ToolCallStateFailed || call.Reason != "QuotaExceeded" ||
		!strings.Contains(text, "may have started") || !strings.Contains(text, "exceeded quota") {
		t.Errorf("the call is %s (%s), and the model received %q", call.State, call.Reason, text)
	}
}
