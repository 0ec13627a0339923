package step

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/leftout"
)

// systemPrompt is the system prompt for the model: the prompts of the layers, the meaning of fences where there are or
// may be any, and the locale. The most stable parts come first, so that providers can cache them.
func systemPrompt(layers, locale string, fences bool) string {
	if leftout.Is(layers) {
		panic("the system prompt is used before it is read")
	}
	var blocks []string
	if layers != "" {
		blocks = append(blocks, layers)
	}
	if fences {
		blocks = append(blocks, event.FenceNote)
	}
	if locale != "" {
		blocks = append(blocks, fmt.Sprintf(
			"The user's locale is %s (BCP 47). Answer in that language and by its conventions, unless the user asks for "+
				"another one.",
			locale,
		))
	}
	return strings.Join(blocks, "\n\n")
}

// hasToolResult reports whether a prompt has a tool result.
func hasToolResult(prompt []event.Message) bool {
	return slices.ContainsFunc(prompt, func(m event.Message) bool { return m.Role == event.RoleToolResult })
}

// pseudonymBytes is the length of the digest in a pseudonym.
const pseudonymBytes = 16

// pseudonym identifies a Session to model providers, so that they can act against one user instead of all that share an
// API key (LLM-10). It follows from the UID of the Session, which is random: neither a name nor anything else of the
// tenant can be found out from it.
func pseudonym(s journal.Session) string {
	sum := sha256.Sum256([]byte("session\n" + string(s.UID)))
	return hex.EncodeToString(sum[:pseudonymBytes])
}
