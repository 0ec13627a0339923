package pending

import (
	"fmt"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/cli/text"
)

// labels is the width of the column of labels.
const labels = 11

// Command is the beginning of every command that the user is shown, with the flags that name the cluster and the
// namespace, such as "kubectl capstan -n shop".
type Command string

// Lines explain what a call waits for, with the command that continues it.
func Lines(turn *v1alpha1.Turn, call Call, command Command) []text.Line {
	lines := []text.Line{{
		{Style: text.Notice, Text: text.Pad("waiting", labels)},
		{Text: fmt.Sprintf("%s  %s waits for %s", call.ID, call.Name, call.Kind.Words())},
	}}
	lines = append(lines, Details(turn, call, text.Bound{Lines: 8, Bytes: 1024})...)
	for _, c := range Commands(turn.Name, call, command) {
		lines = append(lines, text.Line{
			{Text: strings.Repeat(" ", labels)}, {Style: text.Strong, Text: c},
		})
	}
	return lines
}

// Details show what is decided or answered.
func Details(turn *v1alpha1.Turn, call Call, bound text.Bound) []text.Line {
	var lines []text.Line
	add := func(name, format string, arguments ...any) {
		lines = append(lines, text.Block(text.Span{Style: text.Faint, Text: name}, labels, text.Plain,
			fmt.Sprintf(format, arguments...), bound)...)
	}
	if facts := facts(call); facts != "" {
		add("tool", "%s", facts)
	}
	switch {
	case call.Kind == Input || call.Kind == Connection:
		lines = append(lines, questions(call, bound)...)
	case call.Whole:
		add("arguments", "%s", call.Arguments)
	default:
		if call.Arguments != "" {
			add("arguments", "%s", call.Arguments)
		}
		add("", "%s", incomplete(call))
	}
	if call.ApproveBy != nil {
		add("until", "%s, then it is rejected", call.ApproveBy.UTC().Format(time.RFC3339))
	}
	if turn.Spec.SubmittedBy != "" {
		add("sent by", "%s", turn.Spec.SubmittedBy)
	}
	return lines
}

func incomplete(call Call) string {
	if call.Preview != "" {
		return "NOT ALL ARGUMENTS ARE SHOWN. " + call.Preview
	}
	return "THE ARGUMENTS ARE NOT SHOWN. The role capstan-view permits to read them in the journal."
}

func facts(call Call) string {
	all := []string{string(call.Executor)}
	if call.SideEffect != "" {
		all = append(all, string(call.SideEffect))
	}
	for _, hint := range call.Hints {
		all = append(all, string(hint))
	}
	return strings.Join(all, ", ")
}

// questions show what a tool asks. The tool wrote the texts, so that they are marked as its own.
func questions(call Call, bound text.Bound) []text.Line {
	if call.Input == nil {
		return nil
	}
	var lines []text.Line
	add := func(name, body string) {
		lines = append(lines, text.Block(text.Span{Style: text.Faint, Text: name}, labels, text.Plain, body, bound)...)
	}
	for _, q := range call.Input.Requests {
		switch q.Mode {
		case v1alpha1.ToolInputModeConnection:
			add("connection", q.ID)
		case v1alpha1.ToolInputModeURL:
			add("open", q.ID+": "+q.URL+"  (check the host first)")
		default:
			add("question", q.ID)
		}
		if q.Message != "" {
			add("", "the tool writes: "+q.Message)
		}
		if q.RequestedSchema != nil {
			for _, f := range fieldsOf(q.RequestedSchema.Raw) {
				add("", "  "+f.describe())
			}
		}
	}
	return lines
}

// Commands are those that continue a call.
func Commands(turn string, call Call, command Command) []string {
	base := string(command)
	switch call.Kind {
	case Approval:
		return []string{
			fmt.Sprintf("%s approve %s %s", base, turn, call.ID),
			fmt.Sprintf("%s reject %s %s", base, turn, call.ID),
		}
	case Client:
		return []string{fmt.Sprintf("%s answer %s %s --result TEXT", base, turn, call.ID)}
	default:
	}
	if call.Input == nil {
		return nil
	}
	var all []string
	for _, q := range call.Input.Requests {
		answer := fmt.Sprintf("%s answer %s %s --question %s", base, turn, call.ID, Quoted(q.ID))
		if q.Mode == v1alpha1.ToolInputModeForm {
			for _, f := range fieldsOf(rawSchema(q)) {
				if f.required {
					answer += " --set " + Quoted(f.name+"=VALUE")
				}
			}
		} else {
			answer += " --accept"
		}
		all = append(all, answer)
	}
	return all
}

func rawSchema(q v1alpha1.ToolInputRequest) []byte {
	if q.RequestedSchema == nil {
		return nil
	}
	return q.RequestedSchema.Raw
}

// Quoted returns an argument as a shell reads it. The text comes from a tool.
func Quoted(argument string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-/:=@", r)
	}
	if argument != "" && strings.TrimFunc(argument, plain) == "" {
		return argument
	}
	return "'" + strings.ReplaceAll(argument, "'", `'\''`) + "'"
}

// Other explains the waits of a Turn in which no person is asked, and why it is queued; empty if it waits for nothing.
func Other(turn *v1alpha1.Turn) string {
	if Ended(turn) {
		return ""
	}
	for _, w := range turn.Status.WaitsFor {
		switch w.Type {
		case v1alpha1.WaitTypeInput, v1alpha1.WaitTypeConnection, v1alpha1.WaitTypeSubAgent:
			continue
		default:
		}
		note := string(w.Type)
		if w.Reason != "" {
			note = w.Reason
		}
		if w.Message != "" {
			note += ": " + w.Message
		}
		return note
	}
	if turn.Status.Phase != v1alpha1.TurnPhaseQueued {
		return ""
	}
	for _, c := range turn.Status.Conditions {
		if c.Type == v1alpha1.ConditionSucceeded && c.Reason != v1alpha1.ReasonQueued {
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}
