package title

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// Rules: SVC-01, CTX-02.
func TestATitleIsOneShortLine(t *testing.T) {
	for text, want := range map[string]string{
		"Weather in Oslo":                    "Weather in Oslo",
		"\n\n  \"Weather in Oslo\"  \nMore.": "Weather in Oslo",
		"# **Weather\tin\u00a0Oslo**":        "Weather in Oslo",
		"„Wetter in Zürich“":                 "Wetter in Zürich",
		"a\x00b\x1b[31mc\u202ed":             "a b [31mc d",
		"":                                   "",
		" \n\t\r\n\x00":                      "",
		"\"\"":                               "",
		strings.Repeat("é", MaxRunes):        strings.Repeat("é", MaxRunes),
		strings.Repeat("é", MaxRunes+1):      strings.Repeat("é", MaxRunes-1) + "…",
		"bad \xff bytes":                     "bad \ufffd bytes",
	} {
		if got := Of(text); got != want {
			t.Errorf("%q becomes %q, not %q", text, got, want)
		}
	}
}

func FuzzOf(f *testing.F) {
	f.Add("Weather\nin Oslo")
	f.Add(strings.Repeat("é ", 100))
	f.Fuzz(func(t *testing.T, text string) {
		got := Of(text)
		if !utf8.ValidString(got) || utf8.RuneCountInString(got) > MaxRunes ||
			strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) && r != unicode.ReplacementChar }) {
			t.Errorf("%q", got)
		}
	})
}

// The model reads a bounded part of both texts, in a fence, and has no tools.
func TestTheRequestIsBounded(t *testing.T) {
	r := Request(strings.Repeat("m", 1<<20), strings.Repeat("r", 1<<20))
	if len(r.Messages) != 1 || len(r.Tools) > 0 {
		t.Fatalf("%d messages, %d tools", len(r.Messages), len(r.Tools))
	}
	text := r.Messages[0].PlainText()
	if n := len(text); n > 2*maxTextBytes+1024 {
		t.Errorf("%d bytes", n)
	}
	if !strings.Contains(text, "User: mmm") || !strings.Contains(text, "Assistant: rrr") {
		t.Error(text[:100])
	}
}

func TestTheConfigurationIsOptional(t *testing.T) {
	if p, err := Parse(""); err != nil || p.Model != "" {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := Parse(`{"modelRef":{"name":"small"}}`); err != nil || p.Model != "small" {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := Parse(`{"modelRef":1}`); err == nil {
		t.Error("accepted")
	}
}
