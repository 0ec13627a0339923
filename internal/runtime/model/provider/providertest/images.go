package providertest

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/event"
)

// isBase64 reports whether a text is base64 as providers accept it: with padding and without line breaks.
func isBase64(text string) bool {
	data, err := base64.StdEncoding.DecodeString(text)
	return err == nil && len(data) > 0 && !strings.ContainsAny(text, "\r\n")
}

// isOfType reports whether data in base64 begins as an image of a type does.
func isOfType(data, kind string) bool {
	decoded, err := base64.StdEncoding.DecodeString(data)
	return err == nil && http.DetectContentType(decoded) == kind
}

// isImageURL reports whether a URL is the address of an image, or has the image itself.
func isImageURL(url string) bool {
	if strings.HasPrefix(url, "https://") {
		return true
	}
	kind, data, found := strings.Cut(url, ";base64,")
	return found && strings.HasPrefix(kind, "data:image/") && isBase64(data)
}

// imagesIn is the number of images in a part of a request, however deep.
func imagesIn(v any, is func(map[string]any) bool) int {
	n := 0
	switch v := v.(type) {
	case []any:
		for _, within := range v {
			n += imagesIn(within, is)
		}
	case map[string]any:
		if is(v) {
			return 1
		}
		for _, within := range v {
			n += imagesIn(within, is)
		}
	}
	return n
}

// isTyped reports whether an object has a type.
func isTyped(name string) func(map[string]any) bool {
	return func(o map[string]any) bool { return text(o["type"]) == name }
}

// manyImages: a conversation goes on when it has more images than an API accepts in one request. The latest ones reach
// the model, those of messages as well as those of results.
func manyImages(t *testing.T, s Subject) {
	p := s.play(t, loop()...)
	c := newTalk()
	const most = 3700
	for i := range most {
		url := fmt.Sprintf("https://example.org/%d.jpg", i)
		c.messages[0].Content = append(c.messages[0].Content, event.Part{
			Type: event.PartImage, MediaType: "image/jpeg", URL: url,
		})
	}
	c.step(t, p)
	last := &c.messages[len(c.messages)-1]
	for range 8 {
		last.Content = append(last.Content, event.Part{Type: event.PartImage, MediaType: "image/png", Base64: "iVBORw0KGgo="})
	}
	c.step(t, p)
	c.step(t, p)
	for i, body := range p.Double.Bodies() {
		if !bytes.Contains(body, fmt.Appendf(nil, "https://example.org/%d.jpg", most-1)) {
			t.Errorf("request %d lacks the last image of the message", i+1)
		}
		if n := bytes.Count(body, []byte("iVBORw0KGgo=")); i > 0 && n != 8 {
			t.Errorf("request %d has %d images of the result", i+1, n)
		}
	}
}

// imagesOfTools: the images of results reach the model where its API has a place for them, also those of a result
// without a text and beside an error (TOOL-05, GAP-25). Later requests repeat them.
func imagesOfTools(t *testing.T, s Subject) {
	png := event.Part{Type: event.PartImage, MediaType: "image/png", Base64: "iVBORw0KGgo="}
	jpeg := event.Part{Type: event.PartImage, MediaType: "image/jpeg", Base64: "/9j/4AAQSkZJRg=="}
	webp := event.Part{Type: event.PartImage, MediaType: "image/webp", Base64: "UklGRhoAAABXRUJQVlA4TA=="}
	p := s.play(t, loop()...)
	c := newTalk()
	c.step(t, p)
	first, second := &c.messages[len(c.messages)-2], &c.messages[len(c.messages)-1]
	first.Content = append(first.Content, png)
	second.Content, second.Error = []event.Part{jpeg, webp}, "half of it"
	c.step(t, p)
	c.step(t, p)
	bodies := p.Double.Bodies()
	for i, body := range bodies[1:] {
		for _, image := range []event.Part{png, jpeg, webp} {
			if n := bytes.Count(body, []byte(image.Base64)); n != 1 {
				t.Errorf("request %d has the image of type %s %d times: %s", i+2, image.MediaType, n, body)
			}
		}
		if !bytes.Contains(body, []byte("Rain at")) || !bytes.Contains(body, []byte("half of it")) {
			t.Errorf("request %d lacks a text of the results: %s", i+2, body)
		}
	}
}

// largestImage is the maximum size of an image that a Session stores.
const largestImage = 5 << 20 / 4 * 3

// largeImage: an image of the maximum size that a Session stores reaches the model, beside another one of its format
// (IMG-03).
func largeImage(t *testing.T, s Subject) {
	p := s.play(t, loop()...)
	c := newTalk()
	png := func(size int) event.Part {
		data := append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, size-8)...)
		return event.Part{
			Type: event.PartImage, MediaType: "image/png", Base64: base64.StdEncoding.EncodeToString(data),
		}
	}
	large := png(largestImage)
	c.messages[0].Content = append(c.messages[0].Content, large, png(100))
	c.step(t, p)
	if body := p.Double.Bodies()[0]; !bytes.Contains(body, []byte(large.Base64)) {
		t.Errorf("the request has %d bytes, and not the image", len(body))
	}
}
