package sessionfs

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/capstan-dev/capstan/internal/runtime/pattern"
	"github.com/capstan-dev/capstan/internal/runtime/record"
)

const (
	// maxPatternBytes is the longest pattern, and maxPatternUnits the most instructions that one may be compiled to.
	maxPatternBytes = 256
	maxPatternUnits = 500
	// maxMatches is the most matches of a search, and maxLineBytes the most of a line that is returned.
	maxMatches   = 200
	maxLineBytes = 256
	// maxSearchedBytes is how much of the files one search reads, and maxSearchWork how many instructions of the pattern
	// it may run, about: each byte can take as many as the pattern has.
	maxSearchedBytes = 4 << 20
	maxSearchWork    = 100 << 20
)

// Match is a line of a file that matches a pattern.
type Match struct {
	// Path of the file, and the number of the Line, from 1.
	Path string `json:"path"`
	Line int    `json:"line"`
	// Text of the line, of which a long one is cut off.
	Text string `json:"text"`
}

// Matches is the result of a search.
type Matches struct {
	// Matches in the order of paths and lines.
	Matches []Match `json:"matches"`
	// Incomplete reports whether the search ended at one of its limits.
	Incomplete bool `json:"incomplete,omitempty"`
}

// Grep searches the lines of all text files whose path contains a text (FS-01, FS-05). The pattern is a regular
// expression in the syntax of RE2. Binary files are skipped.
func (fs *FS) Grep(ctx context.Context, text, path string) (*Matches, error) {
	compiled, err := compile(text)
	if err != nil {
		return nil, err
	}
	x, err := fs.Seed(ctx)
	if err != nil {
		return nil, err
	}
	s := &search{pattern: compiled, found: &Matches{Matches: []Match{}}}
	for _, item := range x.Items {
		if item.Kind == kindDirectory || !strings.Contains(item.Key, path) {
			continue
		}
		if s.read += item.Size; s.read > maxSearchedBytes {
			s.found.Incomplete = true
			break
		}
		content, err := fs.store.Load(ctx, fs.scope, item)
		if errors.Is(err, record.ErrNotFound) {
			continue // It was changed or deleted since the search began.
		}
		if err != nil {
			return nil, err
		}
		if IsText(content) && !s.file(ctx, item.Key, content) {
			break
		}
	}
	return s.found, ctx.Err()
}

// compile compiles a pattern that is not too complex.
func compile(text string) (*pattern.Pattern, error) {
	if text == "" || len(text) > maxPatternBytes {
		return nil, Errorf("The pattern has %d bytes; it must have 1 to %d.", len(text), maxPatternBytes)
	}
	compiled, err := pattern.Compile(text, maxPatternUnits)
	if err != nil {
		return nil, Errorf("The search is not made: %s.", err)
	}
	return compiled, nil
}

// search is a search in progress.
type search struct {
	pattern *pattern.Pattern
	found   *Matches
	read    int64
	work    uint64
}

// file searches one file, and reports whether the search goes on.
func (s *search) file(ctx context.Context, path string, content []byte) bool {
	for number := 1; len(content) > 0; number++ {
		line, rest, _ := bytes.Cut(content, []byte("\n"))
		content = rest
		s.work += s.pattern.Work(len(line) + 1)
		if s.work > maxSearchWork || len(s.found.Matches) == maxMatches || ctx.Err() != nil {
			s.found.Incomplete = true
			return false
		}
		// The line is within the limit, which leaves no error.
		if found, err := s.pattern.Match(string(line), maxSearchWork); err == nil && found {
			s.found.Matches = append(s.found.Matches, Match{Path: path, Line: number, Text: cut(line)})
		}
	}
	return true
}

// cut is the beginning of a line.
func cut(line []byte) string {
	line = bytes.TrimSuffix(line, []byte("\r"))
	if len(line) <= maxLineBytes {
		return string(line)
	}
	end := maxLineBytes
	for !utf8.RuneStart(line[end]) {
		end--
	}
	return string(line[:end]) + "..."
}
