package event

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// MetadataImagesRefused lists, in an assistant message, the digests of images that it was requested without, because
// the provider had refused them. They are separated by spaces.
const MetadataImagesRefused = "images_refused"

// noteImageRefused stands in a prompt for an image that a provider refused. The journal keeps the original.
const noteImageRefused = "(Left out: the model provider could not read this image. It may have expired.)"

const (
	// imageDigestBytes is the length of the digest of an address, and imageIDBytes that of the digest in an id.
	imageDigestBytes = 8
	imageIDBytes     = 16
)

// ImageIDOf returns the id of an image with the given bytes.
func ImageIDOf(content []byte) string {
	sum := sha256.Sum256(content)
	return "img-" + hex.EncodeToString(sum[:imageIDBytes])
}

// imageIDs are the ids that images can have.
var imageIDs = regexp.MustCompile(`^img-[0-9a-f]{32}$`)

// IsImageID reports whether a text can be the id of an image.
func IsImageID(text string) bool { return imageIDs.MatchString(text) }

// ImageDigest identifies an image by its address or by its bytes, whether the part has them or names the stored image.
func (p Part) ImageDigest() string {
	if p.ImageID != "" {
		return p.ImageID
	}
	if content, err := base64.StdEncoding.DecodeString(p.Base64); p.URL == "" && err == nil {
		return ImageIDOf(content)
	}
	return p.textDigest()
}

// textDigest identifies an image by its address or by its base64. Journals of earlier builds have it for both.
func (p Part) textDigest() string {
	sum := sha256.Sum256([]byte(p.URL + "\n" + p.Base64))
	return hex.EncodeToString(sum[:imageDigestBytes])
}

// isOneOf reports whether an image has one of some digests.
func (p Part) isOneOf(digests []string) bool {
	return slices.Contains(digests, p.ImageDigest()) || slices.Contains(digests, p.textDigest())
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
		if p.Type != PartImage || !p.isOneOf(digests) {
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

// Size is the number of bytes of an image that is not at an address; 0 if it is not known.
func (p Part) Size() int64 {
	if p.ImageID != "" {
		return p.ImageBytes
	}
	return int64(base64.StdEncoding.DecodedLen(len(p.Base64)) - strings.Count(p.Base64, "="))
}

// StoredBytes is the size in base64 of the images that a message has by their ids, and of which it does not have the
// bytes.
func (m Message) StoredBytes() int64 {
	var n int64
	for _, p := range m.Content {
		if p.Type == PartImage && p.Base64 == "" {
			n += int64(base64.StdEncoding.EncodedLen(int(p.ImageBytes)))
		}
	}
	return n
}

// typeOfImages is in the data of each event that has images.
var typeOfImages = []byte(`"type":"` + PartImage + `"`)

// keyOfStored is in the data of each event that names stored images. Within a text the quotes are escaped.
var keyOfStored = []byte(`"image_id":"`)

// NamesImages reports whether the data of an event name stored images.
func (e Event) NamesImages() bool { return e.Data != nil && bytes.Contains(e.Data.Raw, keyOfStored) }

// NamesImages reports whether a message names stored images.
func (m Message) NamesImages() bool {
	return slices.ContainsFunc(m.Content, func(p Part) bool { return p.ImageID != "" })
}

// ReplaceImages returns the events with replaced images: those of users' messages and of the results of tools. The
// given events do not change.
func ReplaceImages(events []Event, replace func(Part) Part) ([]Event, error) {
	replaced := events
	for i, e := range events {
		if e.Data == nil || !bytes.Contains(e.Data.Raw, typeOfImages) {
			continue
		}
		raw, err := e.replaceImages(replace)
		if err != nil {
			return events, err
		}
		if raw == nil {
			continue
		}
		if &replaced[0] == &events[0] {
			replaced = slices.Clone(events)
		}
		replaced[i].Data = &v1alpha1.JSON{Raw: raw}
	}
	return replaced, nil
}

// replaceImages returns the data of an event with replaced images; nil if it has none.
func (e Event) replaceImages(replace func(Part) Part) ([]byte, error) {
	switch e.Type {
	case TypeInputMessage:
		data, err := Decode[InputMessage](e)
		if err != nil {
			return nil, err
		}
		data.Message.Content = replaceParts(data.Message.Content, replace)
		if data.Original != nil {
			data.Original.Content = replaceParts(data.Original.Content, replace)
		}
		return encode(data), nil
	case TypeToolCompleted:
		data, err := Decode[ToolCompleted](e)
		if err != nil {
			return nil, err
		}
		data.Result = replaceParts(data.Result, replace)
		return encode(data), nil
	default:
		return nil, nil
	}
}

func replaceParts(content []Part, replace func(Part) Part) []Part {
	content = slices.Clone(content)
	for i, p := range content {
		if p.Type == PartImage {
			content[i] = replace(p)
		}
	}
	return content
}
