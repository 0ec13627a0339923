// Package tree shows a Turn with its sub-agents, and their sub-agents. It is pure.
package tree

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/cli/pending"
	"github.com/capstan-dev/capstan/internal/cli/text"
)

// maxDepth bounds the tree: origins come from objects that an administrator may have restored.
const maxDepth = 32

// Lines returns the tree below a Turn. The Turns are those of the namespace.
func Lines(root *v1alpha1.Turn, turns []v1alpha1.Turn) []text.Line {
	children := map[types.UID][]*v1alpha1.Turn{}
	for i := range turns {
		if origin := turns[i].Spec.Origin; origin != nil && origin.SubAgent != nil {
			parent := origin.SubAgent.Turn.UID
			children[parent] = append(children[parent], &turns[i])
		}
	}
	for _, c := range children {
		slices.SortFunc(c, func(a, b *v1alpha1.Turn) int {
			x, y := a.Spec.Origin.SubAgent, b.Spec.Origin.SubAgent
			if x.Step != y.Step {
				return int(x.Step - y.Step)
			}
			return strings.Compare(x.CallID+a.Name, y.CallID+b.Name)
		})
	}
	return below(root, children, "", "", 0)
}

func below(
	turn *v1alpha1.Turn, children map[types.UID][]*v1alpha1.Turn, first, rest string, depth int,
) []text.Line {
	lines := []text.Line{heading(turn, first)}
	if depth == maxDepth {
		return append(lines, text.Of(text.Faint, rest+"  … deeper"))
	}
	own := children[turn.UID]
	calls := turn.Status.ToolCalls
	for i := range calls {
		if agent := calls[i].SubAgent; agent != nil && slices.ContainsFunc(own, func(c *v1alpha1.Turn) bool {
			return c.Spec.SessionRef.Name == agent.Name
		}) {
			continue // shown as the Turn of the sub-agent
		}
		branch := "├─ "
		if i == len(calls)-1 && len(own) == 0 {
			branch = "└─ "
		}
		lines = append(lines, callLine(&calls[i], rest+branch))
	}
	for i, child := range own {
		branch, indent := "├─ ", "│  "
		if i == len(own)-1 {
			branch, indent = "└─ ", "   "
		}
		lines = append(lines, below(child, children, rest+branch, rest+indent, depth+1)...)
	}
	return lines
}

func heading(turn *v1alpha1.Turn, prefix string) text.Line {
	line := text.Line{{Style: text.Faint, Text: prefix}}
	if origin := turn.Spec.Origin; origin != nil && origin.SubAgent != nil {
		line = append(line, text.Span{Text: fmt.Sprintf("%s  %s", origin.SubAgent.CallID, turn.Name)})
	} else {
		line = append(line, text.Span{Style: text.Strong, Text: "Turn " + turn.Name})
	}
	line = append(line, text.Span{Style: phaseStyle(turn.Status.Phase), Text: "  " + string(turn.Status.Phase)})
	return append(line, text.Span{Style: text.Faint, Text: facts(turn)})
}

func facts(turn *v1alpha1.Turn) string {
	var all []string
	if s := turn.Status.Summary; s != nil {
		all = append(all, fmt.Sprintf("%d model calls", s.ModelCalls), fmt.Sprintf("%d tokens", s.Usage.TotalTokens))
		for _, c := range s.Cost {
			all = append(all, c.Amount+" "+c.Currency)
		}
	}
	for _, call := range pending.Of(turn) {
		all = append(all, fmt.Sprintf("%s %s waits for %s", call.ID, call.Name, call.Kind.Words()))
	}
	if len(all) == 0 {
		return ""
	}
	return "  " + strings.Join(all, " · ")
}

func callLine(call *v1alpha1.ToolCall, prefix string) text.Line {
	state := string(call.State)
	if call.Reason != "" && call.Reason != v1alpha1.ToolCallReasonCompleted {
		state += " (" + call.Reason + ")"
	}
	style := text.Plain
	switch call.State {
	case v1alpha1.ToolCallStateFailed, v1alpha1.ToolCallStateUnknown:
		style = text.Bad
	case v1alpha1.ToolCallStateWaiting, v1alpha1.ToolCallStateRunning:
		style = text.Notice
	default:
	}
	return text.Line{
		{Style: text.Faint, Text: prefix},
		{Text: fmt.Sprintf("%s  %s", call.ID, call.Name)},
		{Style: style, Text: "  " + state},
	}
}

func phaseStyle(phase v1alpha1.TurnPhase) text.Style {
	switch phase {
	case v1alpha1.TurnPhaseSucceeded:
		return text.Good
	case v1alpha1.TurnPhaseFailed, v1alpha1.TurnPhaseCancelled:
		return text.Bad
	default:
		return text.Notice
	}
}
