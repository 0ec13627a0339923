package result

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// shown returns what is shown of a log that arrives in pieces of a size.
func shown(log string, size int) (text string, ended bool) {
	var s Shown
	for log != "" {
		piece, more := s.Next([]byte(log[:min(size, len(log))]))
		text += piece
		if !more {
			return text, true
		}
		log = log[min(size, len(log)):]
	}
	return text, false
}

// Rules: CTX-04.
func TestWhatAToolShowsEndsAtTheFirstFrame(t *testing.T) {
	report := success(strings.Repeat("secret", 1000))
	report.Files = &Files{Files: []File{{Path: "/a", Content: []byte("secret")}}}
	_, frames := report.Encode(testNonce)
	onlyFiles := success("x")
	onlyFiles.Files = report.Files
	_, filesFrame := onlyFiles.Encode(testNonce)
	for name, c := range map[string]struct {
		log, want string
		ended     bool
	}{
		"nothing":                {"", "", false},
		"no frame":               {"one\ntwo", "one\ntwo", false},
		"a result":               {"one\n" + string(frames), "one\n\n", true},
		"files":                  {"one" + string(filesFrame), "one\n", true},
		"a frame alone":          {string(frames), "\n", true},
		"a mark within a line":   {"x " + string(filesFrame[1:]), "x " + string(filesFrame[1:]), false},
		"a mark without a nonce": {"capstan-result of today\n", "capstan-result of today\n", false},
		"a mark without length":  {"capstan-result " + testNonce + " \nx", "capstan-result " + testNonce + " \nx", false},
		"a mark with more": {
			"capstan-files " + testNonce + " 123456789\nx", "capstan-files " + testNonce + " 123456789\nx", false,
		},
		"characters":    {"äöü€😀\n", "äöü€😀\n", false},
		"invalid UTF-8": {"a\xffb\n", "a\uFFFDb\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{1, 2, 3, 7, 100, 1 << 20} {
				text, ended := shown(c.log, size)
				if text != c.want || ended != c.ended {
					t.Errorf("in pieces of %d: %.200q, ended %t", size, text, ended)
				}
			}
		})
	}
}

// A line that may become a frame is held until it is known to be none.
func TestTextIsShownAsSoonAsItIsKnown(t *testing.T) {
	var s Shown
	for _, step := range []struct{ log, want string }{
		{"ca", ""},
		{"n", "can"},
		{"\n", "\n"},
		{"capstan-re", ""},
		{"port\n", "capstan-report\n"},
		{"50%", "50%"},
		{"\xe2\x82", ""},
		{"\xac", "€"},
	} {
		if text, more := s.Next([]byte(step.log)); text != step.want || !more {
			t.Errorf("%q shows %q, not %q", step.log, text, step.want)
		}
	}
}

func FuzzShown(f *testing.F) {
	f.Add("one\ncapstan-result x", 3)
	f.Fuzz(func(t *testing.T, log string, size int) {
		text, _ := shown(log, max(size, 1))
		if !utf8.ValidString(text) {
			t.Errorf("%q shows %q", log, text)
		}
	})
}
