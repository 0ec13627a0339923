package tool

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestAPreviewIsOneShortLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "",
		"word":                       "word",
		"  one\n\ttwo\r\n  three \n": "one two three",
		"a\x00b\x1b[31mc":            "a b [31mc",
		"a\xffb":                     "a\uFFFDb",
		strings.Repeat("x", 160):     strings.Repeat("x", 160),
		strings.Repeat("x", 161):     strings.Repeat("x", 157) + "…",
		strings.Repeat("ä", 81):      strings.Repeat("ä", 78) + "…",
		strings.Repeat(" ", 5000):    "…",
	} {
		if got := Preview(text); got != want {
			t.Errorf("%.40q…: got %q, want %q", text, got, want)
		}
	}
}

func FuzzPreview(f *testing.F) {
	f.Add("a\nb", 1)
	f.Fuzz(func(t *testing.T, text string, repeat int) {
		if repeat > 0 && repeat < 1000 {
			text = strings.Repeat(text, repeat)
		}
		got := Preview(text)
		if len(got) > MaxPreviewBytes || !utf8.ValidString(got) || strings.ContainsAny(got, "\n\r\t\x00") {
			t.Errorf("%q became %q", text, got)
		}
	})
}

func TestAResultIsCutOnce(t *testing.T) {
	long := strings.Repeat("äx", MaxResultBytes)
	cut := CutResult(long)
	if len(cut) > MaxResultBytes || !strings.HasPrefix(long, cut[:1000]) || CutResult(cut) != cut {
		t.Errorf("%d bytes became %d", len(long), len(cut))
	}
	if got := CutResult("short"); got != "short" {
		t.Errorf("got %q", got)
	}
}

func TestTheTextsTellTheEndingsApart(t *testing.T) {
	texts := []string{
		NotExecutedText("why"),
		UnknownText("why"),
		outputLostText("why"),
		InterruptedText("why"),
		ArgumentsTooLarge(100_000),
	}
	for i, text := range texts {
		if i < 4 && !strings.Contains(text, ": why. ") {
			t.Errorf("the reason is not in %q", text)
		}
		for j, other := range texts {
			if i != j && text[:30] == other[:30] {
				t.Errorf("%q is like %q", text, other)
			}
		}
	}
	for text, safe := range map[string]bool{
		NotExecutedText(""): true, InterruptedText(""): true, UnknownText(""): false, outputLostText(""): false,
	} {
		if again := strings.Contains(text, "safe to call it again") ||
			strings.Contains(text, "may be called again"); again != safe {
			t.Errorf("%q: may be called again: %v", text, again)
		}
		if strings.Contains(text, ":") || strings.Contains(text, "..") {
			t.Errorf("without a reason the text is %q", text)
		}
	}
	if got := NotExecutedText(" It broke. "); !strings.HasPrefix(got, "The tool was not executed: It broke. It has") {
		t.Errorf("the text is %q", got)
	}
}
