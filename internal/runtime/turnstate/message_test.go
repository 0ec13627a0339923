package turnstate

import (
	"reflect"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/excerpt"
)

const onePixel = "R0lGODlhAQABAAAAACw="

// inParts is a Turn with its message in parts.
func inParts(parts ...v1alpha1.MessagePart) Turn {
	var t Turn
	t.Input, t.Content = MessageOf(v1alpha1.TurnSpec{Message: &v1alpha1.TurnMessage{Content: parts}})
	return t
}

func textPart(text string) v1alpha1.MessagePart { return v1alpha1.MessagePart{Text: text} }

func pictured(image v1alpha1.MessageImage) v1alpha1.MessagePart {
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
			v1alpha1.TurnSpec{
				Message: &v1alpha1.TurnMessage{
					Content: []v1alpha1.MessagePart{textPart("What"), pictured(pixel), pictured(address), textPart("is it?")},
				},
			},
			"What\nis it?",
			[]event.Part{
				event.Text("What"),
				{Type: event.PartImage, Base64: onePixel, MediaType: "image/gif"},
				{Type: event.PartImage, MediaType: "image/png", URL: "https://example.org/a.png"},
				event.Text("is it?"),
			},
		},
		"an image alone": {
			v1alpha1.TurnSpec{Message: &v1alpha1.TurnMessage{Content: []v1alpha1.MessagePart{pictured(pixel)}}},
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

// The digests identify Turns in existing journals: they must never change.
func TestTheDigestOfAMessageStaysWhatItIs(t *testing.T) {
	turn := Turn{Input: "How are you?"}
	for name, test := range map[string]struct {
		turn Turn
		want string
	}{
		"text": {turn, "df287dfc1406ed2b692e1c2c783bb5cec97eac53151ee1d9810397aa0afa0d89"},
		"the same text as a part": {
			inParts(textPart("How are you?")), "df287dfc1406ed2b692e1c2c783bb5cec97eac53151ee1d9810397aa0afa0d89",
		},
		"text and images": {
			inParts(textPart("How are you?"), pictured(pixel), pictured(address)),
			"746a9ff87fc4d61f23e556432457e1d1a553807996373edd0c50828a40b838ed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.turn.Digest(); got != test.want {
				t.Errorf("the digest is %s, not %s", got, test.want)
			}
		})
	}
}

func TestMessagesThatDifferHaveOtherDigests(t *testing.T) {
	turn := Turn{Input: "How are you?"}
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
		"text":                 inParts(textPart("a")),
		"other text":           inParts(textPart("b")),
		"two texts":            inParts(textPart("a"), textPart("b")),
		"the two joined":       inParts(textPart("a\nb")),
		"the other way round":  inParts(textPart("b"), textPart("a")),
		"an image":             inParts(pictured(pixel)),
		"another format":       inParts(pictured(jpeg)),
		"another image":        inParts(pictured(other)),
		"by address":           inParts(pictured(address)),
		"an address like data": inParts(pictured(elsewhere)),
		"text and image":       inParts(textPart("a"), pictured(pixel)),
		"image and text":       inParts(pictured(pixel), textPart("a")),
		"a text like parts":    disguised,
	} {
		digest := other.Digest()
		if before, used := seen[digest]; used {
			t.Errorf("%s and %s have one digest", name, before)
		}
		seen[digest] = name
	}
}

func TestTheExcerptOfAMessageIsAllThatTheEndOfItsTurnRepeats(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "short": "Hello", "as long as the event has room for": strings.Repeat(
			"x", MaxMessageBytes,
		), "longer": strings.Repeat(
			"x", MaxMessageBytes+1,
		),
		"long":                             strings.Repeat("é", MaxMessageBytes),
		"a character across the end of it": strings.Repeat("x", MaxMessageBytes-1) + strings.Repeat("é", 8),
	} {
		short := Excerpt(v1alpha1.TurnSpec{Input: text})
		if len(short) > MaxMessageBytes+1 || excerpt.Of(short, MaxMessageBytes) != excerpt.Of(text, MaxMessageBytes) {
			t.Errorf("%s: the excerpt of %d bytes gives another event", name, len(short))
		}
	}
}
