package toolresult

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// inquiring is a call that asks for a size, and to sign in.
func inquiring() v1alpha1.ToolCall {
	call := ofJob("2-0", v1alpha1.ToolCallStateWaiting)
	call.Executor, call.Attempt, call.Reason, call.CallDigest = v1alpha1.ToolExecutorMCP, 1, v1alpha1.ReasonInput, "digest"
	call.Input = &v1alpha1.ToolInput{Round: 1, Requests: []v1alpha1.ToolInputRequest{
		{ID: "size", Mode: v1alpha1.ToolInputModeForm, RequestedSchema: &v1alpha1.JSON{
			Raw: []byte(`{"type":"object","properties":{"size":{"type":"string"}},"required":["size"]}`),
		}},
		{ID: "in", Mode: v1alpha1.ToolInputModeURL, URL: "https://example.org/"},
	}}
	return call
}

func TestEvaluateInput(t *testing.T) {
	silent, running, over := inquiring(), inquiring(), inquiring()
	silent.State, silent.Input = v1alpha1.ToolCallStateRunning, nil
	running.State, running.Input = v1alpha1.ToolCallStateRunning, &v1alpha1.ToolInput{Round: 1}
	over.State, over.Input = v1alpha1.ToolCallStateSucceeded, nil
	for name, test := range map[string]struct {
		turn        *v1alpha1.Turn
		id, content string
		action      v1alpha1.InputAction
		uid, digest string
		reason      string
	}{
		"an answer":               {id: "size", content: `{"size":"large"}`},
		"a refusal to answer":     {id: "size", action: v1alpha1.InputActionDecline},
		"a dismissal":             {id: "in", action: v1alpha1.InputActionCancel},
		"what was done elsewhere": {id: "in"},
		"content for that":        {id: "in", content: `{}`, reason: v1alpha1.ReasonInvalidInput},
		"content of another form": {id: "size", content: `{"size":7}`, reason: v1alpha1.ReasonInvalidInput},
		"no content":              {id: "size", reason: v1alpha1.ReasonInvalidInput},
		"content twice": {
			id: "size", content: `{"size":"a","size":"b"}`, reason: v1alpha1.ReasonInvalidInput,
		},
		"large content": {
			id: "size", content: `{"size":"` + strings.Repeat("x", 17<<10) + `"}`,
			reason: v1alpha1.ReasonInvalidInput,
		},
		"another question": {id: "colour", content: `{}`, reason: v1alpha1.ReasonNoInputExpected},
		"other questions": {
			id: "size", content: `{"size":"a"}`, digest: "old", reason: v1alpha1.ReasonCallDigestMismatch,
		},
		"another Turn": {
			id: "size", content: `{"size":"a"}`, uid: "u0", reason: v1alpha1.ReasonTurnReplaced,
		},
		"no Turn":                         {turn: &v1alpha1.Turn{}, id: "size", reason: v1alpha1.ReasonTurnNotFound},
		"a call that has asked nothing":   {turn: at(nil, silent), id: "size", reason: v1alpha1.ReasonNoInputExpected},
		"a call that has its answers":     {turn: at(nil, running), id: "size", reason: v1alpha1.ReasonCallClosed},
		"a call that has ended":           {turn: at(nil, over), id: "size", reason: v1alpha1.ReasonCallClosed},
		"a Turn that has ended":           {turn: at(ended, over), id: "size", reason: v1alpha1.ReasonCallClosed},
		"a call that was not made before": {turn: at(nil), id: "size", reason: v1alpha1.ReasonUnknownCall},
	} {
		t.Run(name, func(t *testing.T) {
			result := &v1alpha1.ToolResult{Spec: v1alpha1.ToolResultSpec{
				TurnRef: v1alpha1.TurnReference{Name: "demo-1", UID: "u1"}, CallID: "2-0", CallDigest: "digest",
				Input: &v1alpha1.InputAnswer{ID: test.id, Action: v1alpha1.InputActionAccept},
			}}
			if test.action != "" {
				result.Spec.Input.Action = test.action
			}
			if test.content != "" {
				result.Spec.Input.Content = &v1alpha1.JSON{Raw: []byte(test.content)}
			}
			if test.uid != "" {
				result.Spec.TurnRef.UID = types.UID(test.uid)
			}
			if test.digest != "" {
				result.Spec.CallDigest = test.digest
			}
			turn := test.turn
			switch {
			case turn == nil:
				turn = at(nil, inquiring())
			case turn.Name == "":
				turn = nil
			}
			if got := Evaluate(result, turn); got.Reason != test.reason || strings.Contains(got.Message, "digest \"") {
				t.Errorf("it is %+v, want %q", got, test.reason)
			}
		})
	}
}

func TestAResultForACallThatAsksIsRefused(t *testing.T) {
	text := "large"
	result := &v1alpha1.ToolResult{Spec: v1alpha1.ToolResultSpec{
		TurnRef: v1alpha1.TurnReference{Name: "demo-1"}, CallID: "2-0", Result: &text,
	}}
	if got := Evaluate(result, at(nil, inquiring())); got.Reason != v1alpha1.ReasonInputExpected {
		t.Errorf("it is %+v", got)
	}
}
