package inspection

import (
	"fmt"
	"strings"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/cli/text"
)

// labels is the width of the column of labels.
const labels = 14

// Lines show a context. Hidden are the objects that could not be read.
func Lines(c *stream.Inspection, hidden []string, full bool) []text.Line {
	bound := text.Bound{Lines: 30, Bytes: 4 << 10}
	if full {
		bound = text.Bound{}
	}
	p := &page{bound: bound}
	if len(hidden) > 0 {
		p.add(text.Notice, "not readable", strings.Join(hidden, ", ")+
			". What depends on them is not shown, or is shown as if they did not exist.")
	}
	if c.Problem != "" {
		p.add(text.Bad, "problem", c.Problem+": "+c.Message)
	}
	for _, note := range c.Notes {
		p.add(text.Notice, "note", note)
	}
	p.layers(c)
	p.models(c)
	p.limits(c)
	for _, capability := range c.Capabilities {
		words := capability.ID
		if capability.Risk != "" {
			words += " (risk " + capability.Risk + ")"
		}
		if capability.NeededBy != "" {
			words += ", needed by " + capability.NeededBy
		}
		p.add(text.Plain, "capability", words+": "+capability.Description)
	}
	for _, hook := range c.Hooks {
		p.add(text.Plain, "hook", fmt.Sprintf("%s at %s, %s, on error %s", hook.ID, hook.Event, hook.Program, hook.OnError))
	}
	for _, tool := range c.Tools {
		p.tool(tool)
	}
	if len(c.Tools) == 0 {
		p.add(text.Faint, "tools", "none")
	}
	p.add(text.Plain, "messages", fmt.Sprintf("%d", c.MessageCount))
	if c.SystemPrompt == "" {
		p.add(text.Faint, "system prompt", "none")
	} else {
		p.add(text.Plain, "system prompt", c.SystemPrompt)
	}
	return p.lines
}

// page collects lines.
type page struct {
	lines []text.Line
	bound text.Bound
}

func (p *page) add(style text.Style, name, content string) {
	if style == text.Plain {
		style = text.Faint
	}
	p.lines = append(p.lines, text.Block(text.Span{Style: style, Text: name}, labels, text.Plain, content, p.bound)...)
}

func (p *page) layers(c *stream.Inspection) {
	chain := make([]string, len(c.Layers))
	for i, layer := range c.Layers {
		chain[i] = layer.Kind + " " + layer.Name
	}
	p.add(text.Plain, "layers", strings.Join(chain, " > "))
}

func (p *page) models(c *stream.Inspection) {
	if c.Model == nil {
		p.add(text.Bad, "model", "none")
		return
	}
	p.add(text.Plain, "model", fmt.Sprintf("%s: %s of %s", c.Model.Name, c.Model.Model, c.Model.Provider))
	for _, fallback := range c.Fallbacks {
		p.add(text.Plain, "fallback", fallback.Name)
	}
}

func (p *page) limits(c *stream.Inspection) {
	limits := []string{fmt.Sprintf("%d model calls a Turn", c.MaxIterations)}
	if c.ToolConcurrency != "" {
		limits = append(limits, "tool calls "+c.ToolConcurrency)
	}
	if c.JournalLimit != "" {
		limits = append(limits, "journal "+c.JournalLimit)
	}
	if c.Locale != "" {
		limits = append(limits, "locale "+c.Locale)
	}
	p.add(text.Plain, "limits", strings.Join(limits, ", "))
}

func (p *page) tool(tool stream.InspectedTool) {
	facts := []string{fmt.Sprintf("from %s %s", tool.Kind, tool.Source), string(tool.Executor)}
	if tool.SideEffect != "" {
		facts = append(facts, string(tool.SideEffect))
	}
	if tool.Policy == v1alpha1.ToolPolicyRequiresApproval {
		facts = append(facts, "requires approval")
	}
	p.add(text.Plain, "tool", tool.Name+"  "+strings.Join(facts, ", "))
	if tool.Description != "" {
		p.add(text.Plain, "", "  "+firstLine(tool.Description))
	}
}

func firstLine(s string) string {
	line, _, more := strings.Cut(s, "\n")
	if more {
		line += " …"
	}
	return line
}
