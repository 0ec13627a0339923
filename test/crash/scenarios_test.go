package crash_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// scenario is a conversation that every disturbance must leave as it is.
type scenario struct {
	name string
	// simulation is the script of the model.
	simulation v1alpha1.Simulation
	// tools makes the Tools.
	tools func() []*v1alpha1.Tool
	// turns are the names of the Turns, all created at once. Default: demo-1.
	turns []string
	// spec adds to the spec of the Turns; nil for nothing.
	spec func(*v1alpha1.TurnSpec)
	// tool returns the result of a tool; nil for the id of its call.
	tool func(r *run, call capstantest.Call) string
	// drive acts as the user while the Turns run; nil for nothing.
	drive func(ctx context.Context, r *run) error
	// respond returns the response of an HTTP tool; nil for the same text.
	respond func(ctx context.Context, r *run, tool string) string
	// bundles makes the Capabilities; nil for none.
	bundles func() []*v1alpha1.Capability
	// needs returns the provider that a request of an HTTP tool needs a connection to, empty for none; nil for none ever.
	needs func(r *run) string
	// exit returns the exit code of a Job; nil for 0.
	exit func(r *run, call capstantest.Call) int
	// serve makes the server of the MCPServer, whose tool echo has the class; nil for no MCPServer.
	serve func() http.Handler
	class v1alpha1.SideEffect
	// session adds to the spec of the Session; nil for nothing.
	session func(*v1alpha1.SessionSpec)
	// act is the user's interference; nil for none. Scenarios that have it are also run with the interference at each
	// request.
	act func(ctx context.Context, r *run) error
	// ripe reports whether the natural moment to interfere has come.
	ripe func(r *run) error
	// replaces is the resource of which act deletes an object and creates it again.
	replaces string
	// anytime reports whether the conversation goes on without the interference.
	anytime bool
	// varies reports whether the outcome depends on the time, so that only the invariants are held.
	varies bool
	// expires reports whether a deadline of the Turn ends it.
	expires time.Duration
	// from is the first request that is disturbed; 0 for all.
	from int
	// stops reports whether no Job may be left at the end that could still run.
	stops bool
	// mayEnd reports whether the Turns in gone may also end.
	mayEnd bool
	// steers are the messages that the user sends for the Turn that runs.
	steers []string
	// gone are the Turns that are deleted while they run. Nothing is left of them but the journal.
	gone []string
}

var scenarios = slices.Concat(
	plain, guarded, lively, interfered, bundled, blueprints, mixed, waiting, connecting, serving, bulky, backgrounds,
	paged, compacted,
)

var plain = []scenario{
	{
		name:       "no tools",
		simulation: builder.Script("Hello to you too."),
	},
	{
		name: "two Turns in a row",
		simulation: v1alpha1.Simulation{
			Response: &v1alpha1.SimulatedResponse{Type: v1alpha1.SimulatedResponseTypeEcho, Prefix: "You said: "},
		},
		turns: []string{"demo-1", "demo-2"},
	},
	{
		name:       "one Pure Job",
		simulation: builder.Script("It is {{tool:work}}.", builder.Calls("work")),
		tools:      given(builder.JobTool("work", v1alpha1.SideEffectPure).Obj()),
	},
	{
		name:       "one AtMostOnce Job",
		simulation: builder.Script("It is {{tool:pay}}.", builder.Calls("pay")),
		tools:      given(builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj()),
	},
	{
		name:       "two AtMostOnce Jobs side by side",
		simulation: builder.Script("It is {{tool:pay}}.", builder.Calls("pay", "pay")),
		tools:      given(builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj()),
	},
	{
		name:       "one Pure request",
		simulation: builder.Script("It is {{tool:ask}}.", builder.Calls("ask")),
		tools:      given(builder.HTTPTool("ask", v1alpha1.SideEffectPure, "").Obj()),
	},
	{
		name:       "two AtMostOnce requests side by side",
		simulation: builder.Script("It is {{tool:pay}}.", builder.Calls("pay", "pay")),
		tools:      given(builder.HTTPTool("pay", v1alpha1.SideEffectAtMostOnce, "").Obj()),
	},
	{
		// The model of the sub-agent makes the same calls, and that of its sub-agent, until the third level refuses.
		// Rules: VEC-23.
		name:       "sub-agents beside an AtMostOnce Job, three levels deep",
		simulation: builder.Script("It is {{tool:pay}}.", builder.Calls("helper", "pay")),
		tools: given(
			builder.AgentTool("helper", "").Obj(), builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj(),
		),
	},
	{
		name: "a built-in tool beside an AtMostOnce Job",
		simulation: writingTodos(
			builder.Script("It is {{tool:pay}}, {{tool:write_todos}}.", builder.Calls("pay", "write_todos")),
		),
		tools: given(builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj()),
		session: func(s *v1alpha1.SessionSpec) {
			s.Capabilities = []v1alpha1.CapabilityReference{{Builtin: "stateless_todo_list"}}
		},
	},
	{
		name:       "client tools, one of which answers early",
		simulation: builder.Script("{{tool:ask-ann}}, {{tool:ask-bob}}", builder.Calls("ask-ann", "ask-bob")),
		tools:      given(builder.ClientTool("ask-ann").Obj(), builder.ClientTool("ask-bob").Obj()),
		drive:      answerOneByOne,
	},
	{
		name:       "a message ends the wait for a client",
		simulation: builder.Script("{{input}}: {{tool:ask-ann}}", builder.Calls("ask-ann")),
		tools:      given(builder.ClientTool("ask-ann").Obj()),
		drive:      steerOnceWaiting,
		steers:     []string{"demo-2"},
	},
	{
		name:       "waits for a client for too long",
		simulation: builder.Script("{{tool:ask-ann}}", builder.Calls("ask-ann")),
		tools:      given(builder.ClientTool("ask-ann").Obj()),
		spec:       func(s *v1alpha1.TurnSpec) { s.WaitTimeout = &metav1.Duration{Duration: time.Second} },
	},
	{
		name:       "created again once it has ended",
		simulation: builder.Script("It is {{tool:pay}}.", builder.Calls("pay")),
		tools:      given(builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj()),
		drive:      createAgain,
	},
	{
		name:       "cancelled while its tool runs",
		simulation: builder.Script("never", builder.Calls("work")),
		tools:      given(builder.JobTool("work", v1alpha1.SideEffectPure).Obj()),
		tool:       blockForEver,
		ripe:       isRunning,
		act:        cancel,
		stops:      true,
	},
	{
		name:       "deleted while its tool runs",
		simulation: builder.Script("It is {{tool:work}}.", builder.Calls("work")),
		tools:      given(builder.JobTool("work", v1alpha1.SideEffectPure).Obj()),
		turns:      []string{"demo-1", "demo-2"},
		tool: func(r *run, call capstantest.Call) string {
			if call.Turn == "demo-1" {
				r.toolStarted()
				<-call.Context.Done()
			}
			return "result of " + call.Turn
		},
		ripe: isRunning,
		act:  remove,
		gone: []string{"demo-1"},
	},
	{
		name:       "a Pure tool is evicted and runs again",
		simulation: builder.Script("It is {{tool:work}}.", builder.Calls("work")),
		tools:      given(builder.JobTool("work", v1alpha1.SideEffectPure).Obj()),
		tool: func(r *run, call capstantest.Call) string {
			if call.Attempt == 1 {
				r.toolStarted()
				<-call.Context.Done()
			}
			return fmt.Sprintf("result of attempt %d", call.Attempt)
		},
		drive: evictOnceRunning,
	},
	{
		name:       "an AtMostOnce tool is evicted and does not run again",
		simulation: builder.Script("It is {{tool:pay}}.", builder.Calls("pay")),
		tools:      given(builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj()),
		tool:       blockForEver,
		drive:      evictOnceRunning,
	},
	{
		name:       "the pod of an AtMostOnce tool vanishes",
		simulation: builder.Script("It is {{tool:pay}}.", builder.Calls("pay")),
		tools:      given(builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj()),
		tool:       blockForEver,
		drive:      removePodOnceRunning,
	},
	{
		name:       "AtMostOnce tools that need approval, one of which gets it",
		simulation: builder.Script("{{tool:pay}}, {{tool:refund}}", builder.Calls("pay", "refund")),
		tools: given(
			approved(builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj()),
			approved(builder.JobTool("refund", v1alpha1.SideEffectAtMostOnce).Obj()),
		),
		drive: approveOne,
	},
}

// blockForEver is a tool that does not end by itself.
func blockForEver(r *run, call capstantest.Call) string {
	r.toolStarted()
	<-call.Context.Done()
	return "never"
}

// answerOneByOne creates the result of the second call, and that of the first once the second is kept.
func answerOneByOne(ctx context.Context, r *run) error {
	waitsFor := func(names ...string) func() error {
		return func() error {
			matched, err := capstantest.WaitForTools(names...).Match(r.seen.turn(r.namespace, "demo-1"))
			if err == nil && !matched {
				err = fmt.Errorf("the Turn does not wait for %v", names)
			}
			return err
		}
	}
	if err := r.await(ctx, waitsFor("ask-ann", "ask-bob")); err != nil {
		return err
	}
	if err := r.user.Create(ctx, r.toolResult("bob", "1-1", "no")); err != nil {
		return err
	}
	if err := r.await(ctx, waitsFor("ask-ann")); err != nil {
		return err
	}
	return r.user.Create(ctx, r.toolResult("ann", "1-0", "yes"))
}

// steerOnceWaiting sends a message for the Turn when it waits for a client.
func steerOnceWaiting(ctx context.Context, r *run) error {
	err := r.await(ctx, func() error {
		if phase := r.seen.turn(r.namespace, "demo-1").Status.Phase; phase != v1alpha1.TurnPhaseWaitingForToolResults {
			return fmt.Errorf("the Turn is in phase %s", phase)
		}
		return nil
	})
	if err != nil {
		return err
	}
	steer := r.newTurn(r.steers[0])
	steer.Spec.Delivery = v1alpha1.DeliverySteer
	return r.user.Create(ctx, steer)
}

// approveOne approves the first call and rejects the second, in any order. Nothing starts before.
func approveOne(ctx context.Context, r *run) error {
	err := r.await(ctx, func() error {
		matched, err := capstantest.WaitForApproval("pay", "refund").Match(r.seen.turn(r.namespace, "demo-1"))
		if err == nil && !matched {
			err = errors.New("the Turn does not wait for approval")
		}
		return err
	})
	if err != nil {
		return err
	}
	for call, decision := range map[string]v1alpha1.Decision{
		"1-0": v1alpha1.DecisionApprove, "1-1": v1alpha1.DecisionReject,
	} {
		if err := r.decide(ctx, call, decision); err != nil {
			return err
		}
	}
	return nil
}

// isRunning reports whether a tool has started.
func isRunning(r *run) error {
	if len(r.started) == 0 {
		return errors.New("no tool has started")
	}
	return nil
}

// running waits until a tool has started.
func (r *run) running(ctx context.Context) error {
	return r.await(ctx, func() error {
		select {
		case <-r.started:
			return nil
		default:
			return errors.New("the tool did not start")
		}
	})
}

// remove deletes the first Turn.
func remove(ctx context.Context, r *run) error {
	return r.user.Delete(ctx, &v1alpha1.Turn{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "demo-1"}})
}

// createAgain deletes the Turn when it has ended and creates it again. It must take over its outcome, and its tool must
// not run again.
func createAgain(ctx context.Context, r *run) error {
	if err := r.await(ctx, r.isOver); err != nil {
		return err
	}
	first := r.seen.turn(r.namespace, "demo-1")
	if err := r.user.Delete(ctx, first.DeepCopy()); err != nil {
		return err
	}
	if err := r.user.Create(ctx, r.newTurn("demo-1")); err != nil {
		return err
	}
	return r.await(ctx, func() error {
		if second := r.seen.turn(r.namespace, "demo-1"); second.UID == first.UID || !ended(second) {
			return errors.New("the Turn that was created again has not ended")
		}
		return nil
	})
}

// cancel cancels the first Turn.
func cancel(ctx context.Context, r *run) error { return r.cancel(ctx, "demo-1") }

// cancelUnlessEnded cancels the first Turn at the request at which the user interferes; it has ended if there is none.
func cancelUnlessEnded(ctx context.Context, r *run) error {
	if hasEnded(r) == nil {
		return nil
	}
	return cancel(ctx, r)
}

// hasEnded reports whether the first Turn has ended.
func hasEnded(r *run) error {
	if turn := r.seen.turn(r.namespace, "demo-1"); !ended(turn) {
		return fmt.Errorf("the Turn is in phase %s", turn.Status.Phase)
	}
	return nil
}

func (r *run) cancel(ctx context.Context, name string) error {
	turn := &v1alpha1.Turn{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name}}
	return r.user.Patch(
		ctx,
		turn,
		client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"desiredState":"Cancelled"}}`)),
	)
}

// runningPod is the pod of the tool that has started.
func (r *run) runningPod(ctx context.Context) (*corev1.Pod, error) {
	if err := r.running(ctx); err != nil {
		return nil, err
	}
	var pods corev1.PodList
	if err := r.user.List(ctx, &pods, client.InNamespace(r.namespace)); err != nil {
		return nil, err
	}
	for i := range pods.Items {
		if pods.Items[i].Status.Phase == corev1.PodRunning {
			return &pods.Items[i], nil
		}
	}
	return nil, errors.New("no pod runs")
}

// evictOnceRunning does to the pod of the tool what an eviction does.
func evictOnceRunning(ctx context.Context, r *run) error {
	pod, err := r.runningPod(ctx)
	if err != nil {
		return err
	}
	base := pod.DeepCopy()
	now := metav1.Now()
	pod.Status.Phase = corev1.PodFailed
	pod.Status.Conditions = []corev1.PodCondition{
		{
			Type:               corev1.DisruptionTarget,
			Status:             corev1.ConditionTrue,
			Reason:             "EvictionByEvictionAPI",
			LastTransitionTime: now,
		},
	}
	status := &pod.Status.ContainerStatuses[0]
	status.Started = nil
	status.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode:    137,
		Reason:      "Error",
		StartedAt:   status.State.Running.StartedAt,
		FinishedAt:  now,
		ContainerID: status.ContainerID,
	}}
	return r.user.Status().Patch(ctx, pod, client.MergeFrom(base))
}

// removePodOnceRunning deletes the pod of the tool, so that its end is not observed. Without the Job controller's
// finalizer nothing keeps it.
func removePodOnceRunning(ctx context.Context, r *run) error {
	pod, err := r.runningPod(ctx)
	if err != nil {
		return err
	}
	base := pod.DeepCopy()
	pod.Finalizers = nil
	if err := r.user.Patch(ctx, pod, client.MergeFrom(base)); err != nil {
		return err
	}
	return r.user.Delete(ctx, pod, client.GracePeriodSeconds(0))
}

// writingTodos gives the calls of write_todos in a script their arguments.
func writingTodos(script v1alpha1.Simulation) v1alpha1.Simulation {
	for _, step := range script.ToolCalls.Sequence {
		for i := range step.Calls {
			if call := &step.Calls[i]; call.Name == "write_todos" {
				call.Arguments = &v1alpha1.JSON{
					Raw: []byte(`{"todos":[{"content":"Pay.","activeForm":"Paying.","status":"in_progress"}]}`),
				}
			}
		}
	}
	return script
}

// given are the Tools of a scenario.
func given(tools ...*v1alpha1.Tool) func() []*v1alpha1.Tool {
	return func() []*v1alpha1.Tool {
		copies := make([]*v1alpha1.Tool, len(tools))
		for i, tool := range tools {
			copies[i] = tool.DeepCopy()
		}
		return copies
	}
}
