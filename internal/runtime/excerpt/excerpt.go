// Package excerpt shortens texts to a number of bytes, at the end of a character. The launcher has functions of its own
// (package tool/result), because it imports the standard library only.
package excerpt

import (
	"strings"
	"unicode/utf8"
)

// mark ends a text that is shorter than the original.
const mark = "…"

// Of shortens text to at most limit bytes, with a mark at its end.
func Of(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len(mark)], "") + mark
}

// Head is as much of text as limit bytes hold, without a mark and without a change: text continues at its length.
func Head(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

// Encoded shortens text so that it takes at most limit bytes within a JSON string, where some characters take six:
// foreign text must not make status grow beyond its bound (invariant 7).
func Encoded(text string, limit int) string {
	size, fits := 0, 0
	for i, r := range text {
		if size <= limit-len(mark) {
			fits = i
		}
		if size += EncodedLength(r); size > limit {
			return strings.ToValidUTF8(text[:fits], "") + mark
		}
	}
	return text
}

// EncodedLength returns the most that a character takes within a JSON string.
func EncodedLength(r rune) int {
	switch {
	case r == '"' || r == '\\' || r == '\n' || r == '\r' || r == '\t' || r == '\b' || r == '\f':
		return len(`\"`)
	case r < ' ' || r == '<' || r == '>' || r == '&' || r == '\u2028' || r == '\u2029' || r == utf8.RuneError:
		return len(`\u0000`)
	default:
		return utf8.RuneLen(r)
	}
}
