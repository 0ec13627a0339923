package excerpt

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestAnExcerptEndsAtACharacter(t *testing.T) {
	for n := range 10 {
		got := Of("äöü€😀"+strings.Repeat("x", 20), 10+n)
		if len(got) > 10+n || !utf8.ValidString(got) || !strings.HasSuffix(got, "…") {
			t.Errorf("cut to %d: %q", 10+n, got)
		}
	}
	if got := Of("short", 5); got != "short" {
		t.Errorf("a text that fits was cut: %q", got)
	}
}

func FuzzEncoded(f *testing.F) {
	f.Add("plain text", 8)
	f.Add(strings.Repeat("<&>", 40), 64)
	f.Add("\x00\u2028\xff\xfe😀\"\\", 12)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		limit = 8 + max(limit, -limit, 0)%300
		got := Encoded(text, limit)
		raw, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if size := len(raw) - len(`""`); size > limit {
			t.Fatalf("Encoded(%q, %d) = %q takes %d bytes", text, limit, got, size)
		}
		raw, err = json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		if size := len(raw) - len(`""`); size <= limit && got != text && utf8.ValidString(text) {
			t.Fatalf("Encoded(%q, %d) = %q although it takes only %d bytes", text, limit, got, size)
		}
		if head, isCut := strings.CutSuffix(
			got,
			"…",
		); isCut && got != text &&
			!strings.HasPrefix(strings.ToValidUTF8(text, ""), head) {
			t.Fatalf("Encoded(%q, %d) = %q is not its beginning", text, limit, got)
		}
	})
}

func TestAHeadContinuesWhereItEnds(t *testing.T) {
	const whole = "a\xff äöü€😀 and more"
	for limit := range len(whole) + 2 {
		head := Head(whole, limit)
		if len(head) > limit || !strings.HasPrefix(whole, head) || limit >= len(whole) && head != whole {
			t.Errorf("the head of %d bytes is %q", limit, head)
		}
		if rest := whole[len(head):]; rest != "" && !utf8.RuneStart(rest[0]) {
			t.Errorf("after %d bytes %q begins within a character", len(head), rest)
		}
		if len(head) < limit-utf8.UTFMax+1 && head != whole {
			t.Errorf("the head of %d bytes has only %d", limit, len(head))
		}
	}
}
