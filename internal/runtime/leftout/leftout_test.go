package leftout

import (
	"strings"
	"testing"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

func TestAMarkIsNoTextOfTheAPIServer(t *testing.T) {
	mark := Mark(70000, "a note with 3 spaces")
	if !Is(mark) || utf8.ValidString(mark) || Bytes(mark) != 70000 {
		t.Errorf("the mark %q stands for %d bytes", mark, Bytes(mark))
	}
	if note, ok := Note(mark); !ok || note != "a note with 3 spaces" {
		t.Errorf("the note is %q, %v", note, ok)
	}
	for _, text := range []string{"", "70000 a note", "\ufffd70000 "} {
		if _, ok := Note(text); ok || Is(text) || Bytes(text) != 0 {
			t.Errorf("%q is taken for a mark", text)
		}
	}
}

func TestTheSizeOfAValueCountsItsTexts(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	for name, value := range map[string]any{
		"a string":          long,
		"a pointer":         &long,
		"JSON":              v1alpha1.JSON{Raw: []byte(long)},
		"a list":            v1alpha1.JobTool{Args: []string{long}},
		"a key of a map":    metav1.ObjectMeta{Labels: map[string]string{long: ""}},
		"a value of a map":  metav1.ObjectMeta{Labels: map[string]string{"": long}},
		"a field below one": &v1alpha1.Tool{Spec: v1alpha1.ToolSpec{HTTP: &v1alpha1.HTTPTool{URL: long}}},
	} {
		if got := Size(value); got < 10_000 || got > 13_000 {
			t.Errorf("%s of 10,000 bytes counts as %d", name, got)
		}
	}
	if got := Size(v1alpha1.ToolSpec{}); got > 1<<10 {
		t.Errorf("an empty spec counts as %d bytes", got)
	}
}
