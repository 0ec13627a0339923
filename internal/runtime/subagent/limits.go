package subagent

import (
	"cmp"
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

const (
	// DefaultMaxDepth is how many sub-agents may be above each other.
	DefaultMaxDepth = 3
	// DefaultMaxPerTurn is how many calls of a Turn may run as sub-agents.
	DefaultMaxPerTurn = 32
	// HighestMaxDepth is the depth that the API has room for.
	HighestMaxDepth = 16
)

// Limits bound trees of sub-agents. The zero value stands for the defaults.
type Limits struct {
	// Depth is how many sub-agents may be above each other.
	Depth int32
	// PerTurn is how many calls of a Turn may run as sub-agents.
	PerTurn int32
}

// Refuse returns why a Turn may not call another sub-agent, for its model; empty if it may. depth is that of its
// Session, planned the number of its calls so far.
func (l Limits) Refuse(depth, planned int32) string {
	most := cmp.Or(l.PerTurn, DefaultMaxPerTurn)
	switch {
	case depth >= cmp.Or(l.Depth, DefaultMaxDepth):
		return fmt.Sprintf("The sub-agent was not started: this agent is a sub-agent %d levels deep itself, and no "+
			"further level is permitted. Do the work yourself.", depth)
	case planned >= most:
		return fmt.Sprintf("The sub-agent was not started: at most %d may be called in one turn. Do the rest of the work "+
			"yourself.", most)
	default:
		return ""
	}
}

// Planned is the number of calls of a Turn so far that run as sub-agents.
func Planned(p *v1alpha1.TurnProgress) int32 {
	if p.Summary == nil || p.Summary.SubAgents == nil {
		return 0
	}
	return p.Summary.SubAgents.Calls
}

// Crowded is the outcome of a call that starts no sub-agent, because the namespace has as many Turns as it may have.
// The Turn of the sub-agent would wait for others to end, and they may wait for their own sub-agents.
func Crowded() tool.Outcome {
	return tool.NotExecuted(v1alpha1.ToolCallReasonSubAgentLimit, "the namespace has too many Turns that have begun")
}
