package host

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
)

// MessageOf is the message of a Turn as its steps see it: its text, and its parts where it is given in parts.
func MessageOf(spec v1alpha1.TurnSpec) (input string, content []event.Part) {
	if spec.Message == nil {
		return spec.Input, nil
	}
	content = make([]event.Part, 0, len(spec.Message.Content))
	for _, part := range spec.Message.Content {
		if image := part.Image; image != nil {
			content = append(content, event.Part{Type: event.PartImage, Base64: image.Data, MediaType: string(image.MediaType), URL: image.URL})
		} else {
			content = append(content, event.Text(part.Text))
		}
	}
	return event.Message{Content: content}.PlainText(), content
}

// Excerpt is the beginning of a Turn's message, as much as steps behind the first one need of it: the event of the
// Turn's end repeats it.
func Excerpt(spec v1alpha1.TurnSpec) string {
	input, _ := MessageOf(spec)
	// One byte more than the event has room for shows that there was more. The copy lets go of the rest.
	return strings.Clone(input[:min(len(input), maxMessageBytes+1)])
}

// message is the user's message.
func (t Turn) message() event.Message {
	return userMessage(t.messageID(), t.Input, t.Content)
}

// message is the user's message. Its id is the UID of the Turn that it was sent as.
func (s Steer) message() event.Message {
	return userMessage(string(s.Ref.UID), s.Input, s.Content)
}

// userMessage is a message of a text, or of parts where there are any.
func userMessage(id, input string, content []event.Part) event.Message {
	m := event.NewUserMessage(input)
	if content != nil {
		m.Content = content
	}
	m.ID = id
	return m
}

// partsMark begins what the digest of a message in parts is taken of. It is not UTF-8, so that no text begins with it.
const partsMark = "\xffparts\n"

// digest identifies the user's message.
func (t Turn) digest() string {
	return digestOf(t.message())
}

// digestOf identifies a user's message. A message of one text has the digest of that text, however it was given.
func digestOf(m event.Message) string {
	content, said := m.Content, []byte(m.PlainText())
	if len(content) != 1 || content[0].Type != event.PartText {
		said = append([]byte(partsMark), canonicalParts(content)...)
	}
	sum := sha256.Sum256(said)
	return hex.EncodeToString(sum[:])
}

// canonicalParts says what a message in parts is made of, in one way only. It must never change: Turns are known by it
// for as long as their log is there.
func canonicalParts(content []event.Part) []byte {
	parts := make([][]string, len(content))
	for i, p := range content {
		switch {
		case p.Type == event.PartText:
			parts[i] = []string{"text", p.Text}
		case p.URL != "":
			parts[i] = []string{"image", p.MediaType, "url", p.URL}
		default:
			parts[i] = []string{"image", p.MediaType, "base64", p.Base64}
		}
	}
	raw, err := json.Marshal(parts)
	if err != nil {
		panic(fmt.Sprintf("encoding lists of strings: %v", err))
	}
	return raw
}
