package capstantest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
)

// Answer gives the result of a client tool that a Turn waits for. Of several calls of the tool it answers the first.
func (k *Kit) Answer(ctx context.Context, namespace, turn, tool, text string) error {
	return k.answer(ctx, namespace, turn, tool, v1alpha1.ToolResultSpec{Result: &text})
}

// Refuse answers a client tool that a Turn waits for with an error.
func (k *Kit) Refuse(ctx context.Context, namespace, turn, tool, text string) error {
	return k.answer(ctx, namespace, turn, tool, v1alpha1.ToolResultSpec{Error: &text})
}

func (k *Kit) answer(ctx context.Context, namespace, name, tool string, spec v1alpha1.ToolResultSpec) error {
	turn, err := k.Turn(ctx, namespace, name)()
	if err != nil {
		return fmt.Errorf("answering the call of %s: %w", tool, err)
	}
	for _, call := range turn.Status.ToolCalls {
		if call.Name != tool || call.State != v1alpha1.CallWaiting {
			continue
		}
		spec.TurnRef, spec.CallID = v1alpha1.TurnReference{Name: turn.Name, UID: turn.UID}, call.ID
		answer := &v1alpha1.ToolResult{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: turn.Name + "-" + call.ID}, Spec: spec}
		if err := k.Client.Create(ctx, answer); err != nil {
			return fmt.Errorf("answering call %s of %s: %w", call.ID, tool, err)
		}
		return nil
	}
	return fmt.Errorf("no call of %s waits for a result: %s", tool, describe(turn))
}

// Told gives a function that reads what the model is told of a tool call, for Eventually: the result, or the error. It is known when the step
// of the call is closed.
func (k *Kit) Told(ctx context.Context, namespace, turn, call string) func() (string, error) {
	return func() (string, error) {
		var entries v1alpha1.JournalEntryList
		if err := k.Client.List(ctx, &entries, client.InNamespace(namespace)); err != nil {
			return "", fmt.Errorf("reading the log: %w", err)
		}
		for _, entry := range entries.Items {
			if entry.Spec.Turn == nil || entry.Spec.Turn.Name != turn {
				continue
			}
			for _, e := range entry.Spec.Events {
				if text, ok := told(e, call); ok {
					return text, nil
				}
			}
		}
		return "", errNotTold
	}
}

var errNotTold = errors.New("the model has not been told of the call")

// told is what an event tells of a call.
func told(e v1alpha1.JournalEvent, call string) (string, bool) {
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
