package sessionimage

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/record"
)

const (
	// MaxImageBytes is the maximum size of an image. In base64 it has 5 MiB, which is the most that Anthropic accepts of
	// one; OpenAI and Google accept more.
	MaxImageBytes = 5 << 20 / 4 * 3
	// MaxImages is the maximum number of images of a Session.
	MaxImages = 100
	// MaxBytes is the maximum size of the images of a Session together: in base64 they have 16 MiB, and one request at
	// Google 20 MB.
	MaxBytes = 12 << 20
	// MaxFilenameBytes is the maximum length of a filename.
	MaxFilenameBytes = 255
	// MaxMetadata is the maximum number of pairs of metadata of an image.
	MaxMetadata = 8
	// MaxMetadataKeyBytes is the maximum length of a key of them.
	MaxMetadataKeyBytes = 63
	// MaxMetadataValueBytes is the maximum length of a value of them.
	MaxMetadataValueBytes = 128
)

// MediaTypes are the formats of images that all model providers accept.
var MediaTypes = []string{
	string(v1alpha1.ImageMediaTypePNG), string(v1alpha1.ImageMediaTypeJPEG),
	string(v1alpha1.ImageMediaTypeGIF), string(v1alpha1.ImageMediaTypeWebP),
}

// Info describes an image without its bytes (IMG-01).
type Info struct {
	// ID of the image. It follows from the bytes.
	ID string `json:"id"`
	// Filename that the image was stored with; empty for an image of a message.
	Filename string `json:"filename,omitempty"`
	// ContentType is one of MediaTypes.
	ContentType string `json:"content_type"`
	// Size in bytes.
	Size int64 `json:"size_bytes"`
	// Metadata that the image was stored with.
	Metadata map[string]string `json:"metadata,omitempty"`
	// Created is when the image was stored first.
	Created time.Time `json:"created_at"`
}

// Draft is an image that is to be stored.
type Draft struct {
	// Filename for people; empty for none.
	Filename string
	// ContentType is one of MediaTypes, and the type of the bytes.
	ContentType string
	// Bytes of the image.
	Bytes []byte
	// Metadata for programs; nil for none.
	Metadata map[string]string
}

// IsID reports whether a text can be the id of an image.
func IsID(text string) bool { return event.IsImageID(text) }

// IDOf returns the id of an image with the given bytes.
func IDOf(content []byte) string {
	return event.ImageIDOf(content)
}

// check returns why a draft cannot be stored, as a *record.ExplainedError; nil if it can.
func (d *Draft) check() error {
	if err := CheckContent(d.ContentType, d.Bytes); err != nil {
		return err
	}
	if name := d.Filename; name != "" && (len(name) > MaxFilenameBytes || name == "." || name == ".." ||
		!printable(name) || strings.ContainsAny(name, `/\`)) {
		return record.Explainf("%.64q cannot be a filename: it must have at most %d bytes of printable characters, and no "+
			"slashes.", name, MaxFilenameBytes)
	}
	if len(d.Metadata) > MaxMetadata {
		return record.Explainf("The metadata of an image have at most %d pairs, not %d.", MaxMetadata, len(d.Metadata))
	}
	for key, value := range d.Metadata {
		if key == "" || len(key) > MaxMetadataKeyBytes || !printable(key) ||
			len(value) > MaxMetadataValueBytes || !utf8.ValidString(value) {
			return record.Explainf("The metadata %.64q cannot be stored: a key has 1 to %d bytes of printable characters, and "+
				"a value at most %d bytes of UTF-8.", key, MaxMetadataKeyBytes, MaxMetadataValueBytes)
		}
	}
	return nil
}

// CheckContent returns why bytes cannot be an image of a media type, as a *record.ExplainedError; nil if they can. It
// reads only the first bytes.
func CheckContent(mediaType string, content []byte) error {
	switch {
	case !slices.Contains(MediaTypes, mediaType):
		return record.Explainf("%.64q is not the type of an image. The types are %s.", mediaType,
			strings.Join(MediaTypes, ", "))
	case len(content) == 0:
		return record.Explainf("The image has no bytes.")
	case len(content) > MaxImageBytes:
		return record.Explainf("The image has %d bytes. An image has at most %d bytes (3.75 MiB).", len(content),
			MaxImageBytes)
	case http.DetectContentType(content) != mediaType:
		return record.Explainf("The bytes are not an image of type %s.", mediaType)
	default:
		return nil
	}
}

// TypeOf returns the one of MediaTypes that the first bytes of an image have. The error is a *record.ExplainedError.
func TypeOf(content []byte) (string, error) {
	if found := http.DetectContentType(content); slices.Contains(MediaTypes, found) {
		return found, nil
	}
	return "", record.Explainf("The bytes are not an image. The types are %s.", strings.Join(MediaTypes, ", "))
}

func printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// description is the value beside the parts of an image.
type description struct {
	Filename string            `json:"filename,omitempty"`
	Size     int64             `json:"size"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

// put is the write of a description.
func (d description) put(id, contentType string) (record.Put, error) {
	value, err := json.Marshal(d)
	if err != nil {
		return record.Put{}, fmt.Errorf("encoding the description of an image: %w", err)
	}
	return record.Put{Key: id, Value: value, Encoding: contentType, Kind: kindImage}, nil
}
