package credential

import (
	"slices"
	"strconv"
	"strings"
)

// place is where a text has a value: from the byte start up to the byte end.
type place struct{ start, end int32 }

// decoded is a text without the escapes of a form, and where each byte of it begins in the text that is searched, with
// the end of that as the last one. No starts are those of the text itself.
type decoded struct {
	text   string
	starts []int32
}

// maxNested is how many forms a text can be written in at once: JSON in JSON, a URL in JSON, or JSON in a URL.
const maxNested = 2

// forms are what a server may write a value in.
var forms = []func(string) (byte, int){inJSON, inURL, inForm}

// placesOf returns where a text has values, as they are or in nested forms, in ascending order and without overlaps.
// Its work is bounded: a text has 1+3+9 decoded forms, each of which is read once, and once more for each value whose
// first bytes it has.
func placesOf(text string, values []string) []place {
	slices.Sort(values)
	values = slices.Compact(values)
	var found []place
	search(decoded{text: text}, values, beginningsOf(values), 0, &found)
	return found
}

func search(d decoded, values []string, beginnings *beginnings, depth int, found *[]place) {
	if beginnings.in(d.text) {
		for _, value := range values {
			*found = union(*found, d.find(value))
		}
	}
	if depth == maxNested {
		return
	}
	for _, form := range forms {
		if next, changed := d.decode(form); changed {
			search(next, values, beginnings, depth+1, found)
		}
	}
}

// find returns where a value is in the text that is searched.
func (d decoded) find(value string) []place {
	var found []place
	for at := 0; ; at += len(value) {
		next := strings.Index(d.text[at:], value)
		if next < 0 {
			return found
		}
		at += next
		found = append(found, place{d.origin(at), d.origin(at + len(value))})
	}
}

func (d decoded) origin(at int) int32 {
	if d.starts == nil {
		return int32(at)
	}
	return d.starts[at]
}

// decode replaces the escapes of a form, and reports whether there were any.
func (d decoded) decode(form func(string) (byte, int)) (next decoded, changed bool) {
	first := 0
	for first < len(d.text) {
		if c, length := form(d.text[first:]); length > 1 || c != d.text[first] {
			break
		}
		first++
	}
	if first == len(d.text) {
		return d, false
	}
	var b strings.Builder
	b.Grow(len(d.text))
	next.starts = make([]int32, 0, len(d.text)+1)
	for i := 0; i < len(d.text); {
		c, length := form(d.text[i:])
		b.WriteByte(c)
		next.starts = append(next.starts, d.origin(i))
		i += length
	}
	next.text, next.starts = b.String(), append(next.starts, d.origin(len(d.text)))
	return next, true
}

// union merges places that are in ascending order and without overlaps.
func union(a, b []place) []place {
	if len(a) == 0 || len(b) == 0 {
		return append(a, b...)
	}
	all := make([]place, 0, len(a)+len(b))
	for len(a) > 0 || len(b) > 0 {
		if len(a) == 0 || len(b) > 0 && b[0].start < a[0].start {
			a, b = b, a
		}
		if last := len(all) - 1; last >= 0 && a[0].start < all[last].end {
			all[last].end = max(all[last].end, a[0].end)
		} else {
			all = append(all, a[0])
		}
		a = a[1:]
	}
	return all
}

// beginnings has a bit for each hash of the first bytes of a value.
type beginnings [1 << 10]uint64

func beginningsOf(values []string) *beginnings {
	b := &beginnings{}
	for _, value := range values {
		hash := hashed(value)
		b[hash/64] |= 1 << (hash % 64)
	}
	return b
}

// in reports whether a text may have a value.
func (b *beginnings) in(text string) bool {
	for i := 0; i+minHidden <= len(text); i++ {
		if hash := hashed(text[i:]); b[hash/64]&(1<<(hash%64)) != 0 {
			return true
		}
	}
	return false
}

// hashed is a hash of the first minHidden bytes of a text.
func hashed(text string) uint16 {
	all := uint32(text[0]) | uint32(text[1])<<8 | uint32(text[2])<<16 | uint32(text[3])<<24
	return uint16(all * 2654435761 >> 16)
}

// escapes reports whether a text may have escapes of JSON that encoders need not write.
func escapes(text string) bool { return strings.Contains(text, `\u00`) || strings.Contains(text, `\/`) }

// inJSON is the first character of a text in a string of JSON, as far as it is ASCII, and how many bytes it is written
// with. A server may escape what need not be, and some always escape slashes.
func inJSON(text string) (c byte, length int) {
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

// inURL is the first byte of a text in a URL, and how many bytes it is written with. Encoders differ in what they
// escape, and in the case of the digits.
func inURL(text string) (c byte, length int) {
	if len(text) >= 3 && text[0] == '%' {
		if code, err := strconv.ParseUint(text[1:3], 16, 8); err == nil {
			return byte(code), 3
		}
	}
	return text[0], 1
}

// inForm is inURL for the values of a form, in which a space is a plus sign.
func inForm(text string) (c byte, length int) {
	if text[0] == '+' {
		return ' ', 1
	}
	return inURL(text)
}
