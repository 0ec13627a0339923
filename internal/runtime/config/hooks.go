package config

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/hook"
	"github.com/capstan-dev/capstan/internal/runtime/hook/check"
)

// layered is the configuration of one layer, and the namespace of its hooks.
type layered struct {
	namespace string
	layer     v1alpha1.ConfigLayer
}

// fold merges layers, reads the Capabilities that they name, and checks what each contributes under its own name.
func (r *Resolved) fold(ctx context.Context, source Source, namespace string, layers []layered) error {
	merged := make([]v1alpha1.ConfigLayer, len(layers))
	for i, l := range layers {
		merged[i] = l.layer
	}
	r.Effective = Fold(merged...)
	if r.blueprint != nil {
		r.Effective.Capabilities = withBlueprint(r.Effective.Capabilities, r.blueprint)
	}
	if err := r.readCapabilities(ctx, source); err != nil {
		return err
	}
	bundles := r.bundles()
	r.Effective.addBundles(bundles, layers)
	r.checkInitialFiles(bundles, layers)
	if err := r.foldHooks(ctx, namespace, r.contributions(layers, bundles)); err != nil {
		return err
	}
	return r.pinEnd(slices.Concat(bundles, layers))
}

// contributions are the hooks of all layers, the highest one's first, each behind those of the Capabilities that it
// brings (PHASE-08). A layer also mutes hooks of these.
func (r *Resolved) contributions(layers, bundles []layered) []hook.Contribution {
	var all []hook.Contribution
	var broughtBy map[string]int
	if len(bundles) > 0 {
		broughtBy = r.broughtBy(layers)
	}
	add := func(l layered) {
		if len(l.layer.Hooks) == 0 {
			return
		}
		c := hook.Contribution{Namespace: l.namespace}
		for i := range l.layer.Hooks {
			c.Hooks = append(c.Hooks, specOf(&l.layer.Hooks[i]))
		}
		all = append(all, c)
	}
	for i, l := range layers {
		if len(l.layer.DisabledHooks) > 0 {
			all = append(all, hook.Contribution{Namespace: l.namespace, Muted: l.layer.DisabledHooks})
		}
		for _, b := range bundles {
			if broughtBy[b.namespace] == i {
				add(b)
			}
		}
		add(l)
	}
	return all
}

// foldHooks sets the hooks of all contributions (HOOK-06), and checks whether they can run. The error is that of the
// context.
func (r *Resolved) foldHooks(ctx context.Context, namespace string, contributions []hook.Contribution) error {
	r.Hooks, r.mutedAbove = hook.Finalize(contributions), hook.MutedAbove(contributions)
	r.invalidHooks = nil
	for i := range r.Hooks {
		s := &r.Hooks[i]
		err := check.Hook(ctx, namespace, s)
		if ctx.Err() != nil {
			return fmt.Errorf("checking hook %q: %w", s.ID, ctx.Err())
		}
		if err != nil {
			r.invalidHooks = append(r.invalidHooks, fmt.Sprintf("Hook %q is invalid: %v. Correct it, or remove it from hooks.",
				s.ID, err))
		}
	}
	return nil
}

// specOf is a hook of a layer in the form of the runtime.
func specOf(h *v1alpha1.Hook) hook.Spec {
	s := hook.Spec{Name: h.Name, Event: eventOf(h.Event), OnError: hook.OnError(strings.ToLower(string(h.OnError)))}
	if h.Timeout != nil {
		s.Timeout = h.Timeout.Duration
	}
	if m := h.Matcher; m != nil {
		s.Matcher = hook.Matcher{
			ToolName: m.ToolName, ToolNameGlob: m.ToolNameGlob, ArgsPath: m.ArgsPath, MatchRegex: m.MatchRegex,
			DenyRegex: m.DenyRegex,
		}
	}
	if b := h.Bash; b != nil {
		s.Bash = &hook.Bash{Command: b.Command}
		for _, v := range b.Env {
			s.Bash.Env = append(s.Bash.Env, hook.Variable(v))
		}
	}
	if c := h.CEL; c != nil {
		s.CEL = &hook.CEL{Expression: c.Expression}
	}
	if w := h.Webhook; w != nil {
		s.Webhook = &hook.Webhook{URL: w.URL, CABundle: w.CABundle}
		for _, header := range w.Headers {
			s.Webhook.Headers = append(s.Webhook.Headers, headerOf(header))
		}
	}
	return s
}

func headerOf(h v1alpha1.WebhookHeader) hook.Header {
	header := hook.Header{Name: h.Name}
	if h.Value != nil {
		header.Value = *h.Value
	}
	if ref := h.SecretKeyRef; ref != nil {
		header.SecretName, header.SecretKey = ref.Name, ref.Key
	}
	return header
}

// eventOf is the event of a hook; one that this build does not know stays as it is, and is invalid.
func eventOf(e v1alpha1.HookEvent) hook.Event {
	switch e {
	case v1alpha1.HookEventSessionStart:
		return hook.SessionStart
	case v1alpha1.HookEventSessionEnd:
		return hook.SessionEnd
	case v1alpha1.HookEventUserPromptSubmit:
		return hook.UserPromptSubmit
	case v1alpha1.HookEventPreToolUse:
		return hook.PreToolUse
	case v1alpha1.HookEventPostToolUse:
		return hook.PostToolUse
	case v1alpha1.HookEventTurnEnd:
		return hook.TurnEnd
	default:
		return hook.Event(e)
	}
}

// hookProblem returns why the hooks of the layers cannot be used: an invalid one is never left out, because it may be
// the one that guards something.
func (r *Resolved) hookProblem() (reason, message string) {
	var all Problems
	for _, message := range r.invalidHooks {
		all.Add(v1alpha1.ReasonHookInvalid, message)
	}
	all.Add(r.endHooksProblem())
	if len(r.mutedAbove) > 0 {
		all.Add(v1alpha1.ReasonHookInvalid, fmt.Sprintf("disabledHooks names hooks of a higher layer, which only that layer "+
			"or one above it can disable: %s. Remove them from disabledHooks.", strings.Join(r.mutedAbove, ", ")))
	}
	return all.First()
}

// PromptHooks reports whether hooks look at messages, or whether that is unknown because layers are missing.
func (r *Resolved) PromptHooks() bool {
	return r.Blocker() != nil || len(hook.Of(r.Hooks, hook.UserPromptSubmit)) > 0
}
