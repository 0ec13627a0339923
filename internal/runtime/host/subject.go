package host

import (
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/config"
)

// TurnOf returns a Turn of a Session for its steps, without the messages to be steered into it. If the message was left
// out, the caller adds its reader.
func TurnOf(turn *v1alpha1.Turn, session *v1alpha1.Session) Turn {
	t := Turn{
		Session:     JournalOf(session),
		Ref:         v1alpha1.JournalTurn{Name: turn.Name, UID: turn.UID},
		Locale:      config.Locale(ControlsOf(turn), session.Spec.Locale),
		Progress:    *turn.Status.TurnProgress.DeepCopy(),
		ClientTools: session.Spec.ClientTools,
		Hints:       session.Spec.Hints,
		Harness:     session.Spec.HarnessRef.Name,
	}
	t.Input, t.Content = MessageOf(turn.Spec)
	if MessageLeftOut(turn.Spec) {
		t.MessageBytes = leftOutBytes(turn)
	}
	if agent := session.Spec.AgentRef; agent != nil {
		t.Agent = agent.Name
	}
	return t
}

// ControlsOf are the settings of the last message of a Turn (CFG-07, CFG-09).
func ControlsOf(turn *v1alpha1.Turn) *v1alpha1.TurnControls {
	if latest := turn.Status.Controls; latest != nil {
		return latest
	}
	return turn.Spec.Controls
}

// ConfigOf returns the configuration of a Turn with the given controls, from the current layers of its Session.
func ConfigOf(resolved *config.Resolved, controls *v1alpha1.TurnControls) Config {
	c := Config{
		Blocker: resolved.Blocker(), Effective: resolved.Effective, Tools: resolved.Definitions(),
		ModelNotFound: resolved.ModelNotFound(controls),
	}
	if model, ok := resolved.Model(controls); ok {
		// Copies, so that a model call does not keep the other Models of the namespace in memory.
		c.Model = config.Tuned(model, controls)
		for _, fallback := range resolved.Fallbacks(model) {
			c.Fallbacks = append(c.Fallbacks, config.Tuned(fallback, controls))
		}
	} else {
		reason, problem := resolved.NoModel()
		c.NoModel = &Keyless{Reason: reason, Problem: problem}
	}
	return c
}
