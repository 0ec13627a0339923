package step

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"

	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// maxContextBytes is the largest context that is pinned, as JSON. It fits into the memory that every model call has
// beside its conversation. A larger one is rendered anew in each step.
const maxContextBytes = 1 << 20

// modelContext is what a model is sent beside the messages. It is rendered once in a Turn, so that the requests of all
// its steps begin with the same bytes, which providers cache, although layers and Tools are edited meanwhile. What an
// edit takes away still counts at once: the calls of a step are planned with the layers as they are then.
type modelContext struct {
	SystemPrompt string                 `json:"systemPrompt,omitempty"`
	Tools        []model.ToolDefinition `json:"tools,omitempty"`
}

// contextOf returns the context that the Turn has in the journal, and renders it if there is none.
func (run *Runner) contextOf(
	ctx context.Context, t turnstate.Turn, c turnstate.Config, view *journal.View, prompt []event.Message,
) (modelContext, error) {
	if ref := view.Context; ref != nil && ref.Turn == t.Ref.UID {
		content, err := run.Log.Context(ctx, t.Session, ref)
		if err != nil {
			return modelContext{}, fmt.Errorf("reading the context of the Turn: %w", err)
		}
		return unpackContext(content)
	}
	tools := definitions(c)
	fences := len(tools) > 0 || hasToolResult(prompt)
	rendered := modelContext{SystemPrompt: systemPrompt(c.Effective.SystemPrompt, t.Locale, fences), Tools: tools}
	raw, err := json.Marshal(rendered)
	if err != nil {
		return modelContext{}, fmt.Errorf("encoding the context of the Turn: %w", err)
	}
	if len(raw) > maxContextBytes {
		return rendered, nil
	}
	// As the later steps will read it: encoding changes the white space of schemas.
	var sent modelContext
	err = json.Unmarshal(raw, &sent)
	return sent, err
}

// pin returns the context in the form that is recorded, with its content unless the journal had the same one last; nil
// for one that is too large.
func (m modelContext) pin(last *journal.ContextRef) *journal.PinnedContext {
	raw, err := json.Marshal(m)
	if err != nil || len(raw) > maxContextBytes {
		return nil
	}
	sum := sha256.Sum256(raw)
	pinned := &journal.PinnedContext{Digest: hex.EncodeToString(sum[:8])}
	if last != nil && last.Digest == pinned.Digest {
		return pinned
	}
	var packed bytes.Buffer
	compressor := gzip.NewWriter(&packed)
	// A buffer accepts everything.
	_, _ = compressor.Write(raw)
	_ = compressor.Close()
	if packed.Len() > journal.MaxContextBytes {
		return nil
	}
	pinned.Content = packed.Bytes()
	return pinned
}

// unpackContext returns a context from its recorded form.
func unpackContext(content []byte) (modelContext, error) {
	var m modelContext
	decompressor, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return m, fmt.Errorf("%w: decompressing the context of the Turn: %w", journal.ErrCorrupt, err)
	}
	raw, err := io.ReadAll(io.LimitReader(decompressor, maxContextBytes+1))
	if err == nil {
		err = json.Unmarshal(raw, &m)
	}
	if err != nil {
		return m, fmt.Errorf("%w: reading the context of the Turn: %w", journal.ErrCorrupt, err)
	}
	return m, nil
}
