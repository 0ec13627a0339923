package host

import (
	"fmt"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/internal/runtime/event"
)

// systemPrompt is what the model is told first: what the layers say, what fences mean where there are or may be any,
// and the locale. What changes least comes first, so that providers can keep it.
func systemPrompt(layers, locale string, fences bool) string {
	var blocks []string
	if layers != "" {
		blocks = append(blocks, layers)
	}
	if fences {
		blocks = append(blocks, event.FenceNote)
	}
	if locale != "" {
		blocks = append(blocks, fmt.Sprintf(
			"The user's locale is %s (BCP 47). Answer in that language and by its conventions, unless the user asks for another one.", locale))
	}
	return strings.Join(blocks, "\n\n")
}

// hasToolResult reports whether there is something in a prompt that a tool gave.
func hasToolResult(prompt []event.Message) bool {
	return slices.ContainsFunc(prompt, func(m event.Message) bool { return m.Role == event.RoleToolResult })
}
