package capstantest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal/format"
)

// Answer creates the result of a client tool that a Turn waits for. If there are several calls of the tool, it answers
// the first.
func (k *Kit) Answer(ctx context.Context, namespace, turn, tool, text string) error {
	return k.answer(ctx, namespace, turn, tool, v1alpha1.ToolResultSpec{Result: &text})
}

// Refuse answers a client tool that a Turn waits for with an error.
func (k *Kit) Refuse(ctx context.Context, namespace, turn, tool, text string) error {
	return k.answer(ctx, namespace, turn, tool, v1alpha1.ToolResultSpec{Error: &text})
}

// Approve approves a call of a tool that waits for approval. Of several calls of the tool it approves the first.
func (k *Kit) Approve(ctx context.Context, namespace, turn, tool string) error {
	return k.decide(ctx, namespace, turn, tool, v1alpha1.ToolResultSpec{Decision: v1alpha1.DecisionApprove})
}

// Reject rejects a call of a tool that waits for approval. Of several calls of the tool it rejects the first.
func (k *Kit) Reject(ctx context.Context, namespace, turn, tool string) error {
	return k.decide(ctx, namespace, turn, tool, v1alpha1.ToolResultSpec{Decision: v1alpha1.DecisionReject})
}

// RejectFor rejects a call as Reject does, with a reason that the model reads.
func (k *Kit) RejectFor(ctx context.Context, namespace, turn, tool, reason string) error {
	return k.decide(ctx, namespace, turn, tool, v1alpha1.ToolResultSpec{
		Decision: v1alpha1.DecisionReject, Reason: reason,
	})
}

// AnswerInput answers a question of a tool that a Turn waits for. Of several calls of the tool it answers the first
// that asks the question.
func (k *Kit) AnswerInput(ctx context.Context, namespace, turn, tool string, answer v1alpha1.InputAnswer) error {
	user, err := k.user(ctx)
	if err != nil {
		return err
	}
	return k.answer(ctx, namespace, turn, tool, v1alpha1.ToolResultSpec{Input: &answer, SubmittedBy: user})
}

// decide adds the kit's user and the digests that a decision requires.
func (k *Kit) decide(ctx context.Context, namespace, turn, tool string, spec v1alpha1.ToolResultSpec) error {
	user, err := k.user(ctx)
	if err != nil {
		return err
	}
	spec.SubmittedBy = user
	return k.answer(ctx, namespace, turn, tool, spec)
}

// user is the name of the kit's user.
func (k *Kit) user(ctx context.Context) (string, error) {
	review := &authenticationv1.SelfSubjectReview{}
	if err := k.Client.Create(ctx, review); err != nil {
		return "", fmt.Errorf("getting the user name of the kit from the API server: %w", err)
	}
	return review.Status.UserInfo.Username, nil
}

// Decision returns a decision about a call of a Turn, as a user writes it after reading the Turn: it names the Turn's
// UID and the digest of the call. For a call that shows no digest, because it needs no approval, the digest is 64
// zeros.
func Decision(turn *v1alpha1.Turn, call string, decision v1alpha1.Decision, submittedBy string) *v1alpha1.ToolResult {
	return &v1alpha1.ToolResult{
		ObjectMeta: metav1.ObjectMeta{Namespace: turn.Namespace, Name: turn.Name + "-" + call},
		Spec: v1alpha1.ToolResultSpec{
			TurnRef: v1alpha1.TurnReference{Name: turn.Name, UID: turn.UID}, CallID: call,
			Decision: decision, CallDigest: digestOf(turn, call), SubmittedBy: submittedBy,
			TurnSubmittedBy: turn.Spec.SubmittedBy, TurnSteeredBy: steeredBy(turn),
		},
	}
}

// steeredBy are the users that an approval names beside the one who has submitted the Turn.
func steeredBy(turn *v1alpha1.Turn) []string {
	if turn.Spec.SubmittedBy == "" {
		return nil
	}
	return turn.Status.SteeredBy
}

// digestOf is the digest that a Turn shows of a call.
func digestOf(turn *v1alpha1.Turn, id string) string {
	for _, call := range turn.Status.ToolCalls {
		if call.ID == id && call.CallDigest != "" {
			return call.CallDigest
		}
	}
	return strings.Repeat("0", 64)
}

func (k *Kit) answer(ctx context.Context, namespace, name, tool string, spec v1alpha1.ToolResultSpec) error {
	turn, err := k.Turn(ctx, namespace, name)()
	if err != nil {
		return fmt.Errorf("answering the call of %s: %w", tool, err)
	}
	for _, call := range turn.Status.ToolCalls {
		if call.Name != tool || !awaits(call, spec) {
			continue
		}
		spec.TurnRef, spec.CallID = v1alpha1.TurnReference{Name: turn.Name, UID: turn.UID}, call.ID
		if spec.Decision != "" || spec.Input != nil {
			spec.CallDigest = digestOf(turn, call.ID)
		}
		if spec.Decision != "" {
			spec.TurnSubmittedBy, spec.TurnSteeredBy = turn.Spec.SubmittedBy, steeredBy(turn)
		}
		answer := &v1alpha1.ToolResult{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: nameOf(turn, call, spec)},
			Spec:       spec,
		}
		if err := k.Client.Create(ctx, answer); err != nil {
			return fmt.Errorf("answering call %s of %s: %w", call.ID, tool, err)
		}
		return nil
	}
	switch {
	case spec.Decision != "":
		return fmt.Errorf("no call of %s waits for approval: %s", tool, describe(turn))
	case spec.Input != nil:
		return fmt.Errorf("no call of %s asks question %q: %s", tool, spec.Input.ID, describe(turn))
	}
	return fmt.Errorf("no call of %s waits for a result: %s", tool, describe(turn))
}

// awaits reports whether a call waits for a ToolResult of this kind.
func awaits(call v1alpha1.ToolCall, given v1alpha1.ToolResultSpec) bool {
	if given.Input != nil {
		return act.AwaitsAnswer(call, given.Input.ID)
	}
	return kindOf(call) == waitForClient && given.Decision == "" ||
		kindOf(call) == waitForApproval && given.Decision != ""
}

// nameOf is the name of a ToolResult for a call. A call may have several questions, one after another.
func nameOf(turn *v1alpha1.Turn, call v1alpha1.ToolCall, given v1alpha1.ToolResultSpec) string {
	name := turn.Name + "-" + call.ID
	if given.Input != nil {
		sum := sha256.Sum256([]byte(given.Input.ID))
		name += fmt.Sprintf("-%d-%x", call.Input.Round, sum[:4])
	}
	return name
}

// waitKind is what a waiting call waits for.
type waitKind int

const (
	waitForNothing waitKind = iota
	waitForClient
	waitForApproval
	waitForInput
)

func kindOf(call v1alpha1.ToolCall) waitKind {
	switch {
	case call.State != v1alpha1.ToolCallStateWaiting:
		return waitForNothing
	case act.AwaitsApproval(call):
		return waitForApproval
	case act.AwaitsInput(call):
		return waitForInput
	default:
		return waitForClient
	}
}

// ToolResultText returns a function for Eventually that reads the text for the model about a tool call: the result, or
// the error. It is available once the step of the call is closed.
func (k *Kit) ToolResultText(ctx context.Context, namespace, turn, call string) func() (string, error) {
	return func() (string, error) {
		var entries v1alpha1.JournalEntryList
		if err := k.Client.List(ctx, &entries, client.InNamespace(namespace)); err != nil {
			return "", fmt.Errorf("reading the journal: %w", err)
		}
		for _, entry := range entries.Items {
			if entry.Spec.Turn == nil || entry.Spec.Turn.Name != turn {
				continue
			}
			content, err := format.Decode(&entry.Spec)
			if err != nil {
				return "", fmt.Errorf("reading JournalEntry %s: %w", entry.Name, err)
			}
			for _, e := range content.Events {
				if text, ok := resultText(e, call); ok {
					return text, nil
				}
			}
		}
		return "", errNoToolResult
	}
}

var errNoToolResult = errors.New("the call has no result for the model yet")

// resultText returns the text of an event about a call.
func resultText(e event.Event, call string) (string, bool) {
	if e.Type != event.TypeToolCompleted || e.Data == nil {
		return "", false
	}
	var data event.ToolCompleted
	if json.Unmarshal(e.Data.Raw, &data) != nil || data.ToolCallID != call {
		return "", false
	}
	text := data.Error
	for _, part := range data.Result {
		text += part.Text
	}
	return text, true
}
