package crash_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// interfered are conversations that the user ends or changes while they go on. They are run with the interference at
// each request, too.
var interfered = slices.Concat(
	threeEnds("an AtMostOnce Job", scenario{
		simulation: builder.Script("It is {{tool:pay}}.", builder.Calls("pay")),
		tools:      given(builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj()),
		tool:       blockFirst,
		ripe:       isRunning,
	}),
	threeEnds("an AtMostOnce request", scenario{
		simulation: builder.Script("It is {{tool:pay}}.", builder.Calls("pay")),
		tools:      given(builder.HTTPTool("pay", v1alpha1.SideEffectAtMostOnce, "").Obj()),
		respond:    blockUntilActed,
		ripe:       isRunning,
	}),
	threeEnds("an approval that does not come", scenario{
		simulation: builder.Script("It is {{tool:pay}}.", builder.Calls("pay")),
		tools:      given(approved(builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj())),
		ripe:       func(r *run) error { return r.waits(v1alpha1.ToolCallStateWaiting, "1-0") },
	}),
	threeEnds("an approved AtMostOnce Job", scenario{
		simulation: builder.Script("It is {{tool:pay}}.", builder.Calls("pay")),
		tools:      given(approved(builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj())),
		tool:       blockFirst,
		drive:      func(ctx context.Context, r *run) error { return r.decide(ctx, "1-0", v1alpha1.DecisionApprove) },
		ripe:       isRunning,
	}),
	threeEnds("an approved AtMostOnce request", scenario{
		simulation: builder.Script("It is {{tool:pay}}.", builder.Calls("pay")),
		tools:      given(approved(builder.HTTPTool("pay", v1alpha1.SideEffectAtMostOnce, "").Obj())),
		respond:    blockUntilActed,
		drive:      func(ctx context.Context, r *run) error { return r.decide(ctx, "1-0", v1alpha1.DecisionApprove) },
		ripe:       isRunning,
	}),
	threeEnds("a client's result that came early", scenario{
		simulation: builder.Script("{{tool:ask-ann}}, {{tool:ask-bob}}", builder.Calls("ask-ann", "ask-bob")),
		tools:      given(builder.ClientTool("ask-ann").Obj(), builder.ClientTool("ask-bob").Obj()),
		drive:      answerBob,
		ripe:       bobIsAccepted,
	}),
	[]scenario{
		{
			name:       "a message for the running Turn is cancelled",
			simulation: slowly(thinking("{{input}}", []string{"look"}, []string{"look"}, []string{"look"})),
			tools:      given(builder.HTTPTool("look", v1alpha1.SideEffectPure, "").Obj()),
			steers:     []string{"demo-2"},
			drive:      steerOnceBegun,
			ripe:       func(r *run) error { return exists(r.seen.turn(r.namespace, "demo-2")) },
			act:        cancelSteer,
			anytime:    true,
			varies:     true,
		},
		{
			name:       "a message for the running Turn is cancelled before the model has responded",
			simulation: slowly(builder.Script("Hello to you too.")),
			steers:     []string{"demo-2"},
			drive:      steerOnceBegun,
			ripe:       func(r *run) error { return exists(r.seen.turn(r.namespace, "demo-2")) },
			act:        cancelSteer,
			anytime:    true,
			varies:     true,
		},
		{
			name:       "a queued Turn is cancelled",
			simulation: builder.Script("Hello to you too."),
			ripe:       hasEnded,
			act:        cancelUnlessEnded,
			anytime:    true,
			varies:     true,
		},
		{
			name:       "a queued message is cancelled",
			simulation: builder.Script("Hello to you too."),
			spec:       func(s *v1alpha1.TurnSpec) { s.Delivery = v1alpha1.DeliverySteer },
			ripe:       hasEnded,
			act:        cancelUnlessEnded,
			anytime:    true,
			varies:     true,
		},
		{
			name:       "the Turn behind another one is cancelled",
			simulation: slowly(builder.Script("Hello to you too.")),
			turns:      []string{"demo-1", "demo-2"},
			ripe:       func(r *run) error { return exists(r.seen.turn(r.namespace, "demo-2")) },
			act:        func(ctx context.Context, r *run) error { return r.cancel(ctx, "demo-2") },
			anytime:    true,
			varies:     true,
		},
		{
			name:       "the Session is replaced",
			simulation: builder.Script("It is {{tool:pay}}.", builder.Calls("pay")),
			tools:      given(builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj()),
			steers:     []string{"demo-2"},
			tool:       blockFirst,
			ripe:       isRunning,
			act:        replaceSession,
			replaces:   "sessions",
			gone:       []string{"demo-1"},
			mayEnd:     true,
			varies:     true,
		},
		{
			name:       "the Turn is replaced",
			simulation: builder.Script("It is {{tool:pay}}.", builder.Calls("pay")),
			tools:      given(builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj()),
			tool:       blockFirst,
			ripe:       isRunning,
			act:        replaceTurn,
			replaces:   "turns",
			varies:     true,
		},
		{
			name:       "the Turn is replaced while its model is called",
			simulation: slowly(builder.Script("It is {{tool:pay}}.", builder.Calls("pay"))),
			tools:      given(builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj()),
			ripe:       hasBegun,
			act:        replaceTurn,
			replaces:   "turns",
			varies:     true,
		},
	},
)

// mixed are conversations with calls of several kinds in one step, one of which outlasts the progress that the status
// shows.
var mixed = []scenario{
	{
		name: "a request, a Job and a client that is slow",
		simulation: builder.Script(
			"{{tool:look}}, {{tool:work}}, {{tool:ask-ann}}",
			builder.Calls("look", "work", "ask-ann"),
		),
		tools: given(
			builder.HTTPTool("look", v1alpha1.SideEffectPure, "").Obj(),
			builder.JobTool("work", v1alpha1.SideEffectPure).Obj(),
			builder.ClientTool("ask-ann").Obj(),
		),
		drive: onceSettled(respondTo("1-2"), "1-0", "1-1"),
	},
	{
		name: "an AtMostOnce request, an AtMostOnce Job and a client that is slow",
		simulation: builder.Script(
			"{{tool:look}}, {{tool:work}}, {{tool:ask-ann}}",
			builder.Calls("look", "work", "ask-ann"),
		),
		tools: given(
			builder.HTTPTool("look", v1alpha1.SideEffectAtMostOnce, "").Obj(),
			builder.JobTool("work", v1alpha1.SideEffectAtMostOnce).Obj(),
			builder.ClientTool("ask-ann").Obj(),
		),
		drive: onceSettled(respondTo("1-2"), "1-0", "1-1"),
	},
	{
		name:       "a request and a Job that is slow",
		simulation: builder.Script("{{tool:look}}, {{tool:work}}", builder.Calls("look", "work")),
		tools: given(
			builder.HTTPTool("look", v1alpha1.SideEffectPure, "").Obj(),
			builder.JobTool("work", v1alpha1.SideEffectAtMostOnce).Obj(),
		),
		tool: slow,
	},
	{
		name:       "an AtMostOnce request and a Pure Job that is slow",
		simulation: builder.Script("{{tool:pay}}, {{tool:work}}", builder.Calls("pay", "work")),
		tools: given(
			builder.HTTPTool("pay", v1alpha1.SideEffectAtMostOnce, "").Obj(),
			builder.JobTool("work", v1alpha1.SideEffectPure).Obj(),
		),
		tool: slow,
	},
	{
		name:       "a request and an approval that is slow",
		simulation: builder.Script("{{tool:look}}, {{tool:pay}}", builder.Calls("look", "pay")),
		tools: given(
			builder.HTTPTool("look", v1alpha1.SideEffectPure, "").Obj(),
			approved(builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj()),
		),
		drive: onceSettled(func(ctx context.Context, r *run) error {
			return r.decide(ctx, "1-1", v1alpha1.DecisionApprove)
		}, "1-0"),
	},
	{
		name:       "a Job that is deleted once it has ended, and a client that is slow",
		simulation: builder.Script("{{tool:work}}, {{tool:ask-ann}}", builder.Calls("work", "ask-ann")),
		tools:      given(builder.JobTool("work", v1alpha1.SideEffectPure).Obj(), builder.ClientTool("ask-ann").Obj()),
		drive: onceSettled(func(ctx context.Context, r *run) error {
			err := r.user.DeleteAllOf(
				ctx,
				&batchv1.Job{},
				client.InNamespace(r.namespace),
				client.PropagationPolicy(metav1.DeletePropagationBackground),
			)
			if err != nil {
				return err
			}
			return r.user.Create(ctx, r.toolResult("ann", "1-1", "yes"))
		}, "1-0"),
		varies: true,
	},
}

// bulky are conversations whose journals have more than one entry for a step.
var bulky = []scenario{
	{
		name:       "results that fill several parts",
		simulation: builder.Script("done", builder.Calls(slices.Repeat([]string{"look"}, 12)...)),
		tools:      given(builder.HTTPTool("look", v1alpha1.SideEffectPure, "").Obj()),
		respond:    respondAtLength,
	},
	{
		name:       "a checkpoint in the way",
		simulation: thinking("done", slices.Repeat([][]string{{"look"}}, 33)...),
		tools:      given(builder.HTTPTool("look", v1alpha1.SideEffectPure, "").Obj()),
		from:       126,
	},
	{
		name:       "a journal that is full",
		simulation: thinking("done", []string{"look"}, []string{"look"}),
		tools:      given(builder.HTTPTool("look", v1alpha1.SideEffectPure, "").Obj()),
		respond:    respondAtLength,
		session:    func(s *v1alpha1.SessionSpec) { s.JournalLimit = resource.NewQuantity(64<<10, resource.BinarySI) },
	},
}

// deadline is after which the Turns end that are to expire.
const deadline = 3 * time.Second

// threeEnds are three scenarios of one: the first Turn is cancelled, is deleted, and takes too long.
func threeEnds(what string, s scenario) []scenario {
	s.varies = true
	cancelled, deleted, expired := s, s, s
	cancelled.name, cancelled.act = what+", cancelled", cancel
	deleted.name, deleted.act, deleted.gone = what+", deleted", remove, []string{"demo-1"}
	expired.name, expired.act, expired.expires = what+", expired", expire, deadline
	expired.spec = func(s *v1alpha1.TurnSpec) { s.ActiveDeadlineSeconds = new(int64(deadline / time.Second)) }
	return []scenario{cancelled, deleted, expired}
}

// expire waits until the Turn has taken too long.
func expire(ctx context.Context, r *run) error {
	return r.await(ctx, func() error { return r.hasExpired(time.Now()) })
}

// hasExpired reports whether the first Turn has taken too long by a time. One that has not begun cannot.
func (r *run) hasExpired(now time.Time) error {
	turn := r.seen.turn(r.namespace, "demo-1")
	if turn.Status.Summary == nil || turn.Status.Summary.StartedAt == nil {
		if now.Sub(turn.CreationTimestamp.Time) > r.expires {
			return nil
		}
		return errors.New("the Turn has not begun")
	}
	if left := turn.Status.Summary.StartedAt.Add(r.expires + 50*time.Millisecond).Sub(now); left > 0 {
		return fmt.Errorf("the Turn has %s left", left)
	}
	return nil
}

func approved(tool *v1alpha1.Tool) *v1alpha1.Tool {
	tool.Spec.Policy = v1alpha1.ToolPolicyRequiresApproval
	return tool
}

// thinking is a script that calls the tools of one step after the other, and then responds with the text.
func thinking(text string, steps ...[]string) v1alpha1.Simulation {
	var sequence []v1alpha1.SimulatedStep
	for _, names := range steps {
		step := v1alpha1.SimulatedStep{}
		for _, name := range names {
			step.Calls = append(step.Calls, v1alpha1.SimulatedToolCall{Name: name})
		}
		sequence = append(sequence, step)
	}
	return v1alpha1.Simulation{
		Response: builder.Fixed(
			text,
		),
		ToolCalls: &v1alpha1.SimulatedToolCalls{Sequence: append(sequence, v1alpha1.SimulatedStep{})},
	}
}

// modelLatency is how long a slow model takes to respond.
const modelLatency = 200 * time.Millisecond

// slowly makes a model take its time.
func slowly(s v1alpha1.Simulation) v1alpha1.Simulation {
	s.Latency = &metav1.Duration{Duration: modelLatency}
	return s
}

// slow is a tool that takes longer than it takes the status to show the progress of the others.
func slow(_ *run, call capstantest.Call) string {
	select {
	case <-time.After(1500 * time.Millisecond):
	case <-call.Context.Done():
	}
	return "result of " + call.ID
}

// blockFirst is a tool that does not end by itself before the user has interfered.
func blockFirst(r *run, call capstantest.Call) string {
	r.toolStarted()
	select {
	case <-call.Context.Done():
	case <-r.acted:
		// The interference comes first, where there is one.
		select {
		case <-call.Context.Done():
		case <-time.After(time.Second):
		}
	}
	return "result of " + call.ID
}

// blockUntilActed is a server that does not respond before the user has interfered.
func blockUntilActed(ctx context.Context, r *run, _ string) string {
	r.toolStarted()
	select {
	case <-ctx.Done():
	case <-r.acted:
	}
	return "answered"
}

func respondAtLength(context.Context, *run, string) string {
	return strings.Repeat("word ", 12_000)
}

func exists(turn *v1alpha1.Turn) error {
	if turn.UID == "" {
		return errors.New("the Turn does not exist")
	}
	return nil
}

// hasBegun reports whether the first Turn has begun: its plan is not in status while the first model call is short.
func hasBegun(r *run) error {
	active := r.seen.session(r.namespace).Status.ActiveTurn
	if began(r.seen.turn(r.namespace, "demo-1")) || active != nil && active.Name == "demo-1" {
		return nil
	}
	return errors.New("the Turn has not begun")
}

// waits reports whether calls of the first Turn are in a state.
func (r *run) waits(state v1alpha1.ToolCallState, ids ...string) error {
	turn := r.seen.turn(r.namespace, "demo-1")
	for _, id := range ids {
		if !slices.ContainsFunc(
			turn.Status.ToolCalls,
			func(c v1alpha1.ToolCall) bool { return c.ID == id && c.State == state },
		) {
			return fmt.Errorf("call %s is not %s: %s", id, state, callsOf(turn))
		}
	}
	return nil
}

// settled reports whether calls of the first Turn have their final state. After a death that may be Unknown.
func (r *run) settled(ids ...string) error {
	turn := r.seen.turn(r.namespace, "demo-1")
	for _, id := range ids {
		if !slices.ContainsFunc(
			turn.Status.ToolCalls,
			func(c v1alpha1.ToolCall) bool { return c.ID == id && c.State.Settled() },
		) {
			return fmt.Errorf("call %s is not settled: %s", id, callsOf(turn))
		}
	}
	return nil
}

// decide decides about a call once it waits for that.
func (r *run) decide(ctx context.Context, call string, decision v1alpha1.Decision) error {
	if err := r.await(ctx, func() error { return r.waits(v1alpha1.ToolCallStateWaiting, call) }); err != nil {
		return err
	}
	turn := r.seen.turn(r.namespace, "demo-1")
	result := r.toolResult("decision-"+call, call, "")
	result.Spec.TurnRef.UID = turn.UID
	result.Spec.Result, result.Spec.Decision, result.Spec.SubmittedBy = nil, decision, "ann"
	for _, c := range turn.Status.ToolCalls {
		if c.ID == call {
			result.Spec.CallDigest = c.CallDigest
		}
	}
	return r.user.Create(ctx, result)
}

// answerBob creates the result of the second of two calls.
func answerBob(ctx context.Context, r *run) error {
	if err := r.await(ctx, func() error { return r.waits(v1alpha1.ToolCallStateWaiting, "1-0", "1-1") }); err != nil {
		return err
	}
	return r.user.Create(ctx, r.toolResult("bob", "1-1", "no"))
}

func bobIsAccepted(r *run) error {
	for _, result := range r.seen.toolResults(r.namespace) {
		if len(result.Status.Conditions) > 0 && result.Status.Conditions[0].Status == metav1.ConditionTrue {
			return nil
		}
	}
	return errors.New("the result is not accepted")
}

// onceSettled does something when the status shows calls as settled.
func onceSettled(do func(context.Context, *run) error, calls ...string) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		if err := r.await(ctx, func() error { return r.settled(calls...) }); err != nil {
			return err
		}
		return do(ctx, r)
	}
}

// respondTo creates the result of a call of a client tool.
func respondTo(call string) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error { return r.user.Create(ctx, r.toolResult("ann", call, "yes")) }
}

func (r *run) steer(ctx context.Context) error {
	steer := r.newTurn(r.steers[0])
	steer.Spec.Delivery = v1alpha1.DeliverySteer
	return r.user.Create(ctx, steer)
}

// steerOnceBegun sends a message for the Turn when it runs.
func steerOnceBegun(ctx context.Context, r *run) error {
	if err := r.await(ctx, func() error { return hasBegun(r) }); err != nil {
		return err
	}
	return r.steer(ctx)
}

// cancelSteer cancels the message for the running Turn.
func cancelSteer(ctx context.Context, r *run) error {
	if err := r.steer(ctx); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return r.cancel(ctx, r.steers[0])
}

// replaceSession deletes the Session and creates it again, and sends another message.
func replaceSession(ctx context.Context, r *run) error {
	if err := r.user.Delete(ctx, r.newSession()); err != nil {
		return err
	}
	err := r.await(ctx, func() error {
		err := r.user.Create(ctx, r.newSession())
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return hopeless{err}
		}
		return err
	})
	if err != nil {
		return err
	}
	return r.user.Create(ctx, r.newTurn(r.steers[0]))
}

// replaceTurn deletes the Turn and creates it again at once.
func replaceTurn(ctx context.Context, r *run) error {
	if err := remove(ctx, r); err != nil {
		return err
	}
	return r.create(ctx)
}
