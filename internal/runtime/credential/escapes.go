package credential

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// withoutEscaped removes values from a text that is, or contains, JSON in which any of their characters are escaped:
// who reads the JSON has the values again. A server may escape what need not be, and some always escape slashes.
func withoutEscaped(text string, values []string) string {
	if !escapes(text) {
		return text
	}
	plain, starts := unescaped(text)
	type part struct{ from, to int }
	var found []part
	for _, value := range values {
		for at := 0; ; {
			next := strings.Index(plain[at:], value)
			if next < 0 {
				break
			}
			at += next
			found = append(found, part{starts[at], starts[at+len(value)]})
			at += len(value)
		}
	}
	if len(found) == 0 {
		return text
	}
	// One value may be a part of another one.
	slices.SortFunc(found, func(a, b part) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to)) })
	var left strings.Builder
	end := 0
	for _, p := range found {
		if p.from >= end {
			left.WriteString(text[end:p.from] + redacted)
		}
		end = max(end, p.to)
	}
	left.WriteString(text[end:])
	return left.String()
}

// escapes reports whether a text may have escapes of JSON that encoders need not write.
func escapes(text string) bool { return strings.Contains(text, `\u00`) || strings.Contains(text, `\/`) }

// unescaped returns a text with the characters that escapes of JSON stand for, as far as they are ASCII, and where each
// byte of it begins in the text, with the end of the text as the last one.
func unescaped(text string) (plain string, starts []int) {
	var b strings.Builder
	starts = make([]int, 0, len(text)+1)
	for i := 0; i < len(text); {
		c, length := character(text[i:])
		b.WriteByte(c)
		starts = append(starts, i)
		i += length
	}
	return b.String(), append(starts, len(text))
}

// character is the first character of a text, and how many bytes it is written with.
func character(text string) (c byte, length int) {
	if len(text) < 2 || text[0] != '\\' {
		return text[0], 1
	}
	switch text[1] {
	case '\\', '"', '/':
		return text[1], 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		if len(text) >= 6 {
			if code, err := strconv.ParseUint(text[2:6], 16, 7); err == nil {
				return byte(code), 6
			}
		}
	}
	return text[0], 1
}
