package event

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// MetadataImagesRefused lists, in an assistant message, the digests of images that it was requested without, because
// the provider had refused them. They are separated by spaces.
const MetadataImagesRefused = "images_refused"

// noteImageRefused stands in a prompt for an image that a provider refused. The journal keeps the original.
const noteImageRefused = "(Left out: the model provider could not read this image. It may have expired.)"

// imageDigestBytes is the length of an image's digest.
const imageDigestBytes = 8

// ImageDigest identifies an image by its address or, if it was given by value, by its bytes.
func (p Part) ImageDigest() string {
	sum := sha256.Sum256([]byte(p.URL + "\n" + p.Base64))
	return hex.EncodeToString(sum[:imageDigestBytes])
}

// WithoutImages replaces the images with the given digests by a note. The given messages do not change.
func WithoutImages(messages []Message, digests []string) []Message {
	if len(digests) == 0 {
		return messages
	}
	kept := slices.Clone(messages)
	for i := range kept {
		kept[i] = kept[i].withoutImages(digests)
	}
	return kept
}

// WithoutRefusedImages replaces the images that a later message of the model was requested without, so that they do not
// stop every later request of the Session. An image that a user sends again counts anew. The given messages do not
// change.
func WithoutRefusedImages(messages []Message) []Message {
	var refused []string
	kept := messages
	for i := len(messages) - 1; i >= 0; i-- {
		m := messages[i]
		if digests, ok := m.Metadata[MetadataImagesRefused].(string); ok && m.Role == RoleAssistant {
			refused = append(refused, strings.Fields(digests)...)
		}
		if len(refused) == 0 || len(m.Images()) == 0 {
			continue
		}
		if &kept[0] == &messages[0] {
			kept = slices.Clone(messages)
		}
		kept[i] = m.withoutImages(refused)
	}
	return kept
}

// withoutImages is the message with a note in place of the images with the given digests.
func (m Message) withoutImages(digests []string) Message {
	content := m.Content
	for i, p := range m.Content {
		if p.Type != PartImage || !slices.Contains(digests, p.ImageDigest()) {
			continue
		}
		if &content[0] == &m.Content[0] {
			content = slices.Clone(m.Content)
		}
		content[i] = Text(noteImageRefused)
	}
	m.Content = content
	return m
}
