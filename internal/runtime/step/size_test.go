package step

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/format"
	"github.com/capstan-dev/capstan/internal/runtime/journal/memory"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/subagent"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
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

// conditions is the size of those of a Turn: they have at most 1 KiB of message each, and little else.
const conditions = 5 * (1024 + 256)

// A status with 32 sub-agents, the default limit of a Turn, beside the other calls that a step may have, whose texts
// are the longest that models, sub-agents and the API accept, is below the bound of every status: while they run, and
// once they have ended. An object of etcd may have more than twenty times as much.
func TestTheLargestStatusWithSubAgentsFits(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("x", 9<<10), strings.Repeat("\x00", 9<<10), strings.Repeat("😀", 3<<10),
	} {
		b := newBench(t)
		one := model.ToolCall{ProviderID: text, Name: text, Arguments: "{}"}
		made := slices.Repeat([]model.ToolCall{one}, tool.MaxCallsPerStep)
		b.responds("", made...)
		turn, closed := b.reason(newTurn("demo-1"), with())
		results := facts{Outcomes: map[string]tool.Outcome{}, Planned: planned(closed)}
		calls := turn.Progress.ToolCalls
		for i := range calls {
			call := &calls[i]
			call.Name, call.Executor = strings.Repeat("n", 64), v1alpha1.ToolExecutorAgent
			call.Attempt, call.SideEffect = 1, v1alpha1.SideEffectAtMostOnce
			call.ToolUID = "01234567-0123-0123-0123-0123456789ab"
			call.ToolDigest, call.ConcurrencyClass = strings.Repeat("d", 40), strings.Repeat("c", 63)
			call.State = v1alpha1.ToolCallStateRunning
			outcome := tool.Outcome{
				State: v1alpha1.ToolCallStateSucceeded, Reason: v1alpha1.ToolCallReasonCompleted, Result: &text,
			}
			if i < subagent.DefaultMaxPerTurn {
				call.SubAgent = &v1alpha1.SubAgentReference{
					Name: strings.Repeat("s", 63), SessionUID: "01234567-0123-0123-0123-0123456789ab",
				}
				outcome.SubAgent = largestTotals()
			}
			results.Outcomes[call.ID] = outcome
		}
		bounded := func(when string, progress v1alpha1.TurnProgress) {
			t.Helper()
			raw, err := json.Marshal(progress)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: %d bytes with %q", when, len(raw)+conditions, text[:1])
			if len(raw)+conditions >= 64<<10 {
				t.Errorf("%s the status takes %d bytes with %q", when, len(raw)+conditions, text[:1])
			}
		}
		turn.Progress.WaitsFor = turnstate.SubAgentWaits(calls)
		if len(turn.Progress.WaitsFor) != turnstate.MaxWaits {
			t.Fatalf("the Turn waits for %+v", turn.Progress.WaitsFor)
		}
		bounded("while they run", turn.Progress)
		turn.Progress.WaitsFor = nil
		acted, err := b.Act(t.Context(), turn, results.step())
		if err != nil {
			t.Fatal(err)
		}
		b.responds(text)
		turn, _ = b.reason(after(turn, acted), with())
		if got := turn.Progress.ToolCalls; len(got) != tool.MaxCallsPerStep || got[0].SubAgent == nil ||
			got[0].SubAgent.Totals == nil {
			t.Fatalf("the status has %d calls, the first of which is %+v", len(got), got[0])
		}
		var status v1alpha1.TurnStatus
		turnstate.Apply(&status, 1, turn.Progress, metav1.NowMicro())
		bounded("once they have ended", status.TurnProgress)
		last := turn.Progress.ToolCalls[subagent.DefaultMaxPerTurn-1]
		if status.ToolCalls[0].SubAgent.Totals == nil || last.SubAgent.Totals == nil {
			t.Error("totals are left out for which there is room")
		}
		if summed := turn.Progress.Summary.SubAgents; summed == nil || summed.Calls == 0 && summed.ModelCalls == 0 {
			t.Errorf("the summary has %+v", summed)
		}
		turnstate.ShowCalls(&turn.Progress, results.step(), false, nil)
		bounded("while others run", turn.Progress)
	}
}

// largestTotals are the totals of a sub-agent that take the most room.
func largestTotals() *v1alpha1.SubAgentTotals {
	usage := v1alpha1.Usage{InputTokens: math.MaxInt64, OutputTokens: math.MaxInt64, TotalTokens: math.MaxInt64}
	totals := &v1alpha1.SubAgentTotals{Usage: usage, ModelCalls: math.MaxInt32}
	amount := strings.Repeat("9", 51) + "." + strings.Repeat("9", 12)
	for _, currency := range []string{"EUR", "GBP", "JPY", "USD"} {
		totals.Cost = append(totals.Cost, v1alpha1.Cost{Currency: currency, Amount: amount})
	}
	return totals
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
		if len(raw)+conditions >= 63<<10 {
			t.Errorf("with %q the status takes %d bytes", text[:1], len(raw)+conditions)
		}
	}
}
