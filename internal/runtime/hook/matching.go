package hook

import "context"

// AnyMatches reports whether a hook of the event matches one of the calls. With a context that has ended it does: what
// has no time to be searched must not pass by a hook.
func AnyMatches(ctx context.Context, specs []Spec, event Event, calls []ToolCall) bool {
	hooks, known := Of(specs, event), matchers{}
	for i := range calls {
		values := newArguments(calls[i].Arguments)
		for j := range hooks {
			if known.match(ctx, &hooks[j], calls[i].Tool, values) {
				return true
			}
		}
	}
	return false
}

// matchers are compiled matchers; nil for one that cannot be compiled.
type matchers map[Matcher]*Compiled

// match reports whether a hook runs at a call. A matcher that cannot be compiled matches, so that nothing passes by a
// hook because of a mistake in it. So does one that has no time left to search the arguments.
func (m matchers) match(ctx context.Context, s *Spec, tool string, values *arguments) bool {
	if ctx.Err() != nil {
		return s.Matcher.validateGlob() != nil || s.Matcher.matchTool(tool)
	}
	compiled, ok := m[s.Matcher]
	if !ok {
		// It is nil with an error.
		compiled, _ = s.Matcher.Compile()
		m[s.Matcher] = compiled
	}
	return compiled == nil || (compiled.matchTool(tool) && compiled.matchArguments(values))
}
