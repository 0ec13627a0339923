package prompt

import (
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
)

// TestAnErrorWithoutItsCodeIsNotSentToTheModel: the sentence alone identifies it (LLM-07).
func TestAnErrorWithoutItsCodeIsNotSentToTheModel(t *testing.T) {
	sentence := plan.Failure{Code: v1alpha1.ErrorCodeProviderUnavailable}.Sentence()
	quoted := event.NewAssistantMessage("The log says: "+sentence, nil)
	calls := event.NewAssistantMessage(sentence, []event.ToolCall{{ID: "1-0", Name: "look"}})
	asked := event.NewUserMessage(sentence)
	kept := Sendable([]event.Message{asked, event.NewAssistantMessage(sentence, nil), quoted, calls})
	if len(kept) != 3 || kept[0].ID != asked.ID || kept[1].ID != quoted.ID || kept[2].ID != calls.ID {
		t.Errorf("the model reads %+v", kept)
	}
}

func TestACallWithoutAResultIsRepaired(t *testing.T) {
	calls := event.NewAssistantMessage("", []event.ToolCall{{ID: "1-0", Name: "look"}})
	messages, repairs := Repair([]event.Message{event.NewUserMessage("Look."), calls, event.NewUserMessage("Well?")})
	if len(messages) != 4 || messages[2].Role != event.RoleToolResult || messages[2].ToolCallID != "1-0" ||
		len(repairs) != 1 {
		t.Errorf("the model reads %+v, with the repairs %+v", messages, repairs)
	}
}
