package transcript_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/cli/history"
	"github.com/capstan-dev/capstan/internal/cli/transcript"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal/format"
)

var turn = v1alpha1.JournalTurn{Name: "demo-1", UID: types.UID("u-1")}

// shown are the lines of the events of a Turn.
func shown(o transcript.Options, events ...event.Event) string {
	t := transcript.New(o)
	var all []string
	for _, e := range events {
		for _, line := range t.Lines(history.Item{Turn: turn, Event: e}) {
			all = append(all, line.String())
		}
	}
	return strings.Join(all, "\n")
}

func factory() (event.Factory, event.Step) {
	at := time.Date(2031, 5, 4, 12, 0, 0, 0, time.UTC)
	f := event.NewFactory(event.Identity{Session: "s", Turn: turn.UID}, func() time.Time {
		at = at.Add(time.Second)
		return at
	})
	return f, f.Step(1, 1)
}

// TestATurn prints a Turn with every kind of event that a reader sees.
func TestATurn(t *testing.T) {
	f, step := factory()
	calls := []event.ToolCall{{ID: "1-0", Name: "weather", Arguments: `{"city":"Bern"}`}}
	message := event.NewAssistantMessage("Let me look.", calls)
	thinking := &event.Reasoning{Kind: "thinking", Summary: "They want the weather.", Data: "opaque"}
	message.Content = append([]event.Part{{Type: event.PartReasoning, Reasoning: thinking}}, message.Content...)
	ms := int64(1500)
	got := shown(transcript.Options{},
		f.InputMessage(event.NewUserMessage("What is\nthe weather?")), f.SessionActivated(), f.TurnStarted("What"),
		step.LLMGeneration(event.LLMGeneration{
			Success: true, Usage: &event.Usage{TotalTokens: 1200}, Cost: &v1alpha1.Cost{Currency: "USD", Amount: "0.01"},
		}),
		step.OutputMessageCompleted(event.OutputMessageCompleted{Message: message}),
		step.ToolCompleted(event.ToolCompleted{
			ToolCallID: "1-0", ToolName: "weather", Success: true, Status: event.StatusSuccess, DurationMS: &ms,
			Result: []event.Part{event.Text("12 degrees")},
		}),
		step.LLMGeneration(event.LLMGeneration{Success: false, Model: "big", Error: "overloaded"}),
		step.OutputMessageCompleted(event.OutputMessageCompleted{Message: event.NewAssistantMessage("It is 12.", nil)}),
		f.TurnCompleted(event.TurnCompleted{StopReason: "end_turn"}),
	)
	want := `── demo-1  2031-05-04 12:00:01 UTC
you        What is
           the weather?
thinking   They want the weather.
agent      Let me look.
call       1-0  weather {"city":"Bern"}
result     1-0  weather  1.5s
           12 degrees
model      big failed: overloaded
agent      It is 12.
── done  2 model calls · 1 tool call · 1200 tokens · 0.01 USD · 8s`
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestEndings(t *testing.T) {
	f, step := factory()
	for name, test := range map[string]struct {
		event event.Event
		want  []string
	}{
		"failed": {
			f.TurnFailed(event.TurnFailed{
				Error: "no key", ErrorCode: "provider_misconfigured", ErrorFields: map[string]string{"problem": "Secret x"},
			}),
			[]string{"── failed (provider_misconfigured)", "no key", "problem: Secret x"},
		},
		"limit":   {f.TurnCompleted(event.TurnCompleted{StopReason: "max_turn_requests"}), []string{"limit of model calls"}},
		"refusal": {f.TurnCompleted(event.TurnCompleted{StopReason: "refusal"}), []string{"the model refused"}},
		"a failed call": {step.ToolCompleted(event.ToolCompleted{
			ToolCallID: "1-0", ToolName: "w", Status: event.StatusTimeout, Error: "too slow",
		}), []string{"timeout    1-0  w", "too slow"}},
		"a sub-agent": {step.SubAgent(event.TypeSubAgentSpawned, event.SubAgent{
			ToolCallID: "1-0", ToolName: "helper", Session: "demo-1-x",
		}), []string{"1-0  helper spawned as Session demo-1-x"}},
		"unreadable data": {event.Event{Type: event.TypeTurnFailed, ID: "e"}, []string{"unreadable"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := shown(transcript.Options{}, test.event)
			for _, want := range test.want {
				if !strings.Contains(got, want) {
					t.Errorf("%q is not in:\n%s", want, got)
				}
			}
		})
	}
}

func TestLongTextsAreShortened(t *testing.T) {
	_, step := factory()
	long := step.ToolCompleted(event.ToolCompleted{
		ToolCallID: "1-0", ToolName: "w", Success: true, Status: event.StatusSuccess,
		Result: []event.Part{event.Text(strings.Repeat("line\n", 10000))},
	})
	if got := shown(transcript.Options{}, long); len(got) > 4096 || !strings.Contains(got, "bytes more") {
		t.Errorf("%d bytes: %.200s", len(got), got)
	}
	if got := shown(transcript.Options{Full: true}, long); strings.Count(got, "line") != 10000 {
		t.Errorf("%d lines", strings.Count(got, "line"))
	}
}

func TestWhatWasTypedOrStreamedIsNotPrintedAgain(t *testing.T) {
	f, step := factory()
	message := event.NewAssistantMessage("It is 12.", nil)
	tr := transcript.New(transcript.Options{Shown: turn.UID})
	tr.Streamed(message.ID)
	own := event.NewUserMessage("What?")
	own.ID = string(turn.UID)
	var got []string
	for _, e := range []event.Event{
		f.InputMessage(own),
		step.OutputMessageCompleted(event.OutputMessageCompleted{Message: message}),
	} {
		for _, line := range tr.Lines(history.Item{Turn: turn, Event: e}) {
			got = append(got, line.String())
		}
	}
	if len(got) > 0 {
		t.Errorf("got %q", got)
	}
}

func TestADecision(t *testing.T) {
	for decision, want := range map[v1alpha1.Decision]string{
		v1alpha1.DecisionApprove: "approved   1-0 by ann", v1alpha1.DecisionReject: "rejected   1-0 by ann",
	} {
		lines := transcript.New(transcript.Options{Shown: turn.UID}).Lines(history.Item{
			Turn: turn, Decision: &format.SettledCall{ID: "1-0", Decision: decision, By: "ann"},
		})
		if len(lines) != 1 || lines[0].String() != want {
			t.Errorf("got %v, want %q", lines, want)
		}
	}
}
