package builtin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
)

// Error is an error of a tool whose text the model is shown.
type Error struct{ text string }

// Error implements error.
func (e *Error) Error() string { return e.text }

// Errorf returns an error whose text the model is shown.
func Errorf(format string, args ...any) error {
	return &Error{text: fmt.Sprintf(format, args...)}
}

// Run carries out a call that was planned with a definition, and returns its outcome (TOOL-05). The error is the cause
// of an outcome that keeps it from the model; it is for logs.
func Run(
	ctx context.Context, d *definition.Definition, planned v1alpha1.ToolCall, call Call,
) (outcome tool.Outcome, defect error) {
	t, known := toolOf(d)
	if !known {
		return tool.Changed(), nil
	}
	defer func() {
		if p := recover(); p != nil {
			outcome, defect = internalError(planned), fmt.Errorf("tool %s panicked: %v\n%s", t.Name, p, debug.Stack())
		}
	}()
	value, err := t.Run(ctx, call)
	var text string
	if err == nil {
		text, err = encode(value)
	}
	var shown *Error
	switch {
	case errors.As(err, &shown):
		return failed(shown.Error()), nil
	case err != nil:
		return internalError(planned), fmt.Errorf("tool %s failed: %w", t.Name, err)
	default:
		return returned(text), nil
	}
}

// encode writes a result as JSON, without the escapes that are for HTML.
func encode(value any) (string, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "", err
	}
	return strings.TrimSuffix(text.String(), "\n"), nil
}
