package step

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// speaks makes the model respond in two pieces, the first one after some time. Before that it fails as often as there
// are errors, each time after a minute.
func (b *bench) speaks(first time.Duration, calls []model.ToolCall, errs ...error) {
	asked := 0
	b.answer = func(r model.Request) (*model.Response, error) {
		asked++
		if asked <= len(errs) {
			b.time.Pass(time.Minute)
			return nil, errs[asked-1]
		}
		b.time.Pass(first)
		r.ReportPartial(model.Partial{Text: "H"})
		b.time.Pass(time.Hour)
		r.ReportPartial(model.Partial{Text: "Hi"})
		return &model.Response{Text: "Hi", ToolCalls: calls}, nil
	}
}

// firstTokens returns the times to the first token in the events of an entry, by type.
func firstTokens(t *testing.T, closed *journal.Closed) map[string]int64 {
	t.Helper()
	times := map[string]int64{}
	for _, e := range closed.Events {
		data, err := event.Decode[struct {
			MS *int64 `json:"time_to_first_token_ms"`
		}](e)
		if err != nil {
			t.Fatal(err)
		}
		if data.MS != nil {
			times[e.Type] = *data.MS
		}
	}
	return times
}

// TestTheTimeToTheFirstTokenIsRecorded: of the try that responded, in the events, the totals and to the metric.
// Rules: TURN-15.
func TestTheTimeToTheFirstTokenIsRecorded(t *testing.T) {
	for name, recovery := range map[string]v1alpha1.ModelRecovery{"": "", "recorded": v1alpha1.ModelRecoveryFinalize} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			var observed []time.Duration
			b.OnFirstToken = func(provider v1alpha1.ModelProvider, after time.Duration) {
				if provider != "Test" {
					t.Errorf("the provider is %s", provider)
				}
				observed = append(observed, after)
			}
			b.pausing()
			c := with(jobTool("work"))
			c.Model.Spec.Recovery = recovery
			b.speaks(399*time.Millisecond, calls(1, "work"), unavailable())
			turn, closed := b.reason(newTurn("demo-1"), c)
			want := 400 * time.Millisecond
			times := firstTokens(t, closed)
			if times[event.TypeLLMGeneration] != 400 || times[event.TypeReasonCompleted] != 400 || len(times) != 2 {
				t.Errorf("the events have %v", times)
			}
			text := "42"
			acted, err := b.Act(t.Context(), turn, facts{
				Outcomes: map[string]tool.Outcome{"1-0": {State: v1alpha1.ToolCallStateSucceeded, Result: &text}},
				Planned:  planned(closed),
			}.step())
			if err != nil {
				t.Fatal(err)
			}
			b.speaks(899*time.Millisecond, nil)
			turn, closed = b.reason(after(turn, acted), c)
			times = firstTokens(t, closed)
			if times[event.TypeReasonCompleted] != 900 || times[event.TypeTurnCompleted] != 400 {
				t.Errorf("the last events have %v", times)
			}
			if got := turn.Progress.Summary.TimeToFirstToken; got == nil || *got != (metav1.Duration{Duration: want}) {
				t.Errorf("the Turn has %v", got)
			}
			if len(observed) != 2 || observed[0] != want || observed[1] != 900*time.Millisecond {
				t.Errorf("observed were %v", observed)
			}
		})
	}
}

// TestAResponseThatComesAtOnceHasItsFirstTokenWithItsEnd: and a failed call has none.
func TestAResponseThatComesAtOnceHasItsFirstTokenWithItsEnd(t *testing.T) {
	b := newBench(t)
	b.answer = func(model.Request) (*model.Response, error) {
		b.time.Pass(99 * time.Millisecond)
		return &model.Response{Text: "Hi"}, nil
	}
	_, closed := b.reason(newTurn("demo-1"), with())
	if times := firstTokens(t, closed); times[event.TypeLLMGeneration] != 100 || times[event.TypeTurnCompleted] != 100 {
		t.Errorf("the events have %v", times)
	}
	b = newBench(t)
	b.fails("no")
	turn, closed := b.reason(newTurn("demo-1"), with())
	if times := firstTokens(t, closed); len(times) > 0 || turn.Progress.Summary.TimeToFirstToken != nil {
		t.Errorf("a failed call has %v, its Turn %v", times, turn.Progress.Summary.TimeToFirstToken)
	}
}
