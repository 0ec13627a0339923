package turnstate

import (
	"fmt"
	"slices"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/excerpt"
	"github.com/capstan-dev/capstan/internal/runtime/journal/format"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// Ask lets a call wait for answers to what its tool has asked, which the journal has. A call whose questions have no
// room in status ends.
func Ask(known *act.Step, calls []v1alpha1.ToolCall, index int, ref format.SettledRef) {
	room := maxCallsBytes
	for i, call := range calls {
		if i == index {
			call = act.ShownInput(call, *ref.Call.Asked)
		}
		room -= sizeOf(call) + maxCallGrowth
	}
	known.Ask(&calls[index], ref)
	if room < 0 {
		known.Settle(&calls[index], tool.NoRoomForInput())
	}
}

// InputWaits are the waits of a Turn for answers to the questions of its tools, and for connections, in the order of
// the calls. Each names the ToolResult to create; the words of a tool are not among what people are told to do.
func InputWaits(calls []v1alpha1.ToolCall) []v1alpha1.TurnWait {
	var waits []v1alpha1.TurnWait
	for _, call := range calls {
		if !act.AwaitsInput(call) || len(waits) == MaxWaits {
			continue
		}
		for _, question := range call.Input.Requests {
			if len(waits) < MaxWaits {
				waits = append(waits, inputWait(call, question))
			}
		}
	}
	return waits
}

func inputWait(call v1alpha1.ToolCall, question v1alpha1.ToolInputRequest) v1alpha1.TurnWait {
	if question.Mode == v1alpha1.ToolInputModeConnection {
		return v1alpha1.TurnWait{
			Type: v1alpha1.WaitTypeConnection, Reason: v1alpha1.ReasonConnection,
			Message: excerpt.Of(fmt.Sprintf("Call %s (%s) needs a connection to %q. Set it up, then create a ToolResult: "+
				"turnRef (name and uid of this Turn), callID %s, callDigest %s, submittedBy (your user name), and input with id "+
				"%q and action Accept, which sends the call again, or Decline, which ends it.",
				call.ID, call.Name, question.ID, call.ID, call.CallDigest, question.ID), maxWaitBytes),
		}
	}
	what := "action (Accept, Decline or Cancel), and with Accept the content that its requestedSchema describes"
	if question.Mode == v1alpha1.ToolInputModeURL {
		what = "action (Accept once you have done what the tool asks at its url, Decline or Cancel)"
	}
	return v1alpha1.TurnWait{
		Type: v1alpha1.WaitTypeInput, Reason: v1alpha1.ReasonInput,
		Message: excerpt.Of(fmt.Sprintf("Call %s (%s) asks question %q; see input in status.toolCalls. Answer with a "+
			"ToolResult: turnRef (name and uid of this Turn), callID %s, callDigest %s, submittedBy (your user name), and "+
			"input with id %q and %s.", call.ID, call.Name, question.ID, call.ID, call.CallDigest, question.ID, what),
			maxWaitBytes),
	}
}

// withInput adds the waits for answers to those of the calls for other things, which come first.
func withInput(lacks []v1alpha1.TurnWait, calls []v1alpha1.ToolCall) []v1alpha1.TurnWait {
	waits := append(slices.Clone(lacks), InputWaits(calls)...)
	return waits[:min(len(waits), MaxWaits)]
}
