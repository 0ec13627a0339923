package host

import (
	"encoding/json"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/format"
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
