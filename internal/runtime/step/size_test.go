package step

import (
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/format"
	"github.com/capstan-dev/capstan/internal/runtime/journal/memory"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// TestAPlainTurnHasASmallEntry bounds the entry of a Turn without tools. Formerly it took 5.4 KiB.
func TestAPlainTurnHasASmallEntry(t *testing.T) {
	store := memory.New()
	b := onStore(t, store)
	b.answer = func(model.Request) (*model.Response, error) {
		return &model.Response{
			Text:         "Your order 1815 left our warehouse in Oslo this morning. It should reach you on Thursday.",
			FinishReason: model.FinishStop, ResponseID: "msg_01XFDUDYJgAACzvnptvVoYEL", Model: "claude-sonnet-5-5-20260901",
			Usage: model.Usage{InputTokens: 12_345, OutputTokens: 123, CacheReadTokens: 11_000, CacheWriteTokens: 1_000},
		}, nil
	}
	turn := newTurn("support-question-17")
	turn.Ref.UID = "0c7e1f3a-3333-4444-8888-0123456789ab"
	turn.Input = "Where is my order 1815? I have been waiting for it since Monday last week."
	turn.Agent = "support"
	c := with()
	c.Model = priced(named("anthropic-sonnet"), "USD", "2", "10")
	_, closed := b.reason(turn, c)
	spec, err := store.Get(t.Context(), session, closed.Ordinal)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := format.Unpack(spec)
	if err != nil {
		t.Fatal(err)
	}
	full, err := json.Marshal(plain)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := json.Marshal(journal.Entry{Events: closed.Events, Transition: &closed.Transition})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes, %d before compression, of %d", len(stored), len(full), len(whole))
	if len(stored) >= 1536 || len(full) >= 2560 {
		t.Errorf("the entry takes %d bytes, and %d before compression: %s", len(stored), len(full), full)
	}
}

// A status that holds the most that a model, a tool and a user can put into it stays below 64 KiB (invariant 7), as the
// API server writes it.
func TestTheLargestStatusFits(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("x", 9<<10), strings.Repeat("<", 9<<10), strings.Repeat("\x00", 9<<10), strings.Repeat("😀", 3<<10),
		strings.Repeat("\xff", 9<<10), strings.Repeat("\u2028", 4<<10),
	} {
		b := newBench(t)
		var made []model.ToolCall
		for range 2 * tool.MaxCallsPerStep {
			made = append(made, model.ToolCall{ProviderID: text, Name: text, Arguments: "{}"})
		}
		b.responds("", made...)
		turn, closed := b.reason(newTurn("demo-1"), with())
		worst := turn.Progress.ToolCalls
		for i := range worst {
			worst[i].Timeout, worst[i].PodUID, worst[i].ConcurrencyClass = jobTool(
				"t",
			).Spec.Job.Timeout, "01234567-0123-0123-0123-0123456789ab", strings.Repeat(
				"c",
				63,
			)
			worst[i].PodName = strings.Repeat("p", 32)
			worst[i].SideEffect, worst[i].Attempt = v1alpha1.SideEffectAtMostOnce, 3
			worst[i].ToolUID, worst[i].ToolDigest, worst[i].CallDigest = worst[i].PodUID, strings.Repeat(
				"d",
				40,
			), strings.Repeat(
				"e",
				64,
			)
			worst[i].Hints = []v1alpha1.ToolHint{v1alpha1.ToolHintDestructive, v1alpha1.ToolHintOpenWorld}
			worst[i].Policy, worst[i].ApproveBy = v1alpha1.ToolPolicyRequiresApproval, &metav1.Time{Time: started}
		}
		results := facts{Outcomes: map[string]tool.Outcome{}, Planned: planned(closed)}
		for _, call := range worst {
			results.Outcomes[call.ID] = tool.Outcome{
				State:  v1alpha1.ToolCallStateSucceeded,
				Reason: v1alpha1.ToolCallReasonUnschedulable,
				Result: &text,
			}
		}
		acted, err := b.Act(t.Context(), turn, results.step())
		if err != nil {
			t.Fatal(err)
		}
		b.responds(text)
		turn, _ = b.reason(after(turn, acted), with())
		if turn.Progress.Output == "" || len(turn.Progress.ToolCalls) != tool.MaxCallsPerStep {
			t.Fatalf("output of %d bytes, %d calls", len(turn.Progress.Output), len(turn.Progress.ToolCalls))
		}
		raw, err := json.Marshal(turn.Progress)
		if err != nil {
			t.Fatal(err)
		}
		// Conditions have at most 1 KiB of message each, and little else.
		const conditions = 5 * (1024 + 256)
		if len(raw)+conditions >= 63<<10 {
			t.Errorf("with %q the status takes %d bytes", text[:1], len(raw)+conditions)
		}
	}
}
