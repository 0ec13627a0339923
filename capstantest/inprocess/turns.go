package inprocess

import (
	"context"
	"fmt"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/apivalidation"
	"github.com/capstan-dev/capstan/internal/runtime/inprocess"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// submitter is the user of results and decisions in process.
const submitter = "inprocess"

// RunTurn runs a Turn until it has ended or waits for ToolResults or for a Secret, which Apply adds, and returns it
// with its status (RT-04): its phase and conditions are those that the controllers would set. A failed Turn is not an
// error. The status of the given Turn is ignored, and the Turn is not changed.
//
// The Turns of a Session run one at a time, in the order of the calls (GAP-15): RunTurn waits for those before it, also
// for one that waits for others. A Turn with delivery Steer goes into the one that runs, if there is one, and has then
// ended with StopReason Steered (STEER-01). Turns of different Sessions run at the same time.
//
// A name and message that the Session has seen take over the outcome of that Turn (reason AlreadyRan), or continue it
// where another Runtime left it according to the journal; another message under a used name is refused (NameReused).
//
// When ctx ends before, the Turn is cancelled, and returned with the context's error. The error is ErrStopped when the
// context of New has ended. After any other error the Turn is invalid or suspended, or its Session is missing or cannot
// be used.
func (r *Runtime) RunTurn(ctx context.Context, turn *v1alpha1.Turn) (*v1alpha1.Turn, error) {
	given := turn.DeepCopy()
	if err := apivalidation.Admit(given); err != nil {
		return nil, fmt.Errorf("running a Turn: %w", err)
	}
	if suspend := given.Spec.Suspend; suspend != nil && *suspend {
		return nil, fmt.Errorf("running Turn %s: it is suspended", given.Name)
	}
	session, err := r.session(given.Spec.SessionRef.Name)
	if err != nil {
		return nil, fmt.Errorf("running Turn %s: %w", given.Name, err)
	}
	if _, err := r.built.resolve(ctx, session); err != nil {
		return nil, fmt.Errorf("running Turn %s: %w", given.Name, err)
	}
	given.Namespace, given.UID, given.Generation = session.Namespace, newUID(), 1
	return r.loop.Run(ctx, given)
}

// RunText runs a Turn with a text in a Session, the default one for an empty name, as RunTurn does (RT-04). The Turn
// gets a new name. Its status.output is the model's response, truncated at 8 KiB; Messages has the whole text.
func (r *Runtime) RunText(ctx context.Context, session, text string) (*v1alpha1.Turn, error) {
	of, err := r.session(session)
	if err != nil {
		return nil, fmt.Errorf("running a text: %w", err)
	}
	turn := &v1alpha1.Turn{Spec: v1alpha1.TurnSpec{SessionRef: v1alpha1.LocalReference{Name: of.Name}, Input: text}}
	turn.Name = "text-" + string(newUID())
	return r.RunTurn(ctx, turn)
}

// Turn returns a Turn by its name, as long as the Runtime lives: with its current status if it was run, without one if
// it came with the manifests and was not; nil for none.
func (r *Runtime) Turn(name string) *v1alpha1.Turn {
	if turn := r.loop.Turn(name); turn != nil {
		return turn
	}
	return r.built.objects.turn(name)
}

// Await waits until a Turn that was run has ended, or waits for ToolResults or a Secret, and returns it. If ctx ends
// before, the Turn continues.
func (r *Runtime) Await(ctx context.Context, turn string) (*v1alpha1.Turn, error) {
	return r.loop.Await(ctx, turn)
}

// AwaitTask waits until the end of a background task was delivered, and returns the Turn that delivers it, once that
// has ended or waits. The id is in the result of
// spawn_background.
func (r *Runtime) AwaitTask(ctx context.Context, id string) (*v1alpha1.Turn, error) {
	return r.loop.AwaitTask(ctx, id)
}

// Cancel ends a Turn, as desiredState: Cancelled does, and returns it once it has ended. A Turn that has ended stays
// unchanged. The functions of tools are cancelled by Call.Context, without waiting for them.
func (r *Runtime) Cancel(ctx context.Context, turn string) (*v1alpha1.Turn, error) {
	return r.loop.Cancel(ctx, turn)
}

// Answer passes the result of a call of a client tool to a waiting Turn, at most 100 KiB, of which the model is shown
// 64 KiB, and then waits as RunTurn does; the Turn is cancelled when ctx ends before. A result is kept in the journal
// even if the Turn waits for more (CLIENT-04). The error is a *RefusedError if the Turn does not accept it.
func (r *Runtime) Answer(ctx context.Context, turn, call, text string) (*v1alpha1.Turn, error) {
	return r.provideResult(ctx, turn, v1alpha1.ToolResultSpec{CallID: call, Result: &text})
}

// Refuse answers a call of a client tool with an error, as Answer does with a result.
func (r *Runtime) Refuse(ctx context.Context, turn, call, text string) (*v1alpha1.Turn, error) {
	return r.provideResult(ctx, turn, v1alpha1.ToolResultSpec{CallID: call, Error: &text})
}

// noDigest replaces the digest of a call without one, so that the Turn returns why it accepts no decision about it.
var noDigest = strings.Repeat("0", 64)

// Decide approves or rejects a call that waits for approval (TOOL-07), and then waits as RunTurn does. The error is a
// *RefusedError if the Turn does not accept the decision.
func (r *Runtime) Decide(ctx context.Context, turn, call string, decision v1alpha1.Decision) (*v1alpha1.Turn, error) {
	return r.provideBound(ctx, turn, v1alpha1.ToolResultSpec{CallID: call, Decision: decision})
}

// Reject rejects a call as Decide does, with a reason that the model reads; empty for none.
func (r *Runtime) Reject(ctx context.Context, turn, call, reason string) (*v1alpha1.Turn, error) {
	return r.provideBound(ctx, turn, v1alpha1.ToolResultSpec{
		CallID: call, Decision: v1alpha1.DecisionReject, Reason: reason,
	})
}

// AnswerInput answers a question of a tool, which the waiting Turn has in status.toolCalls, and then waits as RunTurn
// does. The error is a *RefusedError if the Turn does not accept the answer.
func (r *Runtime) AnswerInput(
	ctx context.Context, turn, call string, answer v1alpha1.InputAnswer,
) (*v1alpha1.Turn, error) {
	return r.provideBound(ctx, turn, v1alpha1.ToolResultSpec{CallID: call, Input: &answer})
}

// provideBound provides a ToolResult that is about what the Turn shows of its call.
func (r *Runtime) provideBound(
	ctx context.Context, turn string, spec v1alpha1.ToolResultSpec,
) (*v1alpha1.Turn, error) {
	spec.SubmittedBy, spec.CallDigest = submitter, noDigest
	if shown := r.loop.Turn(turn); shown != nil {
		spec.TurnRef.UID = shown.UID
		for _, waiting := range shown.Status.ToolCalls {
			if waiting.ID == spec.CallID && waiting.CallDigest != "" {
				spec.CallDigest = waiting.CallDigest
			}
		}
	}
	return r.provideResult(ctx, turn, spec)
}

func (r *Runtime) provideResult(
	ctx context.Context,
	turn string,
	spec v1alpha1.ToolResultSpec,
) (*v1alpha1.Turn, error) {
	spec.TurnRef.Name = turn
	given := &v1alpha1.ToolResult{Spec: spec}
	given.Name, given.UID = "given-"+string(newUID()), newUID()
	if err := apivalidation.Admit(given); err != nil {
		return nil, fmt.Errorf("answering call %s of Turn %s: %w", spec.CallID, turn, err)
	}
	return r.loop.ProvideResult(ctx, given)
}

// Messages returns the conversation of a Session, the default one for an empty name, oldest first: the messages of
// steps that are closed (RT-04).
func (r *Runtime) Messages(ctx context.Context, session string) ([]Message, error) {
	of, err := r.session(session)
	if err != nil {
		return nil, fmt.Errorf("reading messages: %w", err)
	}
	view, err := r.steps.Log.View(ctx, turnstate.JournalOf(of), 0)
	if err != nil {
		return nil, fmt.Errorf("reading the messages of Session %s: %w", of.Name, err)
	}
	return append([]Message(nil), view.Messages...), nil
}

// Events returns the events of a Session, the default one for an empty name, in the order of the journal: those of
// closed steps (RT-04). The sequence number of an event is its place, from 1 (EVT-02).
func (r *Runtime) Events(ctx context.Context, session string) ([]Event, error) {
	of, err := r.session(session)
	if err != nil {
		return nil, fmt.Errorf("reading events: %w", err)
	}
	steps, err := inprocess.Steps(ctx, r.steps.Log, r.store, turnstate.JournalOf(of))
	if err != nil {
		return nil, fmt.Errorf("reading the events of Session %s: %w", of.Name, err)
	}
	var events []Event
	for _, step := range steps {
		events = append(events, step.Events...)
	}
	return events, nil
}
