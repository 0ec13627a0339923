package turnstate

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/excerpt"
	"github.com/capstan-dev/capstan/internal/runtime/journal/format"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

const (
	// maxShownBytes bounds the arguments of one call in status, and maxShownEncoded their size as JSON.
	maxShownBytes   = 2 << 10
	maxShownEncoded = 4 << 10
	// maxShownCalls bounds the number of calls whose arguments status shows.
	maxShownCalls = 16
	// maxCallsBytes is the room for the calls of a step in status, as JSON: the rest of a status is conditions, plan
	// and summary.
	maxCallsBytes = 52 << 10
	// maxEndedBytes is the room for calls with the totals of sub-agents: the response of the model comes beside them.
	maxEndedBytes = maxCallsBytes - MaxOutputBytes + 2<<10
	// maxCallGrowth bounds the growth of a call after it was planned: by its attempt, its pod, and the start of its
	// result.
	maxCallGrowth = 408
)

// ShowArguments adds the arguments of calls that wait for people to status, so that these see the call. Arguments
// without room are in the entry that plans the calls, and the call refers to it.
func ShowArguments(pinned []v1alpha1.ToolCall, planned []format.PlannedCall) {
	room := maxCallsBytes
	for i := range pinned {
		room -= sizeOf(pinned[i]) + maxCallGrowth
	}
	shown := 0
	for i := range pinned {
		call := &pinned[i]
		if call.State != v1alpha1.ToolCallStateWaiting {
			continue
		}
		whole := tool.ArgumentsOrEmpty(planned[i].Arguments)
		part := excerpt.Encoded(excerpt.Of(whole, maxShownBytes), maxShownEncoded)
		if cost := encodedSize(part); shown < maxShownCalls && cost <= room {
			call.Arguments, room, shown = part, room-cost, shown+1
		}
		if call.Arguments != whole {
			call.Preview = fmt.Sprintf("The arguments have %d bytes and are not shown in full. The journal has them: "+
				"calls with id %s, of this Turn.", len(whole), call.ID)
		}
	}
}

// fitTotals leaves the totals of sub-agents out of calls that have no room in status, those of the last calls first.
// The journal has them, and so have the Turns of the sub-agents.
func fitTotals(calls []v1alpha1.ToolCall) {
	if !slices.ContainsFunc(calls, hasTotals) {
		return
	}
	size := 0
	for _, call := range calls {
		size += sizeOf(call)
	}
	for i := len(calls) - 1; i >= 0 && size > maxEndedBytes; i-- {
		call := &calls[i]
		if !hasTotals(*call) {
			continue
		}
		size -= sizeOf(*call)
		short := *call.SubAgent
		short.Totals = nil
		call.SubAgent = &short
		size += sizeOf(*call)
	}
}

func hasTotals(call v1alpha1.ToolCall) bool {
	return call.SubAgent != nil && call.SubAgent.Totals != nil
}

// sizeOf returns the size of a call as JSON.
func sizeOf(call v1alpha1.ToolCall) int {
	raw, err := json.Marshal(call)
	if err != nil {
		return maxCallsBytes // a ToolCall always encodes
	}
	return len(raw)
}

// encodedSize returns the maximum size of a text within a JSON string.
func encodedSize(text string) int {
	size := 0
	for _, r := range text {
		size += excerpt.EncodedLength(r)
	}
	return size
}
