package turn

import (
	"context"
	"errors"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// A conclusion about a call that is not in the journal is lost with its process. The next process finds it out again,
// or uses the status, but never leaves the step open forever. While the Turn waits for a client, the journal has it.
func TestARestartInTheMiddleOfAnActStep(t *testing.T) {
	finish := func(w *world) {
		for _, job := range w.jobs() {
			if pod := w.podOf(&job); pod != nil && strings.HasPrefix(w.toolOf(pod), "endless") {
				w.ends(pod, result.Report{Outcome: result.Exited, Started: true, Result: "at last"})
			}
		}
	}
	site := func(name string, class v1alpha1.SideEffect) func(*world) *v1alpha1.Tool {
		return func(w *world) *v1alpha1.Tool { return w.site(name, class) }
	}
	for name, test := range map[string]struct {
		// look is the tool whose call is settled before the restart, other the tool that the step waits for then.
		look  func(*world) *v1alpha1.Tool
		other *v1alpha1.Tool
		// before runs before the first process, between after it has ended.
		before, between func(*world)
		// settled is the first call's state in status before the restart, and state its final state.
		settled, state v1alpha1.ToolCallState
		starts         int
		// text is part of the text for the model, if that is not the result.
		text string
	}{
		"a Pure request, and a Job": {
			look: site("look", v1alpha1.SideEffectPure), other: builder.JobTool("endless", v1alpha1.SideEffectPure).Obj(),
			settled: v1alpha1.ToolCallStateSucceeded, state: v1alpha1.ToolCallStateSucceeded, starts: 2,
		},
		"an AtMostOnce request, and a Job": {
			look: site("look", v1alpha1.SideEffectAtMostOnce), other: builder.JobTool("endless", v1alpha1.SideEffectPure).Obj(),
			settled: v1alpha1.ToolCallStateSucceeded, state: v1alpha1.ToolCallStateSucceeded, starts: 1,
		},
		"a Pure request, and a client": {
			look: site("look", v1alpha1.SideEffectPure), other: builder.ClientTool("human").Obj(),
			settled: v1alpha1.ToolCallStateSucceeded, state: v1alpha1.ToolCallStateSucceeded, starts: 1, text: "result of look",
		},
		"an AtMostOnce request, and a client": {
			look: site("look", v1alpha1.SideEffectAtMostOnce), other: builder.ClientTool("human").Obj(),
			settled: v1alpha1.ToolCallStateSucceeded, state: v1alpha1.ToolCallStateSucceeded, starts: 1,
		},
		"a Job that cannot be made, and a Job": {
			look: jobNamed("look", v1alpha1.SideEffectPure), other: builder.JobTool(
				"endless", v1alpha1.SideEffectPure,
			).Obj(), before: refuseJob, between: refuseNoJob,
			settled: v1alpha1.ToolCallStateNotExecuted, state: v1alpha1.ToolCallStateSucceeded, starts: 1,
		},
		"an AtMostOnce Job that cannot be made, and a client": {
			look: jobNamed(
				"look", v1alpha1.SideEffectAtMostOnce,
			), other: builder.ClientTool("human").Obj(), before: refuseJob, between: refuseNoJob,
			settled: v1alpha1.ToolCallStateNotExecuted, state: v1alpha1.ToolCallStateNotExecuted,
		},
		"a Pure Job that has ended and was deleted, and a Job": {
			look: jobNamed("look", v1alpha1.SideEffectPure), other: builder.JobTool(
				"endless", v1alpha1.SideEffectPure,
			).Obj(), between: dropJob,
			settled: v1alpha1.ToolCallStateSucceeded, state: v1alpha1.ToolCallStateSucceeded, starts: 2,
		},
		"an Idempotent Job that has ended and was deleted, and a client": {
			look: jobNamed("look", v1alpha1.SideEffectIdempotent), other: builder.ClientTool("human").Obj(), between: dropJob,
			settled: v1alpha1.ToolCallStateSucceeded, state: v1alpha1.ToolCallStateSucceeded, starts: 1, text: "result of look",
		},
		"an AtMostOnce Job that has ended and was deleted, and a client": {
			look: jobNamed("look", v1alpha1.SideEffectAtMostOnce), other: builder.ClientTool("human").Obj(), between: dropJob,
			settled: v1alpha1.ToolCallStateSucceeded, state: v1alpha1.ToolCallStateSucceeded, starts: 1, text: "result of look",
		},
		"an AtMostOnce Job that has ended and was deleted, and a Job": {
			look: jobNamed(
				"look", v1alpha1.SideEffectAtMostOnce,
			), other: builder.JobTool("endless", v1alpha1.SideEffectPure).Obj(), between: dropJob,
			settled: v1alpha1.ToolCallStateSucceeded, state: v1alpha1.ToolCallStateFailed, starts: 1,
			text: "its output was lost",
		},
		"an AtMostOnce Job that has ended, and a client": {
			look: jobNamed("look", v1alpha1.SideEffectAtMostOnce), other: builder.ClientTool("human").Obj(),
			settled: v1alpha1.ToolCallStateSucceeded, state: v1alpha1.ToolCallStateSucceeded, starts: 1,
		},
		"a client that is not waited for any more, and a Job": {
			look: func(*world) *v1alpha1.Tool { return builder.ClientTool("look").Obj() }, other: builder.JobTool(
				"endless", v1alpha1.SideEffectPure,
			).Obj(),
			before:  waitForClients(v1alpha1.ClientToolsPolicyFollowHints),
			between: waitForClients(v1alpha1.ClientToolsPolicyWait),
			settled: v1alpha1.ToolCallStateNotExecuted, state: v1alpha1.ToolCallStateNotExecuted,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.begin(test.look(w), test.other.DeepCopy())
			if test.before != nil {
				test.before(w)
			}
			first := w.manager(0)
			first.until("the first call", w.shows("look", test.settled))
			if test.between != nil {
				test.between(w)
			}
			second := w.manager(0)
			if test.other.Spec.Client != nil {
				w.answer("human", "yes")
			} else {
				finish(w)
			}
			second.until("the end", func() bool { finish(w); return w.finished() })
			if call := w.call("look"); call.State != test.state {
				t.Errorf("the call is %s (%s), want %s", call.State, call.Reason, test.state)
			}
			if got := w.starts("look"); got != test.starts {
				t.Errorf("it was started %d times, want %d", got, test.starts)
			}
			text := w.resultText("look")
			if !strings.Contains(text, test.text) {
				t.Errorf("the model received %q, want %q", text, test.text)
			}
			if harmless := strings.Contains(text, "changed nothing"); harmless && test.starts > 0 {
				t.Errorf("it was started, and the model received %q", text)
			}
		})
	}
}

func jobNamed(name string, class v1alpha1.SideEffect) func(*world) *v1alpha1.Tool {
	return func(*world) *v1alpha1.Tool { return builder.JobTool(name, class).Obj() }
}

// refuseJob makes the API server refuse the Job of the tool look.
func refuseJob(w *world) {
	w.hooks.Create = func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
		if job, ok := o.(*batchv1.Job); ok && w.toolOfCall(job.Labels) == "look" {
			return apierrors.NewForbidden(
				schema.GroupResource{Resource: "jobs"},
				job.Name,
				errors.New("a policy of the cluster"),
			)
		}
		return c.Create(ctx, o, options...)
	}
}

func refuseNoJob(w *world) {
	w.hooks = interceptor.Funcs{}
}

func dropJob(w *world) {
	w.deleteJob(w.jobOf("look"))
}

func waitForClients(policy v1alpha1.ClientToolsPolicy) func(*world) {
	return func(w *world) {
		session := w.session()
		w.change(session, func() { session.Spec.ClientTools = policy })
	}
}
