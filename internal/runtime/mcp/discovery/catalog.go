package discovery

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/credential"
	"github.com/capstan-dev/capstan/internal/runtime/excerpt"
	"github.com/capstan-dev/capstan/internal/runtime/mcp"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
	"github.com/capstan-dev/capstan/internal/runtime/tool/inputschema"
	"github.com/capstan-dev/capstan/internal/runtime/tool/readiness"
)

const (
	// MaxTools is the maximum number of tools of an MCPServer.
	MaxTools = 128
	// MaxBytes is the maximum size of their definitions.
	MaxBytes = 256 << 10

	// maxNameBytes is the maximum length of the name of a tool at its server.
	maxNameBytes = 128
	// maxTitleBytes and maxDescriptionBytes are the lengths to which these texts are cut, as those of Tools.
	maxTitleBytes       = 64
	maxDescriptionBytes = 4096
	// digestDigits is the length of the digest of a definition: 160 bits.
	digestDigits = 40
	// maxNamed is how many of the tools that are left out are named.
	maxNamed = 5
)

// entry is the definition of one tool, in the form in which it is stored.
type entry struct {
	Name        string              `json:"name"`
	Digest      string              `json:"digest"`
	Title       string              `json:"title,omitempty"`
	Description string              `json:"description,omitempty"`
	InputSchema json.RawMessage     `json:"inputSchema,omitempty"`
	Hints       []v1alpha1.ToolHint `json:"hints,omitempty"`
}

// Catalog is the tools of a server that are used.
type Catalog struct {
	entries []entry
	// LeftOut names tools that cannot be used, and why, each in a few words.
	LeftOut []string
}

// ErrTooLarge reports more tools than an MCPServer may have, or larger definitions.
var ErrTooLarge = errors.New("too many tools, or definitions of them that are too large")

// Select returns the catalog of the tools that a filter selects. A tool that cannot be used is left out. The values of
// secret, the headers that the server was sent, are removed from all texts.
func Select(
	listed []mcp.Tool, filter *v1alpha1.MCPToolFilter, secret http.Header, schemas readiness.SchemaChecker,
) (*Catalog, error) {
	c := &Catalog{}
	left := 0
	for _, t := range listed {
		if !definition.Selected(filter, t.Name) {
			continue
		}
		if why := c.consider(t, secret, schemas); why != "" {
			left++
			if left <= maxNamed {
				name := excerpt.Of(credential.RedactText(t.Name, secret), 64)
				c.LeftOut = append(c.LeftOut, strconv.Quote(name)+" ("+why+")")
			}
		}
	}
	if left > maxNamed {
		c.LeftOut = append(c.LeftOut, fmt.Sprintf("and %d more", left-maxNamed))
	}
	slices.SortFunc(c.entries, func(a, b entry) int { return strings.Compare(a.Name, b.Name) })
	if len(c.entries) > MaxTools || c.Bytes() > MaxBytes {
		return nil, fmt.Errorf("%w: %d tools with %d bytes; at most %d tools with %d bytes are allowed", ErrTooLarge,
			len(c.entries), c.Bytes(), MaxTools, MaxBytes)
	}
	return c, nil
}

// consider adds a tool without the values of secret headers, or returns why it cannot be used.
func (c *Catalog) consider(t mcp.Tool, secret http.Header, schemas readiness.SchemaChecker) string {
	// Texts are searched for values only if they have a size that is used.
	if why := tooLarge(t); why != "" {
		return why
	}
	shown := withoutSecret(t, secret)
	if shown.Name != t.Name {
		return "its name has the value of a Secret"
	}
	return c.add(shown, schemas)
}

// tooLarge returns why a tool is too large; empty if it is not.
func tooLarge(t mcp.Tool) string {
	switch {
	case len(t.Name) > maxNameBytes:
		return "its name is invalid"
	case len(t.InputSchema) > inputschema.MaxBytes:
		return fmt.Sprintf("its schema has more than %d bytes", inputschema.MaxBytes)
	}
	return ""
}

// withoutSecret returns a tool without the values of secret headers: a server may echo them.
func withoutSecret(t mcp.Tool, secret http.Header) mcp.Tool {
	t.Name = credential.RedactText(t.Name, secret)
	t.Title = credential.RedactText(t.Title, secret)
	t.Description = credential.RedactText(t.Description, secret)
	t.InputSchema = credential.Redact(t.InputSchema, secret)
	return t
}

// add adds a tool, or returns why it cannot be used.
func (c *Catalog) add(t mcp.Tool, schemas readiness.SchemaChecker) string {
	known := func(e entry) bool { return e.Name == t.Name }
	large := tooLarge(t)
	switch {
	case t.Name == "" || !utf8.ValidString(t.Name) || strings.ContainsFunc(t.Name, unseen):
		return "its name is invalid"
	case slices.ContainsFunc(c.entries, known):
		return "its name is not unique"
	case large != "":
		return large
	case schemas.CheckSchema(t.InputSchema) != nil:
		return "its schema is invalid"
	}
	e := entry{
		Name:        t.Name,
		Title:       excerpt.Of(strings.ToValidUTF8(t.Title, "\uFFFD"), maxTitleBytes),
		Description: excerpt.Of(strings.ToValidUTF8(t.Description, "\uFFFD"), maxDescriptionBytes),
		InputSchema: t.InputSchema,
		Hints:       t.Hints,
	}
	hints := make([]string, len(e.Hints))
	for i, hint := range e.Hints {
		hints[i] = string(hint)
	}
	e.Digest = tool.Hash("mcp-tool", e.Name, e.Title, e.Description, string(e.InputSchema),
		strings.Join(hints, ","))[:digestDigits]
	c.entries = append(c.entries, e)
	return ""
}

// unseen reports whether people do not see a character as it is: it controls terminals, changes the direction of the
// text, or is invisible.
func unseen(r rune) bool { return !unicode.IsPrint(r) }

// Bytes is the size of the definitions.
func (c *Catalog) Bytes() int64 {
	sum := 0
	for _, e := range c.entries {
		sum += len(e.Name) + len(e.Title) + len(e.Description) + len(e.InputSchema)
	}
	return int64(sum)
}

// Tools are what the status of the MCPServer has of the tools.
func (c *Catalog) Tools() []v1alpha1.MCPServerTool {
	tools := make([]v1alpha1.MCPServerTool, len(c.entries))
	for i, e := range c.entries {
		tools[i] = v1alpha1.MCPServerTool{Name: e.Name, Digest: e.Digest, Hints: e.Hints}
	}
	return tools
}

// Texts are the texts of the tools for the model, by name.
func (c *Catalog) Texts() map[string]definition.RemoteTexts {
	texts := make(map[string]definition.RemoteTexts, len(c.entries))
	for _, e := range c.entries {
		texts[e.Name] = definition.RemoteTexts{
			Digest: e.Digest, Title: e.Title, Description: e.Description, InputSchema: e.InputSchema,
		}
	}
	return texts
}
