package hook

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/capstan-dev/capstan/internal/runtime/pattern"
)

// Matcher restricts a hook to tool calls (HOOK-22). The empty one matches every call.
type Matcher struct {
	// ToolName is the exact name of the tool.
	ToolName string
	// ToolNameGlob is alternatives, separated by |, of which each may end with * for any rest.
	ToolNameGlob string
	// ArgsPath is a path of keys into the arguments, as $.path.to.value.
	ArgsPath string
	// MatchRegex and DenyRegex are searched for in the value at ArgsPath. At most one is set, and they mean the same.
	MatchRegex, DenyRegex string
}

// Compiled is a matcher that is ready for use.
type Compiled struct {
	Matcher
	regex *pattern.Pattern
}

// Compile returns the matcher for use, or why it is invalid (HOOK-03).
func (m Matcher) Compile() (*Compiled, error) {
	if err := m.validateGlob(); err != nil {
		return nil, err
	}
	if len(m.ToolName) > maxNameBytes || len(m.ArgsPath) > maxNameBytes {
		return nil, fmt.Errorf("a name or path of the matcher has more than %d bytes", maxNameBytes)
	}
	source := m.MatchRegex
	switch {
	case m.MatchRegex != "" && m.DenyRegex != "":
		return nil, errors.New("matchRegex and denyRegex of the matcher are both set; set one")
	case m.DenyRegex != "":
		source = m.DenyRegex
	}
	c := &Compiled{Matcher: m}
	if source == "" {
		return c, nil
	}
	if m.ArgsPath == "" {
		return nil, errors.New("the matcher has a regular expression and no argsPath, so that it cannot match")
	}
	var err error
	if c.regex, err = pattern.Compile(source, maxPatternUnits); err != nil {
		return nil, err
	}
	return c, nil
}

const (
	// maxNameBytes bounds the names and paths of a matcher.
	maxNameBytes = 512
	// maxPatternUnits is the most instructions of a regular expression, and maxMatchWork the most instructions times
	// bytes of one search.
	maxPatternUnits = 500
	maxMatchWork    = 20_000_000
)

func (m Matcher) validateGlob() error {
	if len(m.ToolNameGlob) > maxNameBytes {
		return fmt.Errorf("toolNameGlob has %d bytes; the maximum is %d", len(m.ToolNameGlob), maxNameBytes)
	}
	for alternative := range strings.SplitSeq(m.ToolNameGlob, "|") {
		if stem := strings.TrimRight(strings.TrimSpace(alternative), "*"); strings.ContainsAny(stem, "*?[]{}") {
			return fmt.Errorf("toolNameGlob %.64q: only * at the end of an alternative is a wildcard", m.ToolNameGlob)
		}
	}
	return nil
}

// Match reports whether the hook runs at a call of a tool. Arguments are those of the model, as JSON. Where searching
// takes too much work the hook runs: long arguments must not evade it.
func (c *Compiled) Match(tool string, arguments json.RawMessage) bool {
	return c.matchTool(tool) && c.matchArguments(newArguments(arguments))
}

// matchTool reports whether the hook may run at calls of a tool.
func (m Matcher) matchTool(tool string) bool {
	return (m.ToolName == "" || m.ToolName == tool) && (m.ToolNameGlob == "" || m.matchGlob(tool))
}

// matchArguments reports whether the hook runs at a call with these arguments, of a tool that matches.
func (c *Compiled) matchArguments(values *arguments) bool {
	if c.ArgsPath == "" {
		return true
	}
	value := values.at(c.ArgsPath)
	if c.regex == nil {
		return value != ""
	}
	matched, err := c.regex.Match(value, maxMatchWork)
	return matched || err != nil
}

func (m Matcher) matchGlob(tool string) bool {
	for alternative := range strings.SplitSeq(m.ToolNameGlob, "|") {
		alternative = strings.TrimSpace(alternative)
		stem := strings.TrimRight(alternative, "*")
		if alternative == "" {
			continue
		}
		if tool == alternative || (stem != alternative && strings.HasPrefix(tool, stem)) {
			return true
		}
	}
	return false
}
