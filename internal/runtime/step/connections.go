package step

import (
	"encoding/json"
	"slices"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// setupConnection is the name of the call that asks a client to set up a connection.
const setupConnection = "setup_connection"

// connectionEvents returns the event that has asked for the connections that tools of the step have needed, each once
// (TOOL-16). The status of the Turn has asked before: the events of a step come with the entry that closes it.
func connectionEvents(f event.Step, t turnstate.Turn, calls []v1alpha1.ToolCall, known *act.Step) []event.Event {
	var names []string
	for _, call := range calls {
		for _, name := range known.Connections(call.ID) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	var requested event.ToolCallRequested
	for _, name := range names {
		// A map of strings always encodes.
		arguments, _ := json.Marshal(map[string]string{"provider": name})
		requested.ToolCalls = append(requested.ToolCalls, event.RequestedCall{
			ID:   "setup_conn_" + event.ID(t.Ref.UID, t.Step(), setupConnection, name),
			Name: setupConnection, Arguments: string(arguments),
		})
	}
	return []event.Event{f.ToolCallRequested(requested)}
}
