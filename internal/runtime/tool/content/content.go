// Package content reads and writes the results of tools that consist of texts and images (TOOL-05): a JSON array of
// content blocks, in the form in which tools of the Model Context Protocol return them.
//
//	[{"type": "text", "text": "The plot."}, {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="}]
//
// Beside the blocks of the protocol, an image that the Session has stored is named by its id:
//
//	{"type": "image_file", "image_id": "img-0123456789abcdef0123456789abcdef"}
//
// Only an array with at least one image counts. Every other result is one text.
package content

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

// MaxImages is the maximum number of images of one result. The images in base64 are part of result.MaxResultBytes.
const MaxImages = 8

// MediaTypes are the formats of images that all model providers accept.
var MediaTypes = []string{
	string(v1alpha1.ImageMediaTypePNG), string(v1alpha1.ImageMediaTypeJPEG),
	string(v1alpha1.ImageMediaTypeGIF), string(v1alpha1.ImageMediaTypeWebP),
}

// Types of blocks. Those that are neither a text nor an image are not for models: the model is shown the JSON of a
// resource, and a note in place of audio.
const (
	typeText         = "text"
	typeImage        = "image"
	typeStored       = "image_file"
	typeAudio        = "audio"
	typeResource     = "resource"
	typeResourceLink = "resource_link"
)

// Block is an element of a result.
type Block struct {
	// Type of the block.
	Type string
	// Text of a text.
	Text string
	// MIMEType and Data, in base64, of an image.
	MIMEType, Data string
	// ImageID of an image that the Session has stored.
	ImageID string

	// source is the JSON that the block was read from.
	source json.RawMessage
}

// MarshalJSON implements json.Marshaler: a block has the fields of its type, empty ones too.
func (b Block) MarshalJSON() ([]byte, error) {
	switch {
	case b.source != nil:
		return b.source, nil
	case b.Type == typeImage:
		return json.Marshal(struct {
			Type     string `json:"type"`
			MIMEType string `json:"mimeType"`
			Data     string `json:"data"`
		}{b.Type, b.MIMEType, b.Data})
	case b.Type == typeStored:
		return json.Marshal(struct {
			Type    string `json:"type"`
			ImageID string `json:"image_id"`
		}{b.Type, b.ImageID})
	default:
		return json.Marshal(struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}{b.Type, b.Text})
	}
}

// Text is a block with a text.
func Text(text string) Block {
	return Block{Type: typeText, Text: text}
}

// Image is a block with an image of one of MediaTypes.
func Image(mediaType string, data []byte) Block {
	return Block{Type: typeImage, MIMEType: mediaType, Data: base64.StdEncoding.EncodeToString(data)}
}

// Stored is a block with an image that the Session has stored.
func Stored(id string) Block {
	return Block{Type: typeStored, ImageID: id}
}

// FromImage returns a result that is one image, or a note about it if it does not fit. size is the length of the image,
// of which data may be only the first part; negative if it is not known.
func FromImage(mediaType string, data []byte, size int64) string {
	if size == 0 {
		return leftOut("an image of type " + mediaType + " without data")
	}
	if size == int64(len(data)) {
		// A Block has only strings, so that encoding it cannot fail.
		if text, err := json.Marshal([]Block{Image(mediaType, data)}); err == nil && len(text) <= result.MaxResultBytes {
			return string(text)
		}
	}
	about := "an image of type " + mediaType
	if size >= 0 {
		about += fmt.Sprintf(" with %d bytes", size)
	}
	return leftOut(about + tooLarge)
}

// tooLarge is why an image, or the rest of a result, is left out, and the remedy.
var tooLarge = fmt.Sprintf(
	" that is too large. A result has at most %d bytes, its images in base64 included: one image "+
		"has at most about %d KiB. Ask for less, or for a smaller image",
	result.MaxResultBytes,
	result.MaxResultBytes*3/4>>10,
)

// leftOut is the note for the model in place of a block.
func leftOut(what string) string {
	return "(Left out: " + what + ".)"
}

// Parts returns the parts of a result. A note replaces parts that no model can read, the first of each kind. Texts that
// follow each other are one part, so that a result has at most twice MaxImages parts and one.
func Parts(text string) []event.Part {
	blocks, lost, found := read(text)
	if !found {
		return []event.Part{event.Text(text)}
	}
	c := composer{noted: map[note]bool{}}
	for _, b := range blocks {
		c.add(b)
	}
	if lost != "" {
		c.text(leftOut(lost + tooLarge))
	}
	return c.parts
}

// note is a reason for which a block is left out.
type note int

const (
	noteAudio note = iota
	noteManyImages
	noteMediaType
	noteEncoding
	noteOtherData
	noteID
)

// composer collects the parts of a result.
type composer struct {
	parts  []event.Part
	images int
	noted  map[note]bool
}

// text adds a text, to the part before it if that is a text.
func (c *composer) text(text string) {
	if strings.TrimSpace(text) == "" {
		return
	}
	if last := len(c.parts) - 1; last >= 0 && c.parts[last].Type == event.PartText {
		c.parts[last].Text += "\n" + text
		return
	}
	c.parts = append(c.parts, event.Text(text))
}

// note adds the reason for which a block is left out, once.
func (c *composer) note(why note, what string) {
	if !c.noted[why] {
		c.noted[why] = true
		c.text(leftOut(what))
	}
}

// Add adds a note to the end of a result, behind that of an output that was cut. Where there is no room for it, the
// result is cut.
func Add(text, note string) string {
	if blocks, _, found := read(text); found {
		// Blocks have only strings, so that encoding them cannot fail.
		if added, err := json.Marshal(append(blocks, Text(note))); err == nil && len(added) <= result.MaxResultBytes {
			return string(added)
		}
		return text
	}
	output, _ := result.Uncut(text)
	tail := text[len(output):] + note
	return result.Head(output, result.MaxResultBytes-len(tail)) + tail
}

// Preview returns the texts of a result, with the types of its images in their places.
func Preview(text string) string {
	parts := Parts(text)
	words := make([]string, len(parts))
	for i, p := range parts {
		switch words[i] = p.Text; {
		case p.ImageID != "":
			words[i] = "(" + p.ImageID + ")"
		case p.Type == event.PartImage:
			words[i] = "(" + p.MediaType + ")"
		}
	}
	return strings.Join(words, "\n")
}

// read returns the blocks of a result, and whether it is an array of blocks with an image. lost is what was left out of
// it because it was too long, in the words for the model; empty for nothing.
func read(text string) (blocks []Block, lost string, found bool) {
	// Most results are recognized without decoding them.
	if !strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "[") ||
		!strings.Contains(text, `"`+typeImage+`"`) && !strings.Contains(text, `"`+typeStored+`"`) {
		return nil, "", false
	}
	text, cut := result.Uncut(text)
	if cut {
		lost = "the rest of a result"
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	if _, err := decoder.Token(); err != nil {
		return nil, "", false
	}
	for decoder.More() {
		at := decoder.InputOffset()
		var source json.RawMessage
		if err := decoder.Decode(&source); err != nil {
			if cut && beginsImage(text[at:]) {
				return blocks, "an image at the end of a result", true
			}
			return blocks, lost, cut && hasImage(blocks)
		}
		b, valid := blockOf(source)
		if !valid {
			return nil, "", false
		}
		blocks = append(blocks, b)
	}
	if !cut && !ends(decoder) {
		return nil, "", false
	}
	return blocks, lost, hasImage(blocks)
}

// ends reports whether the array ends here, and nothing follows it.
func ends(decoder *json.Decoder) bool {
	if _, err := decoder.Token(); err != nil {
		return false
	}
	_, err := decoder.Token()
	return errors.Is(err, io.EOF)
}

func hasImage(blocks []Block) bool {
	return slices.ContainsFunc(blocks, func(b Block) bool { return b.Type == typeImage || b.Type == typeStored })
}

// blockOf reads a block, and reports whether it is one.
func blockOf(source json.RawMessage) (Block, bool) {
	var given struct {
		Type     string
		Text     *string
		MIMEType *string
		Data     *string
		ImageID  *string `json:"image_id"`
	}
	if err := json.Unmarshal(source, &given); err != nil {
		return Block{}, false
	}
	b := Block{Type: given.Type, source: source}
	switch given.Type {
	case typeText:
		if given.Text == nil {
			return Block{}, false
		}
		b.Text = *given.Text
	case typeImage:
		if given.MIMEType == nil || given.Data == nil {
			return Block{}, false
		}
		b.MIMEType, b.Data = *given.MIMEType, *given.Data
	case typeStored:
		if given.ImageID == nil {
			return Block{}, false
		}
		b.ImageID = *given.ImageID
	case typeAudio, typeResource, typeResourceLink:
	default:
		return Block{}, false
	}
	return b, true
}

// beginsImage reports whether an element of an array, which was cut off, begins as an image does.
func beginsImage(text string) bool {
	decoder := json.NewDecoder(strings.NewReader(strings.TrimLeft(text, ", \t\r\n")))
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return false
	}
	for {
		name, err := decoder.Token()
		if err != nil {
			return false
		}
		value, err := decoder.Token()
		if err != nil {
			return false
		}
		if name == "type" {
			return value == typeImage
		}
	}
}

// add adds a block as the model reads it.
func (c *composer) add(b Block) {
	switch b.Type {
	case typeText:
		c.text(b.Text)
	case typeAudio:
		c.note(noteAudio, "audio, which the model is not given")
	case typeResource, typeResourceLink:
		c.text(string(b.source))
	case typeStored:
		c.stored(b)
	default:
		c.image(b)
	}
}

// stored adds an image by its id, or a note in its place. Whether the Session has it shows when a model is called.
func (c *composer) stored(b Block) {
	if c.full() {
		return
	}
	if !event.IsImageID(b.ImageID) {
		c.note(noteID, "an image whose id is not one")
		return
	}
	c.images++
	c.parts = append(c.parts, event.Part{Type: event.PartImage, ImageID: b.ImageID})
}

// full reports whether a result has as many images as it may have, with a note about further ones.
func (c *composer) full() bool {
	if c.images < MaxImages {
		return false
	}
	c.note(noteManyImages, fmt.Sprintf("further images. A result has at most %d of them", MaxImages))
	return true
}

// image adds an image, or a note in its place.
func (c *composer) image(b Block) {
	if c.full() {
		return
	}
	if !slices.Contains(MediaTypes, b.MIMEType) {
		c.note(noteMediaType, fmt.Sprintf("an image of type %.64q. The types are %s", b.MIMEType,
			strings.Join(MediaTypes, ", ")))
		return
	}
	data, err := base64.StdEncoding.DecodeString(b.Data)
	if err != nil || len(data) == 0 {
		c.note(noteEncoding, "an image whose data is not base64 with padding")
		return
	}
	// Providers refuse the whole request when the data is of another type.
	if http.DetectContentType(data) != b.MIMEType {
		c.note(noteOtherData, "an image whose data is not of type "+b.MIMEType)
		return
	}
	c.images++
	// Base64 with line breaks decodes as well, but is not accepted everywhere.
	c.parts = append(c.parts, event.Part{
		Type: event.PartImage, MediaType: b.MIMEType, Base64: base64.StdEncoding.EncodeToString(data),
	})
}
