package step

import (
	"slices"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

const (
	// renewed is the error for a call of a tool that was shown to the model in another form than it has now. The next
	// model call shows the present one.
	renewed = "The tool was not executed: its server has changed the tool since you were shown it. You are shown its " +
		"present definition from now on. Read it before you call the tool again."
	// outdated is that where the present definition has no room in the journal.
	outdated = "The tool was not executed: its server has changed the tool since you were shown it. It cannot be " +
		"called before the next message of the user. Do not call it again."
	// changedMeanwhile is that for a call that was planned before.
	changedMeanwhile = "The tool was not executed: its server has changed the tool since you have called it."
)

// hold compares the calls of a response with what the model was shown, and pins the context. It returns the
// configuration in which calls of other definitions are refused. The context with the present definitions is pinned in
// the entry that refuses them, so that the model can call such a tool again.
func (g *generation) hold(c turnstate.Config, last *journal.ContextRef) turnstate.Config {
	calls := g.calls()
	if len(calls) == 0 || g.finalized {
		return c
	}
	names := make([]string, len(calls))
	for i, call := range calls {
		names[i] = call.Name
	}
	present, changed, unseen := g.context.Shown(c.Tools, names)
	g.pinned = present.Pin(last, journal.MaxContextBytes)
	if len(unseen) > 0 {
		// What a server adds counts from the next Turn.
		c.Tools = slices.DeleteFunc(slices.Clone(c.Tools), func(d *definition.Definition) bool {
			return slices.Contains(unseen, d.Name)
		})
	}
	text := renewed
	if g.pinned == nil {
		text = outdated
	}
	for _, name := range changed {
		if c.Withheld == nil {
			c.Withheld = map[string]string{}
		}
		c.Withheld[name] = text
	}
	return c
}

// replaced reports whether the tool of a call that an earlier process has planned is another one now, of a server that
// the model was not shown.
func replaced(c turnstate.Config, planned v1alpha1.ToolCall) bool {
	d := c.Tools.Find(planned.Name)
	return d.Remote() != nil && !d.Holds(planned)
}
