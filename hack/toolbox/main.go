// Command toolbox holds the sample tools of the demos and tests, all in one static program for one small image.
//
// A tool reads its arguments as JSON from the standard input and prints its result. Which tool runs is the name the
// program is called by, or else its first argument: `toolbox word-count`.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Exit codes beyond those a tool chooses itself.
const (
	exitFailed = 1
	exitUsage  = 2
)

// streams are the input and outputs of a tool.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// tool runs once and returns nil, an exitCode, or another error.
type tool func(streams) error

// exitCode ends the program with that code and no further word.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

var tools = map[string]tool{
	"append":     appendLine,
	"calculate":  calculate,
	"count":      count,
	"echo":       echo,
	"emit":       emit,
	"env":        printEnv,
	"fail":       fail,
	"fork":       fork,
	"memory":     useMemory,
	"report":     report,
	"sha256":     digest,
	"signal":     raise,
	"sleep":      sleep,
	"weather":    weather,
	"word-count": wordCount,

	// The process that fork leaves running; nothing else calls it.
	backgroundTool: writeInBackground,
}

func main() {
	os.Exit(run(os.Args, streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}))
}

// run finds the tool, runs it, and returns the program's exit code.
func run(args []string, s streams) int {
	selected, found := tools[filepath.Base(args[0])]
	if !found && len(args) > 1 {
		selected, found = tools[args[1]]
	}
	if !found {
		names := slices.Sorted(maps.Keys(tools))
		names = slices.DeleteFunc(names, func(name string) bool { return name == backgroundTool })
		fmt.Fprintf(s.err, "usage: toolbox TOOL <ARGUMENTS.json\ntools: %s\n", strings.Join(names, ", "))
		return exitUsage
	}
	err := selected(s)
	var code exitCode
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	default:
		fmt.Fprintln(s.err, err)
		return exitFailed
	}
}

// arguments reads a tool's arguments. Empty input stands for an empty object; unknown names are not an error, because a
// tool may be called by a newer definition of it.
func arguments[T any](s streams) (T, error) {
	var parsed T
	content, err := io.ReadAll(s.in)
	if err != nil {
		return parsed, fmt.Errorf("reading the arguments: %w", err)
	}
	if strings.TrimSpace(string(content)) == "" {
		return parsed, nil
	}
	if err := json.Unmarshal(content, &parsed); err != nil {
		return parsed, fmt.Errorf("the arguments are not what this tool takes: %w", err)
	}
	return parsed, nil
}
