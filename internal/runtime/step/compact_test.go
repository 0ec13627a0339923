package step

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/compaction"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// compacts is a Config with the capability.
func compacts(t *testing.T, config string) turnstate.Config {
	t.Helper()
	policy, err := compaction.Parse(config)
	if err != nil {
		t.Fatal(err)
	}
	c := with()
	c.Compaction = policy
	return c
}

// summarizes makes the model write a summary where it is asked for one, and refuse prompts of more than limit messages,
// if that is not 0.
func (b *bench) summarizes(limit int) {
	b.answer = func(r model.Request) (*model.Response, error) {
		if isSummaryRequest(r) {
			return &model.Response{Text: "They talked about Ada.", Usage: model.Usage{InputTokens: 70, OutputTokens: 7}}, nil
		}
		if limit > 0 && len(r.Messages) > limit {
			return nil, &model.Error{Code: v1alpha1.ErrorCodeRequestTooLarge, Text: "too long"}
		}
		return &model.Response{Text: strings.Repeat("word ", 100), FinishReason: model.FinishStop}, nil
	}
}

func isSummaryRequest(r model.Request) bool {
	return strings.HasPrefix(r.SystemPrompt, "You write a summary")
}

// talk runs Turns with one step each.
func (b *bench) talk(c turnstate.Config, turns int) int64 {
	opened := int64(1)
	for i := range turns {
		turn := newTurn("turn-" + string(rune('a'+i)))
		turn.Ref.UID = types.UID(turn.Ref.Name + "-uid")
		turn.Progress.Plan.OpenedAtOrdinal = opened
		_, closed := b.reason(turn, c)
		opened = closed.Ordinal + 1
	}
	return opened
}

func (b *bench) next(opened int64) turnstate.Turn {
	turn := newTurn("next")
	turn.Ref.UID, turn.Progress.Plan.OpenedAtOrdinal = "next-uid", opened
	return turn
}

// Rules: LLM-08, LLM-02.
func TestALongConversationIsCompactedBeforeTheModelIsCalled(t *testing.T) {
	b := newBench(t)
	b.summarizes(0)
	opened := b.talk(with(), 8)
	c := compacts(t, `{"threshold":1000,"keepMessages":2}`)
	turn, closed := b.reason(b.next(opened), c)
	b.expectTypes(closed.Events, "input.message", "session.activated", "turn.started", "context.compacting",
		"llm.generation", "context.compacted")
	if p := turn.Progress; p.Plan.Step != 2 || p.Plan.Phase != v1alpha1.PlanPhaseReason || p.Iteration != 1 ||
		p.Plan.Compacted != v1alpha1.CompactionTriggerThreshold || p.Summary.Compactions != 1 ||
		p.Summary.ModelCalls != 1 || p.Summary.Usage.InputTokens != 70 {
		t.Fatalf("the progress is %+v, %+v, %+v", p, p.Plan, p.Summary)
	}
	turn, closed = b.reason(turn, c)
	b.expectTypes(closed.Events, append(strings.Fields(reasonTypes), "turn.completed", "session.idled")...)
	sent := b.asked[len(b.asked)-1].Messages
	first := sent[0].PlainText()
	if len(sent) != 4 || !strings.Contains(first, "They talked about Ada.") ||
		!strings.Contains(first, "<conversation-summary ") || sent[3].ID != "next-uid" {
		t.Errorf("the model was sent %d messages, the first of them %q", len(sent), first)
	}
	if turn.Progress.Summary.ModelCalls != 2 {
		t.Errorf("the summary is %+v", turn.Progress.Summary)
	}
	// Another process begins with the summary, and adopts the step.
	other := onStore(t, b.store)
	if got := other.transcript(); len(got) != 5 || !got[0].IsSummary() {
		t.Errorf("another process reads %d messages", len(got))
	}
	again, closed := other.reason(b.next(opened), c)
	if len(other.asked) != 0 || !closed.Adopted || again.Progress.Plan.Step != 2 {
		t.Errorf("another process has called the model %d times", len(other.asked))
	}
}

// Rules: LLM-08.
func TestARefusedPromptIsCompactedOnce(t *testing.T) {
	b := newBench(t)
	b.summarizes(12)
	opened := b.talk(with(), 6)
	c := compacts(t, `{"keepMessages":2}`)
	turn, closed := b.reason(b.next(opened), c)
	b.expectTypes(closed.Events, "input.message", "session.activated", "turn.started", "llm.generation",
		"context.compacting", "llm.generation", "context.compacted")
	if turn.Progress.Plan.Compacted != v1alpha1.CompactionTriggerRequestTooLarge {
		t.Fatalf("the plan is %+v", turn.Progress.Plan)
	}
	if _, closed = b.reason(turn, c); closed.Transition.Phase != v1alpha1.TurnPhaseSucceeded {
		t.Errorf("the Turn is %s", closed.Transition.Phase)
	}
	// A prompt that is refused nevertheless ends the Turn.
	b.summarizes(1)
	turn = b.next(closed.Ordinal + 1)
	turn.Ref = v1alpha1.JournalTurn{Name: "last", UID: "last-uid"}
	turn, _ = b.reason(turn, c)
	asked := len(b.asked)
	_, closed = b.reason(turn, c)
	if failed := closed.Transition.Error; failed == nil || failed.Code != v1alpha1.ErrorCodeRequestTooLarge {
		t.Errorf("the error is %+v", failed)
	}
	if len(b.asked) != asked+1 {
		t.Errorf("the model was called %d times after the compaction", len(b.asked)-asked)
	}
}

// Rules: LLM-08.
func TestWithoutTheCapabilityARefusedPromptEndsTheTurn(t *testing.T) {
	b := newBench(t)
	b.summarizes(12)
	opened := b.talk(with(), 6)
	_, closed := b.reason(b.next(opened), with())
	if failed := closed.Transition.Error; failed == nil || failed.Code != v1alpha1.ErrorCodeRequestTooLarge {
		t.Errorf("the error is %+v", failed)
	}
}

// Rules: LLM-08.
func TestWithoutASummaryNothingIsLeftOutUnlessThePromptIsRefused(t *testing.T) {
	b := newBench(t)
	b.summarizes(0)
	opened := b.talk(with(), 8)
	limit := 0
	b.answer = func(r model.Request) (*model.Response, error) {
		if isSummaryRequest(r) {
			return nil, &model.Error{Code: v1alpha1.ErrorCodeProviderMisconfigured, Text: "no summaries here"}
		}
		if limit > 0 && len(r.Messages) > limit {
			return nil, &model.Error{Code: v1alpha1.ErrorCodeRequestTooLarge, Text: "too long"}
		}
		return &model.Response{Text: "Fine.", FinishReason: model.FinishStop}, nil
	}
	c := compacts(t, `{"threshold":1000,"keepMessages":2}`)
	turn, closed := b.reason(b.next(opened), c)
	if n := turn.Progress.Summary.FailedSummaries; n != 1 {
		t.Errorf("%d summaries have failed", n)
	}
	if turn.Progress.Phase != v1alpha1.TurnPhaseSucceeded ||
		!strings.Contains(typesOf(closed.Events), "llm.generation llm.generation") {
		t.Fatalf("the Turn is %s with %s", turn.Progress.Phase, typesOf(closed.Events))
	}
	limit = 10
	turn = b.next(closed.Ordinal + 1)
	turn.Ref = v1alpha1.JournalTurn{Name: "last", UID: "last-uid"}
	turn, closed = b.reason(turn, c)
	data, err := event.Decode[event.ContextCompacted](closed.Events[len(closed.Events)-1])
	if err != nil || data.Mode != event.CompactTrim || data.Error == "" {
		t.Fatalf("the compaction is %+v (%v)", data, err)
	}
	if turn, _ = b.reason(turn, c); turn.Progress.Phase != v1alpha1.TurnPhaseSucceeded {
		t.Errorf("the Turn is %s", turn.Progress.Phase)
	}
}

// A summary costs a model call with all of the conversation. Turns have hundreds of steps.
//
// Rules: LLM-08.
func TestATurnAsksOnceForASummaryThatFails(t *testing.T) {
	for name, tc := range map[string]struct {
		answer func() (*model.Response, error)
		input  int64
	}{
		"with an error": {func() (*model.Response, error) {
			return nil, &model.Error{Code: v1alpha1.ErrorCodeProviderMisconfigured, Text: "no summaries here"}
		}, 0},
		"without a text, which is paid for": {func() (*model.Response, error) {
			return &model.Response{Usage: model.Usage{InputTokens: 70}, FinishReason: "length"}, nil
		}, 70},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.summarizes(0)
			opened := b.talk(with(), 8)
			summaries := 0
			b.answer = func(r model.Request) (*model.Response, error) {
				if isSummaryRequest(r) {
					summaries++
					return tc.answer()
				}
				return &model.Response{Text: "Fine.", FinishReason: model.FinishStop}, nil
			}
			c, turn := compacts(t, `{"threshold":1000,"keepMessages":2}`), b.next(opened)
			for i := range 3 {
				turn.Steers = func(context.Context) ([]turnstate.Steer, error) {
					ref := v1alpha1.JournalTurn{Name: "steer", UID: types.UID("steer-" + strconv.Itoa(i))}
					return []turnstate.Steer{{Ref: ref, Input: "Go on."}}[:min(2-i, 1)], nil
				}
				turn, _ = b.reason(turn, c)
			}
			sum := turn.Progress.Summary
			if summaries != 1 || sum.FailedSummaries != 1 || sum.Usage.InputTokens != tc.input {
				t.Errorf("the Turn has asked for %d summaries, and counts %d with %d tokens", summaries, sum.FailedSummaries,
					sum.Usage.InputTokens)
			}
		})
	}
}

// A wait of the call for a summary is not one of the call with the prompt, and the other way round: each has its own
// tries, and a summary that has failed is not asked for again.
//
// Rules: LLM-08.
func TestASummaryAndTheCallAfterItHaveTriesOfTheirOwn(t *testing.T) {
	b := newBench(t)
	b.summarizes(0)
	opened := b.talk(with(), 8)
	summaries, prompts := 0, 0
	busy := provider.StatusError("Test", "m", 429, 20*time.Second, "")
	b.answer = func(r model.Request) (*model.Response, error) {
		if isSummaryRequest(r) {
			summaries++
			if summaries == 1 {
				return nil, busy
			}
			return nil, &model.Error{Code: v1alpha1.ErrorCodeProviderMisconfigured, Text: "no summaries here"}
		}
		prompts++
		if prompts == 1 {
			return nil, busy
		}
		return &model.Response{Text: "Fine.", FinishReason: model.FinishStop}, nil
	}
	c, turn := compacts(t, `{"threshold":1000,"keepMessages":2}`), b.next(opened)
	var first, second *Backoff
	if _, err := b.ReasonAfter(t.Context(), turn, c, nil); !errors.As(err, &first) || summaries != 1 || prompts != 0 {
		t.Fatalf("%v, after %d summaries and %d prompts", err, summaries, prompts)
	}
	if _, err := b.ReasonAfter(t.Context(), turn, c, first); !errors.As(err, &second) || second.Tries != 1 {
		t.Fatalf("the call with the prompt waits with %+v: %v", second, err)
	}
	closed, err := b.ReasonAfter(t.Context(), turn, c, second)
	if err != nil || closed.Transition.Phase != v1alpha1.TurnPhaseSucceeded || summaries != 2 || prompts != 2 {
		t.Errorf("%+v, %v, after %d summaries and %d prompts", closed, err, summaries, prompts)
	}
}
