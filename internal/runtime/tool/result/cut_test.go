package result

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestWhatFitsIsNotCut(t *testing.T) {
	for _, text := range []string{"", "x", strings.Repeat("ä", MaxResultBytes/2), strings.Repeat("x", MaxResultBytes)} {
		if got, cut := Cut([]byte(text), int64(len(text))); got != text || cut {
			t.Errorf("%d bytes became %d, cut %v", len(text), len(got), cut)
		}
		if output, cut := Uncut(text); output != text || cut {
			t.Errorf("%d bytes count as cut: %d, %v", len(text), len(output), cut)
		}
	}
}

// Rules: TOOL-19.
func TestWhatDoesNotFitIsCutWithANote(t *testing.T) {
	for name, c := range map[string]struct {
		output string
		total  int64
		rune   string
	}{
		"one byte too many":          {strings.Repeat("x", MaxResultBytes+1), 0, "x"},
		"narrow runes":               {strings.Repeat("x", 200_000), 0, "x"},
		"wide runes":                 {strings.Repeat("\U0001F600", 50_000), 0, "\U0001F600"},
		"the start of more":          {strings.Repeat("x", 100), 1 << 40, "x"},
		"a start that cuts a rune":   {strings.Repeat("€", 100)[:299], 1 << 40, "€"},
		"invalid bytes that grow":    {strings.Repeat("\xffa", 30_000), 0, "\uFFFD"},
		"a start of invalid bytes":   {strings.Repeat("\xff", 30_000), 40_000, "\uFFFD"},
		"the start of a wide stream": {strings.Repeat("€", 30_000)[:MaxResultBytes+4], 90_000, "€"},
	} {
		t.Run(name, func(t *testing.T) {
			got, cut := Cut([]byte(c.output), c.total)
			if !cut || len(got) > MaxResultBytes || !utf8.ValidString(got) || !strings.HasPrefix(got, c.rune) {
				t.Fatalf("cut %v, %d bytes", cut, len(got))
			}
			total := max(c.total, int64(len(c.output)))
			head, note, found := strings.Cut(got, "\n\n[Output cut: ")
			if !found || !strings.Contains(note, strconv.FormatInt(total, 10)) ||
				!strings.Contains(note, strconv.Itoa(len(head))) {
				t.Errorf("%d bytes with the note %q", len(head), note)
			}
			if output, cut := Uncut(got); output != head || !cut {
				t.Errorf("without its note it is %.100q, cut %v", output, cut)
			}
			if strings.Trim(head, c.rune+"a") != "" {
				t.Errorf("a rune was cut in two: %q", head[len(head)-8:])
			}
		})
	}
}

// Rules: TOOL-19.
func TestCuttingUsesTheRoomThereIs(t *testing.T) {
	got, _ := Cut([]byte(strings.Repeat("x", 200_000)), 0)
	if len(got) < MaxResultBytes-2 {
		t.Errorf("the result has %d bytes", len(got))
	}
}

// Rules: TOOL-19.
func FuzzCut(f *testing.F) {
	f.Add([]byte("text"), int64(4), 1)
	f.Add([]byte("€\xff"), int64(0), 40_000)
	f.Fuzz(func(t *testing.T, output []byte, total int64, repeat int) {
		if repeat > 1 && len(output) > 0 && repeat*len(output) < 4*MaxResultBytes {
			output = []byte(strings.Repeat(string(output), repeat))
		}
		got, cut := Cut(output, total)
		if len(got) > MaxResultBytes || !utf8.ValidString(got) {
			t.Fatalf("%d bytes, valid %v", len(got), utf8.ValidString(got))
		}
		if cut != strings.Contains(got, "[Output cut: ") && !strings.Contains(string(output), "[Output cut: ") {
			t.Errorf("cut %v, %q", cut, got)
		}
		if again, cutAgain := Cut([]byte(got), int64(len(got))); again != got || cutAgain {
			t.Error("a cut result is cut again")
		}
	})
}

func FuzzHeadAndTail(f *testing.F) {
	f.Add("a€b", 2)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		s = strings.ToValidUTF8(s, "\uFFFD")
		head, tail := Head(s, limit), Tail(s, limit)
		if !strings.HasPrefix(s, head) || !strings.HasSuffix(s, tail) || !utf8.ValidString(head) || !utf8.ValidString(tail) {
			t.Errorf("%q at %d: head %q, tail %q", s, limit, head, tail)
		}
		room := max(limit, 0)
		if len(head) > room || len(tail) > room || (len(s) > room && len(head)+utf8.UTFMax <= room) ||
			(len(s) > room && len(tail)+utf8.UTFMax <= room) {
			t.Errorf("%q at %d: head %q, tail %q", s, limit, head, tail)
		}
	})
}

func TestWhatHasNoEndIsCutWithANote(t *testing.T) {
	for name, output := range map[string]string{
		"a short start":       "begin€"[:7],
		"as much as there is": strings.Repeat("€", MaxResultBytes),
		"invalid bytes":       strings.Repeat("\xff", MaxResultBytes),
	} {
		got := CutOpen([]byte(output))
		head, note, found := strings.Cut(got, "\n\n[Output cut: ")
		if output, cut := Uncut(got); output != head || !cut {
			t.Errorf("%s: without its note it is %.100q, cut %v", name, output, cut)
		}
		if !found || len(got) > MaxResultBytes || !utf8.ValidString(got) ||
			!strings.Contains(note, strconv.Itoa(len(head))+" bytes, and there are more") {
			t.Errorf("%s: %d bytes with the note %q", name, len(head), note)
		}
	}
	if got := CutOpen([]byte("begin€"[:7])); !strings.HasPrefix(got, "begin\n") {
		t.Errorf("a broken rune is left: %.20q", got)
	}
}

// Rules: TOOL-19.
func TestTheNoteAboutAKeptOutputHasItsPath(t *testing.T) {
	for name, c := range map[string]struct {
		output string
		total  int64
		text   bool
		want   string
	}{
		"a text":        {strings.Repeat("ä", 50_000), 100_000, true, "It is complete in the file /o: read on with"},
		"a part of one": {strings.Repeat("x", 100_000), 1 << 30, true, "Its first 100000 bytes are in the file /o: read on"},
		"no known end":  {strings.Repeat("x", 100_000), -1, true, "bytes, and there are more. Its first 100000 bytes are"},
		"not a text":    {strings.Repeat("\x00", 100_000), 100_000, false, "in the file /o: it is not a text.]"},
	} {
		got := CutKept([]byte(c.output), c.total, "/o", c.text)
		head, note, _ := strings.Cut(got, "\n\n[Output cut: ")
		if len(got) > MaxResultBytes || len(got) < MaxResultBytes-4 || !strings.Contains(note, c.want) {
			t.Errorf("%s: %d bytes with the note %q", name, len(got), note)
		}
		if c.text && !strings.Contains(note, "byte_offset "+strconv.Itoa(len(head))+", or") {
			t.Errorf("%s: the note %q does not continue at byte %d", name, note, len(head))
		}
		if output, cut := Uncut(got); output != head || !cut {
			t.Errorf("%s: without its note it is %.100q, cut %v", name, output, cut)
		}
	}
}
