package turnstate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
)

// MessageOf returns the message of a Turn for its steps: its text, and its parts if it has parts. If the message was
// left out, it is its beginning.
func MessageOf(spec v1alpha1.TurnSpec) (input string, content []event.Part) {
	if spec.Message == nil || MessageLeftOut(spec) {
		return spec.Input, nil
	}
	content = make([]event.Part, 0, len(spec.Message.Content))
	for _, part := range spec.Message.Content {
		switch image := part.Image; {
		case image != nil:
			content = append(
				content,
				event.Part{Type: event.PartImage, Base64: image.Data, MediaType: string(image.MediaType), URL: image.URL},
			)
		case part.ImageRef != nil:
			content = append(content, event.Part{Type: event.PartImage, ImageID: part.ImageRef.ID})
		default:
			content = append(content, event.Text(part.Text))
		}
	}
	return event.Message{Content: content}.PlainText(), content
}

// Excerpt is the beginning of a Turn's message, as long as steps after the first one need it: the event of the Turn's
// end repeats it.
func Excerpt(spec v1alpha1.TurnSpec) string {
	input, _ := MessageOf(spec)
	// One byte more than the event has room for shows that the text was longer. The copy releases the rest.
	return strings.Clone(input[:min(len(input), MaxMessageBytes+1)])
}

// AnnotationMessageBytes has the size of a message that was left out. Objects of the API server never have it.
const AnnotationMessageBytes = "capstan.dev/message-bytes"

// LeaveOutMessage keeps only the beginning of a message that is longer than Excerpt. Caches that keep many Turns use
// it, and read the message later.
func LeaveOutMessage(turn *v1alpha1.Turn) {
	if MessageLeftOut(turn.Spec) {
		return
	}
	delete(turn.Annotations, AnnotationMessageBytes)
	size := keptBytes(turn.Spec)
	if size <= MaxMessageBytes {
		return
	}
	metav1.SetMetaDataAnnotation(&turn.ObjectMeta, AnnotationMessageBytes, strconv.FormatInt(size, 10))
	turn.Spec.Input, turn.Spec.Message = Excerpt(turn.Spec), &v1alpha1.TurnMessage{}
}

// MessageLeftOut reports whether LeaveOutMessage has shortened the message. The API server accepts no message without
// parts, so that no user's Turn looks like that.
func MessageLeftOut(spec v1alpha1.TurnSpec) bool {
	return spec.Message != nil && len(spec.Message.Content) == 0
}

// keptBytes returns the memory that a message takes, URLs of images included.
func keptBytes(spec v1alpha1.TurnSpec) int64 {
	input, content := MessageOf(spec)
	n := messageBytes(input, content)
	for _, part := range content {
		n += int64(len(part.URL) + len(part.ImageID))
	}
	return n
}

func messageBytes(input string, content []event.Part) int64 {
	if content == nil {
		return int64(len(input))
	}
	n := int64(0)
	for _, part := range content {
		n += int64(len(part.Text) + len(part.Base64))
	}
	return n + event.Message{Content: content}.StoredBytes()
}

// SentBytes is the size of the message that a model is sent, whether it was read or not.
func (t Turn) SentBytes() int64 {
	return max(t.MessageBytes, messageBytes(t.Input, t.Content))
}

// SentBytes is the size of the message that a model is sent, which must have been read.
func (s Steer) SentBytes() int64 {
	return messageBytes(s.Input, s.Content)
}

// leftOutBytes is the size of a message that was left out.
func leftOutBytes(turn *v1alpha1.Turn) int64 {
	n, err := strconv.ParseInt(turn.Annotations[AnnotationMessageBytes], 10, 64)
	if err != nil {
		return maxTurnMessageBytes
	}
	return n
}

// maxTurnMessageBytes is the size of the largest message that the API server accepts.
const maxTurnMessageBytes = 1 << 20

// blockedMessage stands in for a message that a hook has blocked: no later prompt shows it.
const blockedMessage = "[This message was blocked before it was processed.]"

// Message is the message that models are sent, now and later: the user's, which must have been read, or what hooks have
// made of it. They rewrite its text; images stay.
func (t Turn) Message() event.Message {
	m := t.Original()
	switch p := t.Prompt; {
	case p == nil:
	case p.Blocked != "":
		m.Content = []event.Part{event.Text(blockedMessage)}
	case p.Text != nil:
		rewritten := []event.Part{event.Text(*p.Text)}
		for _, part := range m.Content {
			if part.Type == event.PartImage {
				rewritten = append(rewritten, part)
			}
		}
		m.Content = rewritten
	}
	return m
}

// Rewritten reports whether hooks have made another message of the user's.
func (t Turn) Rewritten() bool {
	return t.Prompt != nil && (t.Prompt.Blocked != "" || t.Prompt.Text != nil)
}

// Original is the user's message, which must have been read.
func (t Turn) Original() event.Message {
	if t.ReadMessage != nil {
		panic("the message of Turn " + t.Ref.Name + " is used before it is read")
	}
	return userMessage(t.MessageID(), t.Input, t.Content)
}

// Message is the user's message. Its id is the UID of the Turn that it was sent as.
func (s Steer) Message() event.Message {
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

// partsMark is the prefix of the digest input for a message in parts. It is not UTF-8, so that no text begins with it.
const partsMark = "\xffparts\n"

// Digest identifies the user's message.
func (t Turn) Digest() string {
	return digestOf(t.Original())
}

// Digest identifies the user's message.
func (s Steer) Digest() string {
	return digestOf(s.Message())
}

// digestOf identifies a user's message. A message with a single text has the digest of that text, in both forms.
func digestOf(m event.Message) string {
	content, encoded := m.Content, []byte(m.PlainText())
	if len(content) != 1 || content[0].Type != event.PartText {
		encoded = append([]byte(partsMark), canonicalParts(content)...)
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:])
}

// canonicalParts encodes a message in parts in a unique way. It must never change: Turns are identified by it for as
// long as their journal exists.
func canonicalParts(content []event.Part) []byte {
	parts := make([][]string, len(content))
	for i, p := range content {
		switch {
		case p.Type == event.PartText:
			parts[i] = []string{"text", p.Text}
		case p.ImageID != "":
			parts[i] = []string{"image", "id", p.ImageID}
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
