package hook

import (
	"context"
	"encoding/json"
	"fmt"
)

// PromptResult is what the hooks have made of a message.
type PromptResult struct {
	// Text of the message.
	Text string
	// Blocked is why the Turn ends; nil if it goes on.
	Blocked *Blocked
	// Records of the hooks that ran.
	Records []Record
}

// Prompt runs the hooks at a message, each with the text that the one before it has left (HOOK-17). The first that
// blocks is the last that runs.
func (r *Runner) Prompt(ctx context.Context, specs []Spec, text string) (PromptResult, error) {
	ctx, cancel := within(ctx, StepBudget)
	defer cancel()
	result := PromptResult{Text: text}
	hooks := Of(specs, UserPromptSubmit)
	for i := range hooks {
		s := &hooks[i]
		data := map[string]string{"message": result.Text}
		outcome, err := r.run(ctx, s, occasion{event: UserPromptSubmit, data: data})
		if err != nil {
			return PromptResult{}, err
		}
		result.Records = append(result.Records, record(s, outcome))
		switch {
		case outcome.Decision == Block:
			result.Blocked = blocked(s, outcome)
		case outcome.Decision == Failed && s.Policy() == OnErrorBlock:
			result.Blocked = failure(s, outcome)
		case outcome.Decision == Mutate:
			if message, ok := stringMember(outcome.Patch, "message"); ok {
				result.Text = message
			}
		}
		if result.Blocked != nil {
			// What others have rewritten is of no use any more.
			result.Text = text
			break
		}
	}
	return result, nil
}

// ToolCall is a call that hooks look at.
type ToolCall struct {
	// ID of the call.
	ID string
	// Tool is its name.
	Tool string
	// Arguments as JSON.
	Arguments json.RawMessage
}

// CallResult is what the hooks have made of a call.
type CallResult struct {
	// Arguments that count from here on.
	Arguments json.RawMessage
	// Blocked is why the call does not run; nil if it does.
	Blocked *Blocked
	// Records of the hooks that ran.
	Records []Record
}

// BlockedPrefix begins the error of a call that a hook has blocked (HOOK-20).
const BlockedPrefix = "blocked by pre_tool_use hook: "

// Before runs the hooks before a call, each with the arguments that the one before it has left (HOOK-20). The caller
// bounds the time for all calls of a step with WithStepBudget. Hooks that have no time left fail, without a look at the
// arguments.
func (r *Runner) Before(ctx context.Context, specs []Spec, c ToolCall) (CallResult, error) {
	result := CallResult{Arguments: c.Arguments}
	values := newArguments(c.Arguments)
	hooks := Of(specs, PreToolUse)
	for i := range hooks {
		s := &hooks[i]
		if !r.compiled().match(ctx, s, c.Tool, values) {
			continue
		}
		outcome, err := r.run(ctx, s, occasion{
			event: PreToolUse, tool: c.Tool, toolCallID: c.ID, data: map[string]any{
				"tool_name": c.Tool, "tool_call_id": c.ID, "arguments": valid(result.Arguments),
			},
		})
		if err != nil {
			return CallResult{}, err
		}
		result.Records = append(result.Records, record(s, outcome))
		switch {
		case outcome.Decision == Block:
			result.Blocked = blocked(s, outcome)
		case outcome.Decision == Failed && s.Policy() == OnErrorBlock:
			result.Blocked = failure(s, outcome)
		case outcome.Decision == Mutate:
			result.Arguments = mergeArguments(result.Arguments, outcome.Patch)
			values = newArguments(result.Arguments)
		}
		if result.Blocked != nil {
			break
		}
	}
	return result, nil
}

// WithStepBudget bounds the time of the hooks before all calls of a step together.
func WithStepBudget(ctx context.Context) (context.Context, context.CancelFunc) {
	return within(ctx, StepBudget)
}

// mergeArguments replaces members of the arguments by those of patch.arguments. Anything but an object changes nothing.
func mergeArguments(arguments, patch json.RawMessage) json.RawMessage {
	var p struct {
		Arguments map[string]json.RawMessage `json:"arguments"`
	}
	if exact(patch, "arguments", &p.Arguments) != nil || p.Arguments == nil {
		return arguments
	}
	merged := map[string]json.RawMessage{}
	if json.Unmarshal(arguments, &merged) != nil || merged == nil {
		merged = map[string]json.RawMessage{}
	}
	for key, value := range p.Arguments {
		merged[key] = value
	}
	encoded, err := json.Marshal(merged)
	if err != nil {
		return arguments
	}
	return encoded
}

// Returned is what a tool call has returned.
type Returned struct {
	// Result as JSON; nil for none.
	Result json.RawMessage
	// Error of the call; nil for none.
	Error *string
}

// ReturnedResult is what the hooks have made of it.
type ReturnedResult struct {
	Returned
	// Changed reports whether a hook has changed anything.
	Changed bool
	// Records of the hooks that ran.
	Records []Record
}

// After runs the hooks after a call (HOOK-21). They cannot block it.
func (r *Runner) After(ctx context.Context, specs []Spec, c ToolCall, returned Returned) (ReturnedResult, error) {
	result := ReturnedResult{Returned: returned}
	values := newArguments(c.Arguments)
	hooks := Of(specs, PostToolUse)
	for i := range hooks {
		s := &hooks[i]
		if !r.compiled().match(ctx, s, c.Tool, values) {
			continue
		}
		outcome, err := r.run(ctx, s, occasion{
			event: PostToolUse, tool: c.Tool, toolCallID: c.ID, data: map[string]any{
				"tool_name": c.Tool, "tool_call_id": c.ID, "arguments": valid(c.Arguments), "result": valid(result.Result),
				"error": result.Error, "success": result.Error == nil,
			},
		})
		if err != nil {
			return ReturnedResult{}, err
		}
		result.Records = append(result.Records, record(s, outcome))
		switch {
		case outcome.Decision == Mutate:
			result.mutate(outcome.Patch)
		case outcome.Decision == Failed && s.Policy() == OnErrorBlock:
			text := fmt.Sprintf("hook %s: %s", s.ID, record(s, outcome).Reason)
			result.Error, result.Changed = &text, true
		}
	}
	return result, nil
}

// mutate applies a patch: result replaces the result, error sets the error, and additional_context is added.
func (r *ReturnedResult) mutate(patch json.RawMessage) {
	var members map[string]json.RawMessage
	if json.Unmarshal(patch, &members) != nil {
		return
	}
	if value, ok := members["result"]; ok {
		r.Result, r.Changed = value, true
	}
	if text, ok := stringMember(patch, "error"); ok {
		r.Error, r.Changed = &text, true
	}
	if text, ok := stringMember(patch, "additional_context"); ok {
		r.Result, r.Changed = withContext(r.Result, text), true
	}
}

// withContext adds a text to a result.
func withContext(result json.RawMessage, text string) json.RawMessage {
	var object map[string]json.RawMessage
	switch {
	case len(result) == 0 || string(result) == "null":
		object = map[string]json.RawMessage{}
	case json.Unmarshal(result, &object) != nil:
		object = map[string]json.RawMessage{"value": result}
	}
	encoded, err := json.Marshal(text)
	if err != nil {
		return result
	}
	object["hook_context"] = encoded
	all, err := json.Marshal(object)
	if err != nil {
		return result
	}
	return all
}

// Advise runs hooks that can change nothing: those of a Session (HOOK-15) and those at the end of a Turn (HOOK-16).
// Each runs, whatever became of the others, as long as there is time.
func (r *Runner) Advise(ctx context.Context, specs []Spec, event Event, data any) ([]Record, error) {
	budget := SessionBudget
	if event == TurnEnd {
		budget = TurnEndBudget
	}
	ctx, cancel := within(ctx, budget)
	defer cancel()
	var records []Record
	hooks := Of(specs, event)
	for i := range hooks {
		outcome, err := r.run(ctx, &hooks[i], occasion{event: event, data: data})
		if err != nil {
			return records, err
		}
		records = append(records, record(&hooks[i], outcome))
	}
	return records, nil
}

// valid is a JSON value for a payload: null for what is not JSON.
func valid(value json.RawMessage) json.RawMessage {
	if len(value) == 0 || !json.Valid(value) {
		return json.RawMessage("null")
	}
	return value
}

// stringMember returns the member of an object if it is a string.
func stringMember(object json.RawMessage, name string) (string, bool) {
	var text *string
	if exact(object, name, &text) != nil || text == nil {
		return "", false
	}
	return *text, true
}

// exact decodes the member of an object with exactly a name. It decodes nothing if the member is missing.
func exact(object json.RawMessage, name string, to any) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(object, &members); err != nil {
		return err
	}
	value, ok := members[name]
	if !ok {
		return nil
	}
	return json.Unmarshal(value, to)
}
