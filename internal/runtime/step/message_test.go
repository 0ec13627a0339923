package step

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal/memory"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

const onePixel = "R0lGODlhAQABAAAAACw="

// inParts is a Turn with its message in parts.
func inParts(t turnstate.Turn, parts ...v1alpha1.MessagePart) turnstate.Turn {
	t.Input, t.Content = turnstate.MessageOf(v1alpha1.TurnSpec{Message: &v1alpha1.TurnMessage{Content: parts}})
	return t
}

func textPart(text string) v1alpha1.MessagePart { return v1alpha1.MessagePart{Text: text} }

func shown(image v1alpha1.MessageImage) v1alpha1.MessagePart {
	return v1alpha1.MessagePart{Image: &image}
}

var (
	pixel   = v1alpha1.MessageImage{MediaType: v1alpha1.ImageMediaTypeGIF, Data: onePixel}
	address = v1alpha1.MessageImage{MediaType: v1alpha1.ImageMediaTypePNG, URL: "https://example.org/a.png"}
)

func TestAMessageInPartsReachesTheLogAndTheModel(t *testing.T) {
	store := memory.New()
	b := onStore(t, store)
	turn := inParts(newTurn("demo-1"), textPart("What"), shown(pixel), textPart("is it?"))
	_, closed := b.reason(turn, with())
	b.expectTypes(closed.Events, openingTypes, reasonTypes, "turn.completed session.idled")
	want := turn.Content
	if got := b.asked[0].Messages; len(got) != 1 || got[0].ID != string(turn.Ref.UID) ||
		!reflect.DeepEqual(got[0].Content, want) {
		t.Errorf("the model reads %+v", got)
	}
	if got := b.transcript(); !reflect.DeepEqual(got[0].Content, want) {
		t.Errorf("the journal has %+v", got[0])
	}
	for _, e := range closed.Events {
		var data struct {
			InputContent string `json:"input_content"`
		}
		if err := json.Unmarshal(e.Data.Raw, &data); err != nil {
			t.Fatal(err)
		}
		if shows := e.Type == event.TypeTurnStarted ||
			e.Type == event.TypeTurnCompleted; shows != (data.InputContent == "What\nis it?") {
			t.Errorf("%s has the input %q", e.Type, data.InputContent)
		}
	}
}

func TestALargeImageIsSplitOverEntriesAndKeptWhole(t *testing.T) {
	store := memory.New()
	b := onStore(t, store)
	image := pixel
	image.Data = strings.Repeat("A", 1<<20)
	b.reason(inParts(newTurn("demo-1"), textPart("Look"), shown(image)), with())
	if got := onStore(
		t,
		store,
	).transcript(); len(got) != 2 || len(got[0].Content) != 2 ||
		got[0].Content[1].Base64 != image.Data {
		t.Errorf("the journal has %d messages", len(got))
	}
}

func TestATurnIsRecalledByItsMessage(t *testing.T) {
	b := newBench(t)
	b.reason(inParts(newTurn("demo-1"), textPart("Look"), shown(pixel)), with())
	next := newTurn("demo-1")
	next.Ref.UID = "uid-2"
	for name, test := range map[string]struct {
		turn turnstate.Turn
		same bool
	}{
		"the same parts":          {inParts(next, textPart("Look"), shown(pixel)), true},
		"another image":           {inParts(next, textPart("Look"), shown(address)), false},
		"the text without images": {inParts(next, textPart("Look")), false},
	} {
		recalled, err := b.Recall(t.Context(), test.turn, 0)
		if err != nil || recalled == nil || recalled.SameMessage != test.same {
			t.Errorf("%s: recalled %+v, %v", name, recalled, err)
		}
	}
}
