package turn

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/jobspec"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

func TestResultsThatComeTogetherEnterTheJournalInCallOrder(t *testing.T) {
	w := newWorld(t)
	names := []string{"ask-0", "ask-1", "ask-2", "ask-3", "ask-4", "ask-5", "ask-6", "ask-7"}
	tools := []*v1alpha1.Tool{builder.ClientTool("last").Obj()}
	for _, name := range names {
		tools = append(tools, builder.ClientTool(name).Obj())
	}
	w.begin(tools...)
	m := w.manager(0)
	m.until("waiting", func() bool { return w.turn().Status.Phase == v1alpha1.TurnPhaseWaitingForToolResults })
	for _, name := range slices.Backward(names) {
		w.answer(name, "result of "+name)
	}
	m.until("all but the last", func() bool { return w.shows("ask-7", v1alpha1.ToolCallStateSucceeded)() })
	turn := w.turn()
	refs, err := journal.New(w.store, journal.Options{Clock: w.present}).
		Settled(
			t.Context(), turnstate.JournalOf(w.session()), turn.UID, turn.Status.Plan.Step, turn.Status.Plan.OpenedAtOrdinal,
		)
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, ref := range refs {
		order = append(order, ref.Call.ID)
	}
	if got := strings.Join(order, " "); got != "1-1 1-2 1-3 1-4 1-5 1-6 1-7 1-8" {
		t.Errorf("the journal has them in the order %s", got)
	}
}

// A call that cannot continue now does not delay the others.
func TestACallThatFailsToBeObservedHoldsUpNoOther(t *testing.T) {
	unavailable := errors.New("unavailable")
	for name, hooks := range map[string]func(*world) interceptor.Funcs{
		"its Job cannot be created": func(w *world) interceptor.Funcs {
			return interceptor.Funcs{Create: func(
				ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption,
			) error {
				if job, ok := o.(*batchv1.Job); ok && w.toolOfCall(job.Labels) == "stuck" {
					return unavailable
				}
				return c.Create(ctx, o, options...)
			}}
		},
		"its pod cannot be let go": func(w *world) interceptor.Funcs {
			return interceptor.Funcs{Patch: func(
				ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption,
			) error {
				if pod, ok := o.(*corev1.Pod); ok && w.toolOf(pod) == "stuck" {
					return unavailable
				}
				return c.Patch(ctx, o, p, options...)
			}}
		},
		"its pod cannot be stopped": func(w *world) interceptor.Funcs {
			return interceptor.Funcs{Delete: func(
				ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption,
			) error {
				if pod, ok := o.(*corev1.Pod); ok && w.toolOf(pod) == "stuck" {
					return unavailable
				}
				return c.Delete(ctx, o, options...)
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.begin(
				builder.JobTool("stuck", v1alpha1.SideEffectAtMostOnce).Obj(),
				builder.JobTool("work", v1alpha1.SideEffectAtMostOnce).Obj(),
				builder.ClientTool("human").Obj(),
			)
			w.hooks = hooks(w)
			m := w.manager(0)
			if name == "its pod cannot be stopped" {
				m.withoutCluster("the Jobs", func() bool { return len(w.jobs()) == 2 })
				pod := w.makePod(w.jobOf("stuck"))
				pod.Spec.SchedulingGates = nil
				if err := w.client.Update(t.Context(), pod); err != nil {
					t.Fatal(err)
				}
				pod.Status.ContainerStatuses = []corev1.ContainerStatus{
					{
						Name:  v1alpha1.ToolContainerName,
						State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "InvalidImageName"}},
					},
				}
				w.updateStatus(pod)
				turn := w.turn()
				turn.Status.ToolCalls[0].PodUID = pod.UID
				w.updateStatus(turn)
			}
			given := w.answer("human", "yes")
			failed := 0
			taken := func() bool {
				return w.client.Get(t.Context(), client.ObjectKeyFromObject(given), given) == nil && decided(given)
			}
			// Activities run concurrently with the passes.
			deadline := time.Now().Add(time.Minute)
			all := func() bool { return taken() && w.call("work").State == v1alpha1.ToolCallStateSucceeded }
			for n := 0; n < 40 || !all() && time.Now().Before(deadline); n++ {
				if _, err := m.pass(); err != nil {
					failed++
				}
				w.playAllBut("stuck")
				w.sleep(time.Second)
			}
			if failed == 0 {
				t.Error("nothing has failed")
			}
			if got := w.call("work"); got.State != v1alpha1.ToolCallStateSucceeded {
				t.Errorf("the call beside it is %s (%s)", got.State, got.Reason)
			}
			if !taken() {
				t.Errorf("the result of the client is not taken: %+v", given.Status)
			}
		})
	}
}

func TestAJobOfTheNameThatIsNotTheCallsEndsTheTurn(t *testing.T) {
	w := newWorld(t)
	w.begin(builder.JobTool("work", v1alpha1.SideEffectPure).Obj())
	foreign := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: jobspec.Name(w.turn().UID, 2, "1-0", 1)}}
	w.create(foreign)
	w.manager(0).withoutCluster("the end", w.finished)
	turn := w.turn()
	if e := turn.Status.Error; e == nil || e.Fields["violation"] != "determinism" || e.Fields["job"] != foreign.Name {
		t.Errorf("the Turn ends with %+v", e)
	}
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign); err != nil {
		t.Errorf("the Job of another owner was touched: %v", err)
	}
}

func TestALeaderThatIsBehindLeavesLaterStepsAlone(t *testing.T) {
	w := newWorld(t)
	w.begin(builder.JobTool("endless", v1alpha1.SideEffectPure).Obj(), builder.ClientTool("human").Obj())
	m := w.manager(0)
	m.until("the pod", func() bool { j := w.jobOf("endless"); return j != nil && w.podOf(j) != nil })
	turn := w.turn()
	later := w.jobOf("endless").DeepCopy()
	later.Name, later.ResourceVersion = "tool-of-a-later-step", ""
	later.Labels[v1alpha1.LabelStep] = "4"
	w.create(later)
	// Another leader has closed the step, in which the call was settled although its pod lives on.
	text := "done"
	var known act.Step
	known.Row("1-0").Outcome = &tool.Outcome{
		State: v1alpha1.ToolCallStateFailed, Reason: v1alpha1.ToolCallReasonTimeout, Error: "It timed out.",
	}
	known.Row("1-1").Outcome = &tool.Outcome{State: v1alpha1.ToolCallStateSucceeded, Result: &text}
	rival := w.manager(0)
	closed, err := rival.Steps.Act(
		t.Context(),
		turnstate.TurnOf(turn, w.session()),
		&known,
	)
	if err != nil || closed.Adopted {
		t.Fatalf("closed %+v, %v", closed, err)
	}
	w.manager(0).until("the next step", func() bool { return w.turn().Status.Plan.Step > 2 || w.finished() })
	var left []string
	for _, job := range w.jobs() {
		left = append(left, job.Name)
	}
	if !slices.Contains(left, later.Name) || len(left) != 1 {
		t.Errorf("the Jobs that are left: %v", left)
	}
}

func TestTheEndOfAStepLeavesTheLogsOfToolsThatHaveEnded(t *testing.T) {
	w := newWorld(t)
	w.begin(
		builder.JobTool("broken", v1alpha1.SideEffectPure).Obj(),
		builder.JobTool("endless", v1alpha1.SideEffectPure).Obj(),
	)
	m := w.manager(0)
	m.until("both pods", func() bool {
		return len(w.jobs()) == 2 && w.podOf(w.jobOf("endless")) != nil && w.podOf(w.jobOf("broken")) != nil
	})
	w.ends(
		w.podOf(w.jobOf("broken")),
		result.Report{Outcome: result.Exited, Exit: 3, Started: true, Stderr: "no such file"},
	)
	m.until("the failure", w.shows("broken", v1alpha1.ToolCallStateFailed))
	w.cancel()
	m.until("the end", func() bool {
		if job := w.jobOf("endless"); job == nil {
			w.collect()
		}
		return w.finished()
	})
	if w.jobOf("broken") == nil || w.jobOf("endless") != nil {
		t.Errorf(
			"the Job that has failed is there: %v, the one that ran: %v",
			w.jobOf("broken") != nil,
			w.jobOf("endless") != nil,
		)
	}
}

func TestTheJournalNamesTheImageThatRan(t *testing.T) {
	w := newWorld(t)
	w.begin(builder.JobTool("work", v1alpha1.SideEffectAtMostOnce).Obj(), builder.ClientTool("human").Obj())
	w.answer("human", "yes")
	m := w.manager(0)
	m.until("the end", w.finished)
	var images []string
	log := journal.New(w.store, journal.Options{Clock: w.present})
	closed, err := log.Find(t.Context(), turnstate.JournalOf(w.session()), w.turn().UID, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range closed.Events {
		if image := e.Context["tool_image"]; image != "" {
			images = append(images, e.Type+" "+image)
		}
	}
	if got := strings.Join(images, ", "); got != "tool.completed "+testImage {
		t.Errorf("the journal names %q", got)
	}
}

func TestACallWhoseEarlierAttemptMayHaveStartedIsNotCalledNotExecuted(t *testing.T) {
	w := newWorld(t)
	w.begin(builder.JobTool("endless", v1alpha1.SideEffectPure).Obj())
	m := w.manager(0)
	m.until("the first start", func() bool { return w.starts("endless") == 1 })
	job := w.jobOf("endless")
	w.deleteJob(job)
	m.withoutCluster("the second attempt", func() bool { return w.call("endless").Attempt == 2 })
	definition := &v1alpha1.Tool{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "endless"}}
	w.change(definition, func() { definition.Spec.Job.Image = "another" })
	m.withoutCluster("the end", w.finished)
	text := w.resultText("endless")
	if call := w.call(
		"endless",
	); call.State != v1alpha1.ToolCallStateFailed || strings.Contains(text, "changed nothing") ||
		!strings.Contains(text, "changed or removed") {
		t.Errorf("the call is %s (%s), the model received %q", call.State, call.Reason, text)
	}
}

func TestADecisionIsAcceptedOnlyWhileItsCallWaits(t *testing.T) {
	for name, test := range map[string]struct {
		decision v1alpha1.Decision
		live     func(*v1alpha1.Turn) error
		taken    bool
	}{
		"it waits":                  {v1alpha1.DecisionApprove, nil, true},
		"it waits, and is rejected": {v1alpha1.DecisionReject, nil, true},
		"the Turn was deleted": {v1alpha1.DecisionApprove, func(turn *v1alpha1.Turn) error {
			return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("turns").GroupResource(), turn.Name)
		}, false},
		"the Turn was deleted, rejected": {v1alpha1.DecisionReject, func(turn *v1alpha1.Turn) error {
			return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("turns").GroupResource(), turn.Name)
		}, false},
		"the Turn is being deleted": {v1alpha1.DecisionApprove, func(turn *v1alpha1.Turn) error {
			turn.DeletionTimestamp = &metav1.Time{Time: moment.Time}
			return nil
		}, false},
		"the Turn is another one": {v1alpha1.DecisionApprove, func(turn *v1alpha1.Turn) error {
			turn.UID = "another"
			return nil
		}, false},
		"the call is another one": {v1alpha1.DecisionApprove, func(turn *v1alpha1.Turn) error {
			turn.Status.ToolCalls[0].CallDigest = "another"
			return nil
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			guarded := builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj()
			guarded.Spec.Policy = v1alpha1.ToolPolicyRequiresApproval
			m := w.begin(guarded).manager(0)
			m.until("the call waits", w.shows("pay", v1alpha1.ToolCallStateWaiting))
			m.Live = interceptor.NewClient(w.client.(client.WithWatch), interceptor.Funcs{
				Get: func(
					ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption,
				) error {
					err := c.Get(ctx, key, object, options...)
					if turn, ok := object.(*v1alpha1.Turn); ok && err == nil && test.live != nil {
						return test.live(turn)
					}
					return err
				},
			})
			decision := deciding("decision", "1-0", test.decision)
			decision.Spec.TurnRef = v1alpha1.TurnReference{Name: turnName, UID: w.turn().UID}
			decision.Spec.CallDigest = w.call("pay").CallDigest
			w.create(&decision)
			for range 5 {
				if _, err := m.pass(); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(&decision), &decision); err != nil {
				t.Fatal(err)
			}
			if decided(&decision) != test.taken {
				t.Errorf("its conditions: %+v", decision.Status.Conditions)
			}
			if waits := w.call("pay").State == v1alpha1.ToolCallStateWaiting; waits == test.taken {
				t.Errorf("the call is %s", w.call("pay").State)
			}
			if log := len(w.transcript()); !test.taken && log != 2 {
				t.Errorf("the journal has %d messages", log)
			}
		})
	}
}
