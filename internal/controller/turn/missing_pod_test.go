package turn

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

const quotaWords = `pods "tool-1" is forbidden: exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1`

// refusesPods makes the Job controller report that a quota refuses the pods of Jobs, and counts the reads of Events.
func refusesPods(w *world) *int {
	asked := new(int)
	w.hooks.List = func(
		ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption,
	) error {
		if events, ok := list.(*corev1.EventList); ok {
			*asked++
			events.Items = []corev1.Event{{Message: "Error creating: " + quotaWords, LastTimestamp: metav1.NewTime(w.present())}}
			return nil
		}
		return c.List(ctx, list, options...)
	}
	return asked
}

func TestATurnStatesAtOnceWhyItsJobGetsNoPod(t *testing.T) {
	for _, class := range []v1alpha1.SideEffect{v1alpha1.SideEffectAtMostOnce, v1alpha1.SideEffectPure} {
		t.Run(string(class), func(t *testing.T) {
			w := newWorld(t)
			asked := refusesPods(w)
			work := builder.JobTool("work", class).Obj()
			work.Spec.Job.StartTimeout = &metav1.Duration{Duration: 2 * time.Minute}
			w.begin(work)
			m := w.manager(0)
			began := w.present()
			m.withoutCluster("the refusal is reported", func() bool { return w.call("work").Reason == "QuotaExceeded" })
			if took := w.present().Sub(began); took > missingPodGrace+5*time.Second {
				t.Errorf("it took %v", took)
			}
			call := w.call("work")
			if call.State != v1alpha1.ToolCallStatePending || !strings.Contains(call.Preview, "exceeded quota") {
				t.Errorf("the call is %s: %q", call.State, call.Preview)
			}
			succeeded := w.succeeded()
			if succeeded.Reason != "QuotaExceeded" || !strings.Contains(succeeded.Message, "Call 1-0 (work) cannot start") ||
				!strings.Contains(succeeded.Message, quotaWords) {
				t.Errorf("the Turn reports %s: %q", succeeded.Reason, succeeded.Message)
			}
			m.withoutCluster("the end", w.finished)
			if took := w.present().Sub(began); took < 110*time.Second || took > 4*time.Minute {
				t.Errorf("it took %v", took)
			}
			if call := w.call(
				"work",
			); call.State != v1alpha1.ToolCallStateNotExecuted || call.Reason != "QuotaExceeded" ||
				*asked > 6 {
				t.Errorf("the call is %s (%s) after %d questions", call.State, call.Reason, *asked)
			}
		})
	}
}

func TestAPodThatIsMadeAfterAllTakesTheRefusalBack(t *testing.T) {
	w := newWorld(t)
	refusesPods(w)
	w.begin(builder.JobTool("work", v1alpha1.SideEffectIdempotent).Obj())
	m := w.manager(0)
	m.withoutCluster("the refusal is reported", func() bool { return w.call("work").Reason == "QuotaExceeded" })
	if jobs := w.jobs(); len(jobs) != 1 || jobs[0].Status.Conditions != nil {
		t.Fatalf("there are the Jobs %+v", jobs)
	}
	m.until("the end", w.finished)
	turn := w.turn()
	if call := w.call("work"); call.State != v1alpha1.ToolCallStateSucceeded || strings.Contains(call.Preview, "quota") {
		t.Errorf("the call is %s (%s): %q", call.State, call.Reason, call.Preview)
	}
	if turn.Status.Phase != v1alpha1.TurnPhaseSucceeded || len(turn.Status.WaitsFor) != 0 {
		t.Errorf("phase %s, waitsFor %+v", turn.Status.Phase, turn.Status.WaitsFor)
	}
}

func TestATurnStatesAtOnceThatTheAccountOfItsPodsIsRefused(t *testing.T) {
	w := newWorld(t)
	watchAccounts(w, noRoom)
	w.begin(builder.JobTool("look", v1alpha1.SideEffectAtMostOnce).Obj())
	m := w.manager(0)
	m.until("the refusal is reported", func() bool { return w.succeeded().Reason == "ServiceAccountRefused" })
	if succeeded := w.succeeded(); !strings.Contains(succeeded.Message, noRoom().Error()) ||
		!strings.Contains(succeeded.Message, "Call 1-0 (look) cannot start") {
		t.Errorf("the Turn reports %q", succeeded.Message)
	}
}
