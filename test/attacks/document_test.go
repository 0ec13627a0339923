package attacks_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
)

// head is the beginning of the document.
const head = `# Attempts to escape

<!-- Written by make attacks. Do not edit. -->

Everything that a hostile tenant, a model that it has talked over, or a hostile server can write is tried here against
the manager: %d attempts on %d parts of it. Each ends by itself, within bounds of time and memory, and shows nothing of
the host, of a Secret or of an internal server. While it runs, and after it, another tenant does the same thing as usual
and gets what it expects. ` +
	"`make attacks` makes the attempts and writes this page; `make test` makes them as well, and" + `
fails if one has another end or exceeds its bounds.

*Refused* attempts end with an error for their author or for the model. The others are *harmless*: they end, and have
only what belongs to them. The memory is the most that the heap of the manager has grown by, and the most of a process
for scripts; the bounds are %d MiB and %d MiB, unless the test states another one. Times include those of the other
tenant, and the machine of these figures was shared with other work.

`

// page is the document.
func page(rows []row, subjects int) string {
	return fmt.Sprintf(head, len(rows), subjects, most>>20, mostRunner>>20) + table(rows)
}

// table is the rows as Markdown, with a heading for each subject.
func table(rows []row) string {
	var b strings.Builder
	last := ""
	for _, r := range rows {
		if r.subject != last {
			if last != "" {
				b.WriteString("\n")
			}
			fmt.Fprintf(&b, "## %s\n\n| class | attempt | end | time | manager | runner |\n", r.subject)
			b.WriteString("| --- | --- | --- | --- | --- | --- |\n")
			last = r.subject
		}
		own := "-"
		if r.runs {
			own = mebibytes(r.runner)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", r.class, cell(r.attempt), r.ends,
			r.took.Round(10*time.Millisecond), mebibytes(r.manager), own)
	}
	return b.String()
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// shownBytes is how much of an attempt the table shows.
const shownBytes = 72

// cell is the name of an attempt in a table. Names that are no sentences are scripts and expressions.
func cell(name string) string {
	text := strings.Join(strings.Fields(strings.ToValidUTF8(name, "?")), " ")
	if len(text) > shownBytes {
		text = strings.ToValidUTF8(text[:shownBytes], "") + "..."
	}
	text = strings.ReplaceAll(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text), "|", `\|`)
	if !strings.ContainsAny(text, "`$<>{}[]()*_/=;~!@#^&\\") {
		return text
	}
	if strings.Contains(text, "`") {
		return "`` " + text + " ``"
	}
	return "`" + text + "`"
}

// listed are the attempts as the document has them, by subject.
func listed(subjects []subject) map[string][]string {
	all := map[string][]string{}
	for _, s := range subjects {
		for _, c := range s.classes {
			for _, a := range c.attempts {
				all[s.name] = append(all[s.name], c.name+" | "+cell(a.name))
			}
		}
	}
	return all
}

// checkDocument compares the attempts with those of the document.
func checkDocument(t *testing.T, want map[string][]string) {
	t.Helper()
	written, err := os.ReadFile(document)
	must(t, err)
	got, subject := map[string][]string{}, ""
	for line := range strings.Lines(string(written)) {
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, "## "); ok {
			subject = name
		}
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| ---") || strings.HasPrefix(line, "| class") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if len(cells) < 6 {
			t.Errorf("the line %q of the document is no row", line)
			continue
		}
		got[subject] = append(got[subject], strings.Join(cells[:len(cells)-4], " | "))
	}
	for name, rows := range want {
		if !slices.Equal(rows, got[name]) {
			t.Errorf("the attempts on %s are not those of docs/attacks.md: run make attacks", name)
		}
	}
	if len(got) != len(want) {
		t.Errorf("docs/attacks.md has %d subjects, want %d: run make attacks", len(got), len(want))
	}
}
