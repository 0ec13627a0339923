package diagnosis

import (
	"strings"

	"github.com/capstan-dev/capstan/internal/cli/text"
)

// Level is how bad a finding is.
type Level string

// The levels.
const (
	// Fine: there is nothing to do.
	Fine Level = "ok"
	// Unknown: the user may not read what it takes to know.
	Unknown Level = "unknown"
	// Notable: it may be intended.
	Notable Level = "note"
	// Wrong: it must be mended.
	Wrong Level = "WRONG"
)

// Finding is the result of one check.
type Finding struct {
	Level Level
	// Subject that was checked.
	Subject string
	// Message is what was found.
	Message string
	// Mend are the commands that mend it; none if there is nothing to mend.
	Mend []string
}

// Section is a group of findings.
type Section struct {
	Name     string
	Findings []Finding
}

// Healthy reports whether nothing is wrong.
func Healthy(sections []Section) bool {
	for _, s := range sections {
		for _, f := range s.Findings {
			if f.Level == Wrong {
				return false
			}
		}
	}
	return true
}

// The widths of the columns.
const (
	levelWidth   = 9
	subjectWidth = 22
)

// Lines show sections.
func Lines(sections []Section) []text.Line {
	var lines []text.Line
	for i, s := range sections {
		if i > 0 {
			lines = append(lines, nil)
		}
		lines = append(lines, text.Of(text.Strong, s.Name))
		for _, f := range s.Findings {
			lines = append(lines, f.lines()...)
		}
	}
	return lines
}

func (f Finding) lines() []text.Line {
	style := map[Level]text.Style{Fine: text.Good, Unknown: text.Faint, Notable: text.Notice, Wrong: text.Bad}[f.Level]
	level := text.Span{Style: style, Text: text.Pad(string(f.Level), levelWidth)}
	indent := text.Span{Text: strings.Repeat(" ", levelWidth)}
	label := text.Span{Text: text.Pad(f.Subject, subjectWidth) + " "}
	var lines []text.Line
	for i, line := range text.Block(label, subjectWidth+1, text.Plain, f.Message, text.Bound{Lines: 10, Bytes: 2048}) {
		if i == 0 {
			lines = append(lines, append(text.Line{level}, line...))
			continue
		}
		lines = append(lines, append(text.Line{indent}, line...))
	}
	for _, command := range f.Mend {
		lines = append(lines, text.Line{
			indent, {Text: strings.Repeat(" ", subjectWidth+1)}, {Style: text.Strong, Text: command},
		})
	}
	return lines
}
