package google

import (
	"encoding/base64"
	"net/http"
	"strings"

	"google.golang.org/genai"

	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

// The forms of reasoning that the API sends and accepts.
const (
	// kindSignature is the signature of a text or a call. Alone it is that of an empty text, as streams end with
	// (ai.google.dev/gemini-api/docs/thought-signatures, read 2026-11).
	kindSignature = "thought_signature"
	// kindThought is a part that is a thought itself, with its signature.
	kindThought = "thought"
)

// piece is a part of a response that counts.
type piece struct {
	// from is where a text begins in the text of the response.
	from int
	// call is the number of a call, counted from 1.
	call int
	// reasoning is the signature of a text or a call, or a signed part alone.
	reasoning *event.Reasoning
	// alone reports whether the piece is reasoning only.
	alone bool
}

// signature is the reasoning of a part; nil for none, and for reasoning beyond the bound of a response.
func (a *answer) signature(part *genai.Part) *event.Reasoning {
	if len(part.ThoughtSignature) == 0 {
		return nil
	}
	r := event.Reasoning{Kind: kindSignature, Data: base64.StdEncoding.EncodeToString(part.ThoughtSignature)}
	if part.Thought {
		r.Kind, r.Summary = kindThought, part.Text
	}
	if a.reasoning+r.Bytes() > event.MaxReasoningBytes {
		return nil
	}
	a.reasoning += r.Bytes()
	return &r
}

// addText processes a text. Successive texts without a signature are joined, as those of a stream; a text with a
// signature is never joined.
func (a *answer) addText(part *genai.Part) {
	signed := a.signature(part)
	if part.Text == "" {
		if signed != nil {
			a.pieces = append(a.pieces, piece{reasoning: signed, alone: true})
		}
		return
	}
	last := len(a.pieces) - 1
	if signed != nil || last < 0 || a.pieces[last].call > 0 || a.pieces[last].reasoning != nil {
		a.pieces = append(a.pieces, piece{from: a.text.Len(), reasoning: signed})
	}
	a.text.WriteString(part.Text)
	a.size += len(part.Text)
}

// addThought processes a thought, which is kept only with its signature.
func (a *answer) addThought(part *genai.Part) {
	if signed := a.signature(part); signed != nil {
		a.pieces = append(a.pieces, piece{reasoning: signed, alone: true})
	}
}

// content is the response so far in the order of its parts.
func (a *answer) content() []model.Content {
	text := a.text.String()
	var content []model.Content
	for i, p := range a.pieces {
		c := model.Content{Call: p.call, Reasoning: p.reasoning}
		if p.call == 0 && !p.alone {
			end := len(text)
			for _, next := range a.pieces[i+1:] {
				if next.call == 0 && !next.alone {
					end = next.from
					break
				}
			}
			c.Text = text[p.from:end]
		}
		content = append(content, c)
	}
	return content
}

// signatureOf is the signature of a part; nil for none that is Google's.
func signatureOf(r *event.Reasoning) []byte {
	if r == nil || r.Kind != kindSignature && r.Kind != kindThought {
		return nil
	}
	signature, err := base64.StdEncoding.DecodeString(r.Data)
	if err != nil {
		return nil
	}
	return signature
}

// refusesReasoning reports whether the API refused a request because of a signature: an invalid or a missing one. The
// messages are those of github.com/NoeFabris/opencode-antigravity-auth/issues/368 (2026-02),
// github.com/lbjlaq/Antigravity-Manager/issues/139 (2025-12) and docs.apiyi.com/en/faq/gemini-thought-signature-missing
// (2026-10).
func refusesReasoning(status int, message string) bool {
	message = strings.ToLower(strings.ReplaceAll(message, "_", " "))
	return status == http.StatusBadRequest &&
		(strings.Contains(message, "thought signature") || strings.Contains(message, "thoughtsignature"))
}
