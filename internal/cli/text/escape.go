package text

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Escape returns a text as it may be shown in one line. Control characters, line breaks, characters that change the
// direction of text, invisible ones that hide text, and invalid UTF-8 are shown as escape sequences of Go.
func Escape(s string) string {
	if !needsEscape(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`    `)
		case !unsafe(r):
			b.WriteRune(r)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		i += size
	}
	return b.String()
}

func needsEscape(s string) bool {
	for i, r := range s {
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(s[i:]); size == 1 {
				return true
			}
		}
		if unsafe(r) {
			return true
		}
	}
	return false
}

// unsafe reports whether a terminal may do something with a character other than show it.
func unsafe(r rune) bool {
	switch {
	case r < 0x20, r >= 0x7f && r <= 0x9f: // C0, DEL, C1
		return true
	case r == 0x061c, r == 0x200e, r == 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069: // direction
		return true
	case r == 0x200b, r == 0x2028, r == 0x2029, r == 0x2060, r == 0xfeff: // invisible, or a line break
		return true
	case r == 0x200c, r == 0x200d: // joiners, which letters and emoji need
		return false
	case unicode.Is(unicode.Cf, r), unicode.Is(unicode.Variation_Selector, r): // invisible: tags and selectors spell text
		return true
	case r == 0x115f, r == 0x1160, r == 0x3164, r == 0xffa0: // fillers, which show nothing
		return true
	default:
		return false
	}
}

// EscapeJSON returns valid JSON of the same value that has only characters that are safe to show.
func EscapeJSON(raw []byte) []byte {
	if !needsEscape(string(raw)) {
		return raw
	}
	var b bytes.Buffer
	for _, r := range string(raw) {
		switch {
		case !unsafe(r):
			b.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		}
	}
	return b.Bytes()
}
