package format

func hookRunFrom(r HookRun) hookRun { return hookRun(r) }

func (r hookRun) run() HookRun { return HookRun(r) }

func promptFrom(p *HookedPrompt) *hookedPrompt {
	if p == nil {
		return nil
	}
	return &hookedPrompt{
		Text: p.Text, Blocked: p.Blocked, UserMessage: p.UserMessage, Hooks: each(p.Hooks, hookRunFrom),
	}
}

func (p *hookedPrompt) prompt() *HookedPrompt {
	if p == nil {
		return nil
	}
	return &HookedPrompt{
		Text: p.Text, Blocked: p.Blocked, UserMessage: p.UserMessage, Hooks: each(p.Hooks, hookRun.run),
	}
}

func endFrom(e *HookedEnd) *hookedEnd {
	if e == nil {
		return nil
	}
	return &hookedEnd{Hooks: each(e.Hooks, hookRunFrom)}
}

func (e *hookedEnd) end() *HookedEnd {
	if e == nil {
		return nil
	}
	return &HookedEnd{Hooks: each(e.Hooks, hookRun.run)}
}
