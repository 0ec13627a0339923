package credential

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A server writes a value as its own encoder does.
func TestAValueIsRemovedHoweverAURLWritesIt(t *testing.T) {
	secret := Hiding(nil, `p@ss!word/1`, `with "space" + more`)
	for text, want := range map[string]string{
		`p%40ss!word%2F1`:                                       "[redacted]", // encodeURIComponent
		`p%40ss%21word/1`:                                       "[redacted]", // Python's quote
		`p%40ss!word%2f1 %40`:                                   "[redacted] %40",
		`p@ss%21word/1&`:                                        "[redacted]&",
		`%70%40%73%73%21%77%6f%72%64%2f%31%`:                    "[redacted]%",
		`q=with+%22space%22+%2B+more&n=1+1`:                     "q=[redacted]&n=1+1", // a form
		`q=with%20%22space%22%20+%20more`:                       "q=[redacted]",       // + as it is
		`{"u":"p%40ss!word\u00252F1"}`:                          `{"u":"[redacted]"}`,
		`{"u":"https:\/\/a\/?p%40ss%21word\/1"}`:                `{"u":"https:\/\/a\/?[redacted]"}`,
		`p%2540ss!word%252F1`:                                   "[redacted]", // a URL in a URL
		`%7B%22k%22%3A%22with+%5C%22space%5C%22+%2B+more%22%7D`: "%7B%22k%22%3A%22[redacted]%22%7D",
		`p%40ss!word%2F2 %zz %4 %`:                              `p%40ss!word%2F2 %zz %4 %`,
	} {
		if got := RedactText(text, secret); got != want {
			t.Errorf("what is left of %s is %s, want %s", text, got, want)
		}
	}
}

func TestAValueIsRemovedFromJSONInJSON(t *testing.T) {
	secret := Hiding(nil, "line 1\n\"line\" \\2", "abcdefgh")
	for text, want := range map[string]string{
		`{"body":"{\"key\":\"line 1\\n\\\"line\\\" \\\\2\"}"}`: `{"body":"{\"key\":\"[redacted]\"}"}`,
		`{"body":"{\"key\":\"abcd\\u0065fgh\"}"}`:              `{"body":"{\"key\":\"[redacted]\"}"}`,
		`{"body":"{\"key\":\"abcd\u005cu0065fgh\"}"}`:          `{"body":"{\"key\":\"[redacted]\"}"}`,
		`line 1\n\"line\" \\2, line 1\\n\\\"line\\\" \\\\2`:    `[redacted], [redacted]`,
	} {
		if got := RedactText(text, secret); got != want {
			t.Errorf("what is left of %s is %s, want %s", text, got, want)
		}
	}
}

// Values that share their beginnings, in a text of nothing else, are the most work.
func TestTheWorkOfRedactionIsBounded(t *testing.T) {
	var values []string
	for i := range 64 {
		values = append(values, strings.Repeat("a", 8<<10-i)+"b")
	}
	text := strings.Repeat(`a\\u0061%61+%2561`, 16<<10)
	began := time.Now()
	if got := RedactText(text, Hiding(nil, values...)); got != text {
		t.Error("a text without a value was changed")
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("%d bytes took %s", len(text), took)
	}
	short := Hiding(nil, "aaaa", "aaaaa", "aaaaaa")
	if got := RedactText(strings.Repeat("a", 1<<20), short); strings.Contains(got, "aaaa") {
		t.Error("a value is left")
	}
}

// all writes each byte of a text, which must be ASCII.
func all(format string) func(string) string {
	return func(text string) string {
		var b strings.Builder
		for i := range len(text) {
			fmt.Fprintf(&b, format, text[i])
		}
		return b.String()
	}
}

func jsonText(text string) string {
	raw, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(raw[1 : len(raw)-1])
}

var upperHex = regexp.MustCompile(`%[0-9A-F]{2}`)

// writers are the ways in which a server may write a text, each with how it is read.
var writers = []struct {
	write func(string) string
	read  func(string) (string, error)
}{
	{func(s string) string { return s }, func(s string) (string, error) { return s, nil }},
	{jsonText, readJSON},
	{all(`\u%04X`), readJSON},
	{func(s string) string { return strings.ReplaceAll(jsonText(s), "/", `\/`) }, readJSON},
	{url.QueryEscape, url.QueryUnescape},
	{url.PathEscape, url.PathUnescape},
	{all("%%%02X"), url.PathUnescape},
	{func(s string) string { return strings.ReplaceAll(url.PathEscape(s), "%2F", "/") }, url.PathUnescape},
	{func(s string) string {
		return upperHex.ReplaceAllStringFunc(url.QueryEscape(s), strings.ToLower)
	}, url.QueryUnescape},
}

func readJSON(text string) (plain string, err error) {
	err = json.Unmarshal([]byte(`"`+text+`"`), &plain)
	return plain, err
}

// FuzzRedact holds for any value, and texts around it: however two encoders in turn have written the text, who reads it
// as they have written it does not have the value.
func FuzzRedact(f *testing.F) {
	for inner := range writers {
		for outer := range writers {
			f.Add(`p@ss!w"o\r+d/1 <&>`+"\n", "key: ", " (100 + 1)", inner, outer)
		}
	}
	f.Fuzz(func(t *testing.T, value, before, after string, inner, outer int) {
		if len(value) < minHidden || strings.ContainsAny(value, "[]") || strings.Contains(redacted, value) ||
			notASCII(value+before+after) || strings.ContainsAny(before+after, `\%`) {
			return // It is no value of a Secret, or the text is in a form of its own.
		}
		in, out := writers[uint(inner)%uint(len(writers))], writers[uint(outer)%uint(len(writers))]
		left := RedactText(out.write(in.write(before+value+after)), http.Header{noHeader: {value}})
		plain, err := out.read(left)
		if err == nil {
			plain, err = in.read(plain)
		}
		if err != nil && strings.Contains(left, redacted) {
			return // The value was a part of an escape, so that the text cannot be read.
		}
		if strings.Contains(plain, value) || !strings.Contains(plain, redacted) {
			t.Errorf("what is left of %q is %q, with %q", before+value+after, left, value)
		}
	})
}

func notASCII(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool {
		return r < ' ' && !strings.ContainsRune("\n\t\r", r) || r > '~'
	})
}
