package step

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
	"github.com/capstan-dev/capstan/internal/runtime/prompt"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
	"github.com/capstan-dev/capstan/internal/testing/images"
)

// look runs a Turn of one step whose message has images, behind the Turns before it.
func (b *bench) look(name string, images ...event.Part) (turnstate.Turn, []event.LLMGeneration) {
	b.t.Helper()
	view, err := b.Log.View(b.t.Context(), session, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	turn := newTurn(name)
	turn.Ref.UID, turn.Progress = types.UID(name+"-uid"), plan.Begin(view.Head+1, b.micro())
	turn.Content = append([]event.Part{event.Text("Look.")}, images...)
	b.asked = nil
	turn, closed := b.reason(turn, with())
	return turn, generations(b.t, closed)
}

func pictures(urls ...string) []event.Part {
	var images []event.Part
	for _, url := range urls {
		images = append(images, event.Part{Type: event.PartImage, MediaType: "image/png", URL: url})
	}
	return images
}

const ship, harbour = "https://example.org/ship.png", "https://example.org/harbour.png"

// TestAnImageThatCannotBeFetchedIsReplacedByANote: after a second try, for this request and all later ones. An image of
// the Turn's own message stays if one before it may be the cause.
func TestAnImageThatCannotBeFetchedIsReplacedByANote(t *testing.T) {
	b := newBench(t)
	pauses := b.pausing()
	b.answer = images.Expire(false)
	b.look("demo-1", pictures(ship)...)
	b.answer = images.Expire(false, ship)
	turn, all := b.look("demo-2", pictures(harbour)...)
	if turn.Progress.Output != "I see." || len(b.asked) != 3 {
		t.Fatalf("asked %d times: %+v", len(b.asked), turn.Progress)
	}
	if !slices.Equal(images.Addresses(b.asked[1]), []string{ship, harbour}) ||
		!slices.Equal(images.Addresses(b.asked[2]), []string{harbour}) {
		t.Errorf("the model is shown %v and %v", images.Addresses(b.asked[1]), images.Addresses(b.asked[2]))
	}
	if !slices.Equal(*pauses, []time.Duration{time.Second}) {
		t.Errorf("the pauses are %v", *pauses)
	}
	if len(all) != 1 || all[0].ImagesDropped != 1 || all[0].Tries != 3 || turn.Progress.Summary.ModelCalls != 1 {
		t.Errorf("the journal has %+v", all)
	}
	b.look("demo-3")
	if len(b.asked) != 1 || !slices.Equal(images.Addresses(b.asked[0]), []string{harbour}) ||
		!strings.Contains(b.asked[0].Messages[0].PlainText(), "could not read this image") {
		t.Errorf("the next Turn asks %d times, with %+v", len(b.asked), b.asked[0].Messages)
	}
	next, err := b.Conversation(t.Context(), session)
	if err != nil || !slices.Equal(images.Addresses(model.Request{Messages: next}), []string{harbour}) {
		t.Errorf("the next request would have %+v, %v", next, err)
	}
	if b.asked[0].User != prompt.User(session.UID) {
		t.Errorf("the provider knows the user as %q", b.asked[0].User)
	}
	if got := b.transcript()[0].Images(); len(got) != 1 || got[0].URL != ship {
		t.Errorf("the journal has %+v", got)
	}
}
