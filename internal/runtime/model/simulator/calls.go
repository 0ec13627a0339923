package simulator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// plannedCalls returns the calls of one iteration, counted from 0: those of the first conditional rule whose text is in
// the user's message, otherwise those of the sequence, otherwise the fixed ones.
func plannedCalls(calls *v1alpha1.SimulatedToolCalls, input string, index int) []v1alpha1.SimulatedToolCall {
	if calls == nil {
		return nil
	}
	for _, rule := range calls.Conditional {
		if !strings.Contains(input, rule.Contains) {
			continue
		}
		if index >= len(rule.Sequence) {
			return nil
		}
		return rule.Sequence[index].Calls
	}
	if len(calls.Sequence) > 0 {
		return calls.Sequence[index%len(calls.Sequence)].Calls
	}
	return calls.Fixed
}

// callArguments returns the arguments of a call: the raw text as it is, or the object as compact JSON with its keys in
// the order in which they are stored and the placeholders of its strings replaced.
func callArguments(call v1alpha1.SimulatedToolCall, values *expander) (string, error) {
	if call.RawArguments != nil {
		return *call.RawArguments, nil
	}
	if call.Arguments == nil || len(call.Arguments.Raw) == 0 {
		return "{}", nil
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, call.Arguments.Raw); err != nil {
		return "", err
	}
	return expandStrings(compact.String(), values)
}

// expandStrings replaces the placeholders in the strings of compact JSON, but not in its keys. All else stays byte for
// byte.
func expandStrings(compact string, values *expander) (string, error) {
	var out strings.Builder
	for rest := compact; rest != ""; {
		start := strings.IndexByte(rest, '"')
		if start < 0 {
			out.WriteString(rest)
			break
		}
		out.WriteString(rest[:start])
		end := endOfString(rest, start)
		if end < 0 {
			return "", errors.New("unterminated string")
		}
		literal := rest[start:end]
		rest = rest[end:]
		if !strings.HasPrefix(rest, ":") {
			expanded, err := expandLiteral(literal, values)
			if err != nil {
				return "", err
			}
			literal = expanded
		}
		out.WriteString(literal)
	}
	return out.String(), nil
}

// endOfString returns the index after the closing quote of the JSON string that begins at start; -1 when there is none.
func endOfString(text string, start int) int {
	for i := start + 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}

// expandLiteral replaces the placeholders in one JSON string. A string without any stays as it is written.
func expandLiteral(literal string, values *expander) (string, error) {
	var text string
	if err := json.Unmarshal([]byte(literal), &text); err != nil {
		return "", fmt.Errorf("reading the string %s: %w", literal, err)
	}
	if !placeholder.MatchString(text) {
		return literal, nil
	}
	var quoted bytes.Buffer
	encoder := json.NewEncoder(&quoted)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(values.expand(text)); err != nil {
		return "", fmt.Errorf("writing a string: %w", err)
	}
	return strings.TrimSuffix(quoted.String(), "\n"), nil
}
