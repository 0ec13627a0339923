package simulator

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/internal/runtime/event"
)

const (
	// noResult replaces the result of a tool without one in the current turn.
	noResult = "(no result)"
	// noImage replaces the images of a message without any.
	noImage = "(no image)"
	// noLocale replaces a missing locale.
	noLocale = "(no locale)"
	// tooLong replaces a value that would make a response larger than maxExpansion.
	tooLong = "(too long)"
	// maxExpansion is the maximum size of the expanded placeholders of one response: a short text that refers to a long
	// result many times must not fill the manager's memory.
	maxExpansion = 1 << 20
)

// placeholder is {{input}}, {{images}}, {{locale}} or {{tool:NAME}}; the groups are the word and the NAME.
var placeholder = regexp.MustCompile(`\{\{(?:(input|images|locale)|tool:([^{}]+))\}\}`)

// turn is the part of the conversation that a response depends on.
type turn struct {
	// input is the text of the last user message.
	input string
	// images are those of the last user message, in words.
	images []string
	// locale of the response; empty for none.
	locale string
	// results are the newest outcome of each tool in the turn, by the tool's name.
	results map[string]string
}

// currentTurn returns the turn's own message and those after it, including steered messages. If none has the turn's id,
// the turn begins with the last user message.
func currentTurn(messages []event.Message, turnID string) turn {
	t := turn{results: map[string]string{}}
	named := slices.ContainsFunc(
		messages,
		func(m event.Message) bool { return m.Role == event.RoleUser && m.ID == turnID },
	)
	found := false
	for _, m := range slices.Backward(messages) {
		if m.Role == event.RoleUser && !found {
			t.input, t.images, found = m.PlainText(), describeAll(m.Images()), true
		}
		if m.Role == event.RoleUser && (!named || m.ID == turnID) {
			break
		}
		if _, newer := t.results[m.ToolName]; m.Role == event.RoleToolResult && !newer {
			t.results[m.ToolName] = outcome(m)
		}
	}
	return t
}

func describeAll(images []event.Part) []string {
	var described []string
	for _, image := range images {
		described = append(described, describe(image))
	}
	return described
}

// describe returns the format of an image, and its size in bytes or its address.
func describe(image event.Part) string {
	if image.URL != "" {
		return image.MediaType + " at " + image.URL
	}
	size := base64.StdEncoding.DecodedLen(len(image.Base64)) - strings.Count(image.Base64, "=")
	return fmt.Sprintf("%s of %d bytes", image.MediaType, size)
}

// outcome is the text of a tool result: the error of a failed call, otherwise the result. The fences of the prompt
// protect only models that can be manipulated.
func outcome(m event.Message) string {
	m = event.Unfenced(m)
	if m.Error != "" {
		return m.Error
	}
	return m.PlainText()
}

// expander replaces placeholders in the texts of one response.
type expander struct {
	turn
	// left is how many bytes of values may still be put in.
	left int
}

func newExpander(t turn) *expander {
	return &expander{turn: t, left: maxExpansion}
}

// expand replaces the placeholders of a text, in one pass: a placeholder inside a value stays as it is.
func (e *expander) expand(text string) string {
	return placeholder.ReplaceAllStringFunc(text, func(match string) string {
		value := e.value(match)
		if len(value) > e.left {
			return tooLong
		}
		e.left -= len(value)
		return value
	})
}

func (e *expander) value(match string) string {
	groups := placeholder.FindStringSubmatch(match)
	switch groups[1] {
	case "input":
		return e.input
	case "images":
		return otherwise(strings.Join(e.images, ", "), noImage)
	case "locale":
		return otherwise(e.locale, noLocale)
	}
	if result, found := e.results[groups[2]]; found {
		// As in a shell's command substitution: the line break that most programs end with belongs to the program, not
		// to the text.
		return strings.TrimRight(result, "\n")
	}
	return noResult
}

// otherwise is the value, or its replacement if it is empty.
func otherwise(value, none string) string {
	if value == "" {
		return none
	}
	return value
}
