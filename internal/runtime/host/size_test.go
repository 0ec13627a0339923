package host

import (
	"encoding/json"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/memory"
	"github.com/capstan-dev/capstan/internal/runtime/model"
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
	raw, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := json.Marshal(journal.Entry{Events: closed.Events, Transition: &closed.Transition})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes, of %d", len(raw), len(whole))
	if len(raw) >= 2560 {
		t.Errorf("the entry takes %d bytes: %s", len(raw), raw)
	}
}
