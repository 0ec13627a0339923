package toolresult

import (
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/inputschema"
)

// evaluateInput decides about an answer to a question of a call. An empty Reason leaves it to the Turn.
func evaluateInput(result *v1alpha1.ToolResult, turn *v1alpha1.Turn, call *v1alpha1.ToolCall) Acceptance {
	input := result.Spec.Input
	switch {
	case !act.Open(*call):
		return closed(result, call, "")
	case !act.AwaitsInput(*call) && call.Input != nil:
		return closed(result, call, "All of its questions have an answer.")
	case !act.AwaitsInput(*call):
		return refused(v1alpha1.ReasonNoInputExpected, fmt.Sprintf(
			"Call %s (%s) of Turn %q asks nothing.", call.ID, call.Name, turn.Name))
	case !Binds(result, turn, call):
		return refused(v1alpha1.ReasonCallDigestMismatch, fmt.Sprintf(
			"The answer is for other questions: call %s (%s) of Turn %q has the callDigest %s. Read its questions and answer "+
				"again.", call.ID, call.Name, turn.Name, call.CallDigest))
	}
	for _, question := range call.Input.Requests {
		if question.ID == input.ID {
			return matching(input, question)
		}
	}
	return refused(v1alpha1.ReasonNoInputExpected, fmt.Sprintf(
		"Call %s (%s) of Turn %q does not ask question %q, or that has its answer.",
		call.ID, call.Name, turn.Name, input.ID))
}

// matching decides whether an answer is one to a question. Content that a cache has left out is decided about later.
func matching(input *v1alpha1.InputAnswer, question v1alpha1.ToolInputRequest) Acceptance {
	invalid := func(why string) Acceptance {
		return refused(v1alpha1.ReasonInvalidInput, fmt.Sprintf("The answer to question %q %s", question.ID, why))
	}
	form := question.Mode == v1alpha1.ToolInputModeForm
	switch {
	case input.Action != v1alpha1.InputActionAccept:
		return Acceptance{}
	case !form && input.Content != nil:
		return invalid("has content, which is only for questions of mode Form.")
	case !form || input.Content != nil && len(input.Content.Raw) == 0:
		return Acceptance{}
	case input.Content != nil && len(input.Content.Raw) > tool.MaxInputContentBytes:
		return invalid(fmt.Sprintf("has %d bytes of content; at most %d are accepted.", len(input.Content.Raw),
			tool.MaxInputContentBytes))
	}
	var content string
	if input.Content != nil {
		content = string(input.Content.Raw)
	}
	var schema []byte
	if question.RequestedSchema != nil {
		schema = question.RequestedSchema.Raw
	}
	if err := inputschema.NewValidator().Validate(schema, content); err != nil {
		return invalid("does not match its requestedSchema: " + err.Error())
	}
	return Acceptance{}
}
