package step

import (
	"fmt"
	"slices"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/background"
	"github.com/capstan-dev/capstan/internal/runtime/excerpt"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/subagent"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// maxLoggedArguments is how much of the arguments of a refused call is kept in the journal.
const maxLoggedArguments = 4 << 10

// pin plans the model's calls: the full form for the journal, and the short form for status. Calls that cannot run are
// planned as refused, so that the model gets an error and nothing starts. Calls beyond the limit of a step are refused
// too, and are only in the journal: status has room for tool.MaxCallsPerStep.
func (run *Runner) pin(
	t turnstate.Turn,
	c turnstate.Config,
	calls []model.ToolCall,
) ([]journal.PlannedCall, []v1alpha1.ToolCall) {
	planned := make([]journal.PlannedCall, 0, len(calls))
	pinned := make([]v1alpha1.ToolCall, 0, min(len(calls), tool.MaxCallsPerStep))
	for i, call := range calls {
		p := journal.PlannedCall{
			ID:         callID(t, i),
			ProviderID: excerpt.Of(call.ProviderID, 256),
			Name:       excerpt.Of(call.Name, 256),
			Arguments:  call.Arguments,
		}
		if i < tool.MaxCallsPerStep {
			pinned = append(pinned, run.pinOne(t, c, &p, call, subAgentsBefore(t, pinned)))
		} else {
			p.Arguments = excerpt.Of(call.Arguments, maxLoggedArguments)
			p.Refusal = fmt.Sprintf(
				"%d tools were called at once; at most %d can be. This one was not executed. Call it again, with fewer others.",
				len(calls),
				tool.MaxCallsPerStep,
			)
		}
		planned = append(planned, p)
	}
	turnstate.ShowArguments(pinned, planned)
	return planned, pinned
}

// callID returns the runtime's id of a call of the open step, or of the next one.
func callID(t turnstate.Turn, index int) string {
	return fmt.Sprintf("%d-%d", max(t.Progress.Iteration, 1), index)
}

// pinOne plans one call. agents is the number of calls of the Turn before it that run as sub-agents.
func (run *Runner) pinOne(
	t turnstate.Turn,
	c turnstate.Config,
	p *journal.PlannedCall,
	call model.ToolCall,
	agents int32,
) v1alpha1.ToolCall {
	s := v1alpha1.ToolCall{
		ID:          p.ID,
		Name:        excerpt.Encoded(call.Name, 64),
		Executor:    v1alpha1.ToolExecutorNone,
		Fingerprint: tool.Fingerprint(call.Name, call.Arguments),
		State:       v1alpha1.ToolCallStatePending,
	}
	refuse := func(reason, text string) v1alpha1.ToolCall {
		p.Refusal, p.Arguments = text, excerpt.Of(call.Arguments, maxLoggedArguments)
		s.State, s.Reason, s.Preview = v1alpha1.ToolCallStateNotExecuted, reason, tool.ShownPreview(text)
		return s
	}
	d := c.Tools.Find(call.Name)
	if d == nil {
		return refuse(v1alpha1.ToolCallReasonToolNotFound, "Tool definition not found: "+excerpt.Of(call.Name, 64))
	}
	if text := c.Withheld[d.Name]; text != "" {
		return refuse(v1alpha1.ToolCallReasonToolChanged, text)
	}
	if len(call.Arguments) > tool.MaxArgumentsBytes {
		return refuse(v1alpha1.ToolCallReasonArgumentsTooLarge, fmt.Sprintf(
			"The arguments have %d bytes; a tool can be given at most %d. The tool was not executed. Call it again with less.",
			len(call.Arguments),
			tool.MaxArgumentsBytes,
		))
	}
	_, schema := d.Offer()
	if err := run.Validator.Validate(schema, call.Arguments); err != nil {
		return refuse(v1alpha1.ToolCallReasonInvalidArguments, "The tool was not executed: "+err.Error())
	}
	if d.Source.Kind == definition.KindBuiltin && d.Name == background.SpawnTool {
		return run.pinTask(t, c, p, s, call, refuse)
	}
	if d.Executor == v1alpha1.ToolExecutorAgent {
		if text := run.SubAgents.Refuse(t.Depth, agents); text != "" {
			return refuse(v1alpha1.ToolCallReasonSubAgentLimit, text)
		}
	}
	d.Pin(&s)
	p.Display = d.DisplayName
	if d.Executor == v1alpha1.ToolExecutorClient {
		s.State, s.Hints = v1alpha1.ToolCallStateWaiting, slices.Clone(d.Hints)
		return s
	}
	run.approve(t, &s, d, call.Arguments)
	return s
}

// approve makes a planned call wait for its approval, if it requires one.
func (run *Runner) approve(t turnstate.Turn, s *v1alpha1.ToolCall, d *definition.Definition, arguments string) {
	s.Attempt = 1
	if act.AwaitApproval(s, d.Policy, d.ApprovalTimeout, run.Clock()) {
		s.Hints = slices.Clone(d.Hints)
		// The calls are planned by the step before the one that runs them.
		s.CallDigest = tool.CallDigest(t.Ref.UID, t.Step()+1, *s, arguments)
	}
}

// subAgentsBefore is the number of calls of the Turn that run as sub-agents: of earlier steps, and those given.
func subAgentsBefore(t turnstate.Turn, calls []v1alpha1.ToolCall) int32 {
	agents := subagent.Planned(&t.Progress)
	for _, call := range calls {
		if call.Executor == v1alpha1.ToolExecutorAgent {
			agents++
		}
	}
	return agents
}

// stringFields returns the fields of an error as events carry them.
func stringFields(fields map[string]string) map[string]string {
	if len(fields) == 0 {
		return nil
	}
	texts := make(map[string]string, len(fields))
	for name, value := range fields {
		texts[name] = excerpt.Of(value, 256)
	}
	return texts
}
