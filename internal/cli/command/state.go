package command

import (
	"context"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/cli/access"
	"github.com/capstan-dev/capstan/internal/cli/pending"
	"github.com/capstan-dev/capstan/internal/cli/text"
)

// showTurn prints what the Turn of a target, or the active one of its Session, waits for.
func (p *program) showTurn(ctx context.Context, c *access.Cluster, of *target, output string) error {
	turn := of.turn
	if turn == nil && of.session.Status.ActiveTurn != nil {
		turn = &v1alpha1.Turn{}
		err := c.Get(ctx, c.Key(of.session.Status.ActiveTurn.Name), turn)
		if access.IsMissing(err) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	if turn == nil || output != "" {
		return nil
	}
	return p.out.Lines((&states{command: c.Command}).lines(turn)...)
}

// states turns the states of Turns into lines: each change once.
type states struct {
	command pending.Command
	shown   map[string]bool
}

// lines returns what is new in the state of a Turn.
func (s *states) lines(turn *v1alpha1.Turn) []text.Line {
	if s.shown == nil {
		s.shown = map[string]bool{}
	}
	if pending.Ended(turn) {
		return nil
	}
	var lines []text.Line
	add := func(key string, more ...text.Line) {
		if key = string(turn.UID) + " " + key; !s.shown[key] {
			s.shown[key] = true
			lines = append(lines, more...)
		}
	}
	for _, call := range turn.Status.ToolCalls {
		if call.State == v1alpha1.ToolCallStateRunning {
			add("run "+call.ID, runningLine(call))
		}
	}
	for _, call := range pending.Of(turn) {
		add("wait "+call.ID+string(call.Kind)+call.CallDigest, pending.Lines(turn, call, s.command)...)
	}
	if other := pending.Other(turn); other != "" {
		add("other "+other, text.Block(text.Span{Style: text.Notice, Text: "waiting"}, 11, text.Faint, other,
			text.Bound{Lines: 8, Bytes: 1200})...)
	}
	return lines
}

func runningLine(call v1alpha1.ToolCall) text.Line {
	line := text.Line{
		{Style: text.Notice, Text: text.Pad("running", 11)},
		{Style: text.Faint, Text: call.ID + "  " + call.Name},
	}
	switch {
	case call.SubAgent != nil:
		line = append(line, text.Span{Style: text.Faint, Text: "  in Session " + call.SubAgent.Name})
	case call.PodName != "":
		line = append(line, text.Span{Style: text.Faint, Text: "  in pod " + call.PodName})
	}
	return line
}
