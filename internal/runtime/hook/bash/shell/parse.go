package shell

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// errNesting is why a script is not parsed to its end.
var errNesting = errors.New("it is nested too deeply")

// Check returns why a script is not valid; nil if it is.
func Check(command string) error {
	_, err := parse(command)
	return err
}

func parse(command string) (*syntax.File, error) {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(newBounded(command), "hook")
	if err != nil {
		return nil, fmt.Errorf("the script is not valid: %w", err)
	}
	return file, nil
}

// maxFrames is how many calls a parser may be deep when it reads on. It calls itself about ten times for a level of
// nesting, and reads 1 KiB at a time, so that its stack stays below a few MiB.
const maxFrames = 1000

// bounded is a script for a parser. Reading it fails once the parser has called itself too often.
type bounded struct {
	io.Reader
	// deepest is the depth of the stack from which on it fails.
	deepest int
}

func newBounded(script string) *bounded {
	var callers [maxFrames]uintptr
	return &bounded{strings.NewReader(script), runtime.Callers(0, callers[:]) + maxFrames}
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	var caller [1]uintptr
	if runtime.Callers(b.deepest, caller[:]) > 0 {
		return 0, errNesting
	}
	return b.Reader.Read(p)
}
