package text_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/capstan-dev/capstan/internal/cli/text"
)

// attacks are texts that do something to a terminal, or hide what they say.
var attacks = map[string][2]string{
	"a color":              {"\x1b[31mred", `\x1b[31mred`},
	"a title":              {"\x1b]0;title\x07", `\x1b]0;title\x07`},
	"the clipboard":        {"\x1b]52;c;cm0gLXJm\x07", `\x1b]52;c;cm0gLXJm\x07`},
	"a hyperlink":          {"\x1b]8;;http://x\x1b\\y", `\x1b]8;;http://x\x1b\y`},
	"C1, in UTF-8":         {"\u009b31mred", `\u009b31mred`},
	"C1, as a byte":        {"\x9b31mred", `\x9b31mred`},
	"an overwritten line":  {"rm -rf /\rls", `rm -rf /\rls`},
	"backspaces":           {"evil\b\b\b\bgood", `evil\x08\x08\x08\x08good`},
	"a line feed":          {"one\ntwo", `one\ntwo`},
	"a vertical tab":       {"one\vtwo\f", `one\x0btwo\x0c`},
	"DEL":                  {"a\x7f", `a\x7f`},
	"reversed text":        {"\u202egnp.exe\u202c", `\u202egnp.exe\u202c`},
	"an isolate":           {"\u2067x\u2069", `\u2067x\u2069`},
	"a mark of direction":  {"a\u200fb\u061c", `a\u200fb\u061c`},
	"a separator of lines": {"a\u2028b\u2029", `a\u2028b\u2029`},
	"invisible characters": {"a\u200bb\u2060\ufeff", `a\u200bb\u2060\ufeff`},
	"tags":                 {"a\U000e0061", `a\U000e0061`},
	"variation selectors":  {"a\ufe01\U000e0101", `a\ufe01\U000e0101`},
	"hyphens and fillers":  {"a\u00adb\u3164", `a\u00adb\u3164`},
	"invalid UTF-8":        {"a\xff\xc3", `a\xff\xc3`},
	"a tab":                {"a\tb", `a    b`},
	"plain text":           {"Grüße, 世界 👩‍👩‍👧 שלום", "Grüße, 世界 👩‍👩‍👧 שלום"},
}

func TestEscape(t *testing.T) {
	for name, attack := range attacks {
		t.Run(name, func(t *testing.T) {
			if got := text.Escape(attack[0]); got != attack[1] {
				t.Errorf("got %q, want %q", got, attack[1])
			}
			if got := text.Escape(attack[1]); got != attack[1] {
				t.Errorf("escaping twice: got %q, want %q", got, attack[1])
			}
		})
	}
}

// TestNothingPassesAPrinter: whatever a line, a block, a table or a chunk has, a terminal gets our own colors only.
func TestNothingPassesAPrinter(t *testing.T) {
	for name, attack := range attacks {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			p := text.Printer{Out: &out, Color: true}
			evil := attack[0]
			for _, lines := range [][]text.Line{
				{text.Of(text.Bad, evil), {{Style: text.Plain, Text: evil}}},
				text.Block(text.Span{Style: text.Good, Text: evil}, 5, text.Plain, evil, text.Bound{}),
				text.Table([][]string{{evil, "x"}, {"y", evil}}),
			} {
				if err := p.Lines(lines...); err != nil {
					t.Fatal(err)
				}
			}
			if err := p.Chunk(text.Plain, "  ", evil); err != nil {
				t.Fatal(err)
			}
			rest := out.String()
			for _, style := range []text.Style{text.Bad, text.Good, text.Strong} {
				rest = strings.ReplaceAll(rest, "\x1b["+string(style)+"m", "")
			}
			rest = strings.ReplaceAll(rest, "\x1b[0m", "")
			if at := strings.IndexFunc(rest, func(r rune) bool {
				return r != '\n' && (unicode.IsControl(r) || r == unicode.ReplacementChar || unicode.Is(unicode.Bidi_Control, r))
			}); at >= 0 {
				t.Errorf("the terminal gets %q", rest)
			}
		})
	}
}

func TestEscapeJSONKeepsTheValue(t *testing.T) {
	for name, attack := range attacks {
		t.Run(name, func(t *testing.T) {
			raw, err := json.Marshal(map[string]string{"a": attack[0]})
			if err != nil {
				t.Fatal(err)
			}
			escaped := text.EscapeJSON(raw)
			if shown := string(escaped); text.Escape(shown) != shown {
				t.Errorf("unsafe: %q", shown)
			}
			var want, got any
			if err := json.Unmarshal(raw, &want); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(escaped, &got); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("got %v, %v, want %v", got, err, want)
			}
		})
	}
}

func TestABlockIsBounded(t *testing.T) {
	for name, test := range map[string]struct {
		content string
		bound   text.Bound
		want    []string
	}{
		"short":           {"a\nb\n", text.Bound{Lines: 2, Bytes: 9}, []string{"x  a", "   b"}},
		"many lines":      {"a\nb\nc\nd", text.Bound{Lines: 2}, []string{"x  a", "   b", "   … 4 bytes more"}},
		"a long line":     {"äöü", text.Bound{Bytes: 3}, []string{"x  ä", "   … 4 bytes more"}},
		"no bound":        {"a\nb\nc", text.Bound{}, []string{"x  a", "   b", "   c"}},
		"lines of DOS":    {"a\r\nb", text.Bound{}, []string{"x  a", "   b"}},
		"nothing at all":  {"", text.Bound{Lines: 1}, []string{"x  "}},
		"exactly as many": {"a\nb", text.Bound{Lines: 2}, []string{"x  a", "   b"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, line := range text.Block(text.Span{Text: "x"}, 3, text.Plain, test.content, test.bound) {
				got = append(got, line.String())
			}
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func FuzzEscape(f *testing.F) {
	for _, attack := range attacks {
		f.Add(attack[0])
	}
	f.Fuzz(func(t *testing.T, s string) {
		escaped := text.Escape(s)
		if strings.ContainsFunc(escaped, unicode.IsControl) || text.Escape(escaped) != escaped {
			t.Errorf("%q becomes %q", s, escaped)
		}
	})
}
