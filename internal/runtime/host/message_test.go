package host

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal/memory"
)

const onePixel = "R0lGODlhAQABAAAAACw="

// inParts is the Turn with its message in parts.
func (t Turn) inParts(parts ...v1alpha1.MessagePart) Turn {
	t.Input, t.Content = MessageOf(v1alpha1.TurnSpec{Message: &v1alpha1.TurnMessage{Content: parts}})
	return t
}

func said(text string) v1alpha1.MessagePart { return v1alpha1.MessagePart{Text: text} }

func shown(image v1alpha1.MessageImage) v1alpha1.MessagePart {
	return v1alpha1.MessagePart{Image: &image}
}

var (
	pixel   = v1alpha1.MessageImage{MediaType: v1alpha1.ImageMediaTypeGIF, Data: onePixel}
	address = v1alpha1.MessageImage{MediaType: v1alpha1.ImageMediaTypePNG, URL: "https://example.org/a.png"}
)

func TestTheMessageOfATurn(t *testing.T) {
	for name, test := range map[string]struct {
		spec    v1alpha1.TurnSpec
		input   string
		content []event.Part
	}{
		"text": {v1alpha1.TurnSpec{Input: "Hello"}, "Hello", nil},
		"parts": {
			v1alpha1.TurnSpec{Message: &v1alpha1.TurnMessage{Content: []v1alpha1.MessagePart{said("What"), shown(pixel), shown(address), said("is it?")}}},
			"What\nis it?",
			[]event.Part{
				event.Text("What"),
				{Type: event.PartImage, Base64: onePixel, MediaType: "image/gif"},
				{Type: event.PartImage, MediaType: "image/png", URL: "https://example.org/a.png"},
				event.Text("is it?"),
			},
		},
		"an image alone": {
			v1alpha1.TurnSpec{Message: &v1alpha1.TurnMessage{Content: []v1alpha1.MessagePart{shown(pixel)}}},
			"",
			[]event.Part{{Type: event.PartImage, Base64: onePixel, MediaType: "image/gif"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			input, content := MessageOf(test.spec)
			if input != test.input || !reflect.DeepEqual(content, test.content) {
				t.Errorf("text %q, parts %+v", input, content)
			}
		})
	}
}

// The digests are what Turns are known by in logs that exist: they must never change.
func TestTheDigestOfAMessageStaysWhatItIs(t *testing.T) {
	turn := newTurn("demo-1")
	for name, test := range map[string]struct {
		turn Turn
		want string
	}{
		"text":                    {turn, "df287dfc1406ed2b692e1c2c783bb5cec97eac53151ee1d9810397aa0afa0d89"},
		"the same text as a part": {turn.inParts(said("How are you?")), "df287dfc1406ed2b692e1c2c783bb5cec97eac53151ee1d9810397aa0afa0d89"},
		"text and images":         {turn.inParts(said("How are you?"), shown(pixel), shown(address)), "746a9ff87fc4d61f23e556432457e1d1a553807996373edd0c50828a40b838ed"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.turn.digest(); got != test.want {
				t.Errorf("the digest is %s, not %s", got, test.want)
			}
		})
	}
}

func TestMessagesThatDifferHaveOtherDigests(t *testing.T) {
	turn := newTurn("demo-1")
	jpeg := pixel
	jpeg.MediaType = v1alpha1.ImageMediaTypeJPEG
	other := pixel
	other.Data = "R0lGODlhAQABAAAAACx="
	elsewhere := address
	elsewhere.URL = onePixel
	disguised := turn
	disguised.Input = `[["text","a"],["text","b"]]`
	seen := map[string]string{}
	for name, other := range map[string]Turn{
		"text":                 turn.inParts(said("a")),
		"other text":           turn.inParts(said("b")),
		"two texts":            turn.inParts(said("a"), said("b")),
		"the two joined":       turn.inParts(said("a\nb")),
		"the other way round":  turn.inParts(said("b"), said("a")),
		"an image":             turn.inParts(shown(pixel)),
		"another format":       turn.inParts(shown(jpeg)),
		"another image":        turn.inParts(shown(other)),
		"by address":           turn.inParts(shown(address)),
		"an address like data": turn.inParts(shown(elsewhere)),
		"text and image":       turn.inParts(said("a"), shown(pixel)),
		"image and text":       turn.inParts(shown(pixel), said("a")),
		"a text like parts":    disguised,
	} {
		digest := other.digest()
		if before, used := seen[digest]; used {
			t.Errorf("%s and %s have one digest", name, before)
		}
		seen[digest] = name
	}
}

func TestAMessageInPartsReachesTheLogAndTheModel(t *testing.T) {
	store := memory.New()
	b := onStore(t, store)
	turn := newTurn("demo-1").inParts(said("What"), shown(pixel), said("is it?"))
	_, closed := b.reason(turn, with())
	b.expectTypes(closed.Events, openingTypes, reasonTypes, "turn.completed session.idled")
	want := turn.Content
	if got := b.asked[0].Messages; len(got) != 1 || got[0].ID != string(turn.Ref.UID) ||
		!reflect.DeepEqual(got[0].Content, want) {
		t.Errorf("the model reads %+v", got)
	}
	if got := b.transcript(); !reflect.DeepEqual(got[0].Content, want) {
		t.Errorf("the log has %+v", got[0])
	}
	for _, e := range closed.Events {
		var data struct {
			InputContent string `json:"input_content"`
		}
		if err := json.Unmarshal(e.Data.Raw, &data); err != nil {
			t.Fatal(err)
		}
		if tells := e.Type == event.TypeTurnStarted ||
			e.Type == event.TypeTurnCompleted; tells != (data.InputContent == "What\nis it?") {
			t.Errorf("%s tells of the input %q", e.Type, data.InputContent)
		}
	}
}

func TestALargeImageIsSplitOverEntriesAndKeptWhole(t *testing.T) {
	store := memory.New()
	b := onStore(t, store)
	image := pixel
	image.Data = strings.Repeat("A", 1<<20)
	b.reason(newTurn("demo-1").inParts(said("Look"), shown(image)), with())
	if got := onStore(
		t,
		store,
	).transcript(); len(got) != 2 || len(got[0].Content) != 2 ||
		got[0].Content[1].Base64 != image.Data {
		t.Errorf("the log has %d messages", len(got))
	}
}

func TestATurnIsRecalledByItsMessage(t *testing.T) {
	b := newBench(t)
	b.reason(newTurn("demo-1").inParts(said("Look"), shown(pixel)), with())
	next := newTurn("demo-1")
	next.Ref.UID = "uid-2"
	for name, test := range map[string]struct {
		turn Turn
		same bool
	}{
		"the same parts":          {next.inParts(said("Look"), shown(pixel)), true},
		"another image":           {next.inParts(said("Look"), shown(address)), false},
		"the text without images": {next.inParts(said("Look")), false},
	} {
		recalled, err := b.Recall(t.Context(), test.turn, 0)
		if err != nil || recalled == nil || recalled.SameMessage != test.same {
			t.Errorf("%s: recalled %+v, %v", name, recalled, err)
		}
	}
}

func TestTheExcerptOfAMessageIsAllThatTheEndOfItsTurnRepeats(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "short": "Hello", "as long as the event has room for": strings.Repeat("x", maxMessageBytes), "longer": strings.Repeat("x", maxMessageBytes+1),
		"long":                             strings.Repeat("é", maxMessageBytes),
		"a character across the end of it": strings.Repeat("x", maxMessageBytes-1) + strings.Repeat("é", 8),
	} {
		excerpt := Excerpt(v1alpha1.TurnSpec{Input: text})
		if len(excerpt) > maxMessageBytes+1 || cut(excerpt, maxMessageBytes) != cut(text, maxMessageBytes) {
			t.Errorf("%s: the excerpt of %d bytes gives another event", name, len(excerpt))
		}
	}
}
