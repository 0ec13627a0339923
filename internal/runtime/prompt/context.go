package prompt

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/capstan-dev/capstan/internal/runtime/capability"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal/format"
	"github.com/capstan-dev/capstan/internal/runtime/leftout"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
)

// maxBytes is the largest context that is pinned, as JSON. It fits into the memory that every model call has beside its
// conversation. A larger one is rendered anew in each step.
const maxBytes = 1 << 20

// Context is the part of a prompt beside the messages. It is rendered once in a Turn, so that the requests of all its
// steps begin with the same bytes, which providers cache, although layers and Tools are edited meanwhile. What an edit
// takes away still counts at once: the calls of a step are planned with the layers as they are then.
type Context struct {
	SystemPrompt string                 `json:"systemPrompt,omitempty"`
	Tools        []model.ToolDefinition `json:"tools,omitempty"`
}

// Prompts are the parts of a system prompt that the configuration of a Session has.
type Prompts struct {
	// Capabilities are those of the capabilities, in their order.
	Capabilities []capability.Prompt
	// Layers is that of the layers; empty for none.
	Layers string
	// Locale of the user; empty for none.
	Locale string
}

// Render returns the context of messages: with the prompts of the configuration, and with the tools that are offered.
func Render(prompts Prompts, tools definition.Set, messages []event.Message) Context {
	offered := definitions(tools)
	fences := len(offered) > 0 || hasToolResult(messages)
	return Context{SystemPrompt: systemPrompt(prompts, fences), Tools: offered}
}

// Recorded returns the context as the later steps of the Turn will read it: encoding changes the white space of
// schemas. One that is too large is not recorded, and is returned as it is.
func (c Context) Recorded() (Context, error) {
	raw, err := json.Marshal(c)
	if err != nil {
		return c, fmt.Errorf("encoding the context of the Turn: %w", err)
	}
	if len(raw) > maxBytes {
		return c, nil
	}
	var recorded Context
	err = json.Unmarshal(raw, &recorded)
	return recorded, err
}

// Pin returns the context in the form that is recorded, with its content unless the journal had the same one last; nil
// for one that is too large, or whose content takes more than limit when it is compressed.
func (c Context) Pin(last *format.ContextRef, limit int) *format.PinnedContext {
	raw, err := json.Marshal(c)
	if err != nil || len(raw) > maxBytes {
		return nil
	}
	sum := sha256.Sum256(raw)
	pinned := &format.PinnedContext{Digest: hex.EncodeToString(sum[:8])}
	if last != nil && last.Digest == pinned.Digest {
		return pinned
	}
	var packed bytes.Buffer
	compressor := gzip.NewWriter(&packed)
	// A buffer accepts everything.
	_, _ = compressor.Write(raw)
	_ = compressor.Close()
	if packed.Len() > limit {
		return nil
	}
	pinned.Content = packed.Bytes()
	return pinned
}

// Unpack returns a context from its recorded form.
func Unpack(content []byte) (Context, error) {
	var c Context
	decompressor, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return c, fmt.Errorf("decompressing the context of the Turn: %w", err)
	}
	raw, err := io.ReadAll(io.LimitReader(decompressor, maxBytes+1))
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	if err != nil {
		return c, fmt.Errorf("reading the context of the Turn: %w", err)
	}
	return c, nil
}

// systemPrompt is the system prompt for the model: the prompts of the capabilities and of the layers, the meaning of
// fences where there are or may be any, and the locale. The most stable parts come first, so that providers can cache
// them. Where capabilities have prompts, tags keep them apart from that of the layers (CAP-05).
func systemPrompt(p Prompts, fences bool) string {
	if leftout.Is(p.Layers) {
		panic("the system prompt is used before it is read")
	}
	var blocks []string
	for _, c := range p.Capabilities {
		blocks = append(blocks, capabilityBlock(c))
	}
	switch {
	case p.Layers == "":
	case len(p.Capabilities) > 0:
		blocks = append(blocks, "<system-prompt>\n"+p.Layers+"\n</system-prompt>")
	default:
		blocks = append(blocks, p.Layers)
	}
	if fences {
		blocks = append(blocks, event.FenceNote)
	}
	if p.Locale != "" {
		blocks = append(blocks, fmt.Sprintf(
			"The user's locale is %s (BCP 47). Answer in that language and by its conventions, unless the user asks for "+
				"another one.",
			p.Locale,
		))
	}
	return strings.Join(blocks, "\n\n")
}

// capabilityBlock is what a capability adds: its text, and the configuration that the model is shown.
func capabilityBlock(c capability.Prompt) string {
	if leftout.Is(c.Text) {
		panic("the prompt of a capability is used before it is read")
	}
	var parts []string
	if c.Text != "" {
		parts = append(parts, c.Text)
	}
	if c.Config != "" {
		parts = append(parts, "<config>\n"+c.Config+"\n</config>")
	}
	return fmt.Sprintf("<capability id=%q>\n%s\n</capability>", c.ID, strings.Join(parts, "\n\n"))
}

// definitions are the tools that are offered to the model.
func definitions(tools definition.Set) []model.ToolDefinition {
	var offered []model.ToolDefinition
	for _, d := range tools {
		description, schema := d.Offer()
		if schema == nil {
			schema = json.RawMessage(`{"type":"object"}`)
		}
		offered = append(offered, model.ToolDefinition{Name: d.Name, Description: description, InputSchema: schema})
	}
	return offered
}
