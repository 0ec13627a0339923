package provider

import (
	"context"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

// Guard wraps a driver. Data from a server never ends more than one attempt: a panic caused by it, of which the SDKs
// are capable, is an error of the provider that a retry may not have. And it keeps the API key out of responses, in
// which a server or a proxy could have put it, and so out of the journal.
func Guard(provider, key string, d model.Driver) model.Driver {
	return guarded{driver: d, provider: provider, key: key}
}

const (
	// minKey is the shortest key that is redacted, in bytes. A shorter one, such as "none", protects nothing, and may
	// be a word of the response.
	minKey = 8
	// hidden replaces the key. It needs no escapes within a JSON string.
	hidden = "[API key]"
)

// guarded is the driver behind Guard.
type guarded struct {
	driver        model.Driver
	provider, key string
}

// Generate implements model.Driver.
func (g guarded) Generate(ctx context.Context, r model.Request) (answer *model.Response, err error) {
	defer func() {
		// The panic's value may contain the response.
		if recover() != nil {
			answer, err = nil, unreadable(ctx, g.provider)
		}
	}()
	r.OnPartial = g.withheld(r.OnPartial)
	answer, err = g.driver.Generate(ctx, r)
	if answer != nil {
		g.redact(answer, r.Model)
		answer.Tidy()
	}
	return answer, err
}

// Reasons implements model.Reasoner.
func (g guarded) Reasons(r model.Request) bool {
	known, ok := g.driver.(model.Reasoner)
	return ok && known.Reasons(r)
}

// unreadable is the error of a response that could not be decoded. A retry may succeed.
func unreadable(ctx context.Context, provider string) error {
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	return &Error{
		Provider: provider, code: v1alpha1.ErrorCodeProviderUnavailable, transient: true,
		text: provider + " returned an invalid response",
	}
}

// has reports whether a text contains the key.
func (g guarded) has(text string) bool {
	return len(g.key) >= minKey && strings.Contains(text, g.key)
}

// redact removes the key from a response. An id or a model name that contains the key is dropped: the model is then the
// requested one.
func (g guarded) redact(answer *model.Response, asked string) {
	if g.has(answer.ResponseID) {
		answer.ResponseID = ""
	}
	if g.has(answer.Model) {
		answer.Model = asked
	}
	answer.Content = g.redactContent(*answer)
	answer.Text = g.redactText(answer.Text)
	for i := range answer.ToolCalls {
		call := &answer.ToolCalls[i]
		if g.has(call.ProviderID) {
			call.ProviderID = ""
		}
		call.Name, call.Arguments = g.redactText(call.Name), g.redactText(call.Arguments)
	}
}

// redactContent removes the key from the content of a response. Reasoning that has it is dropped, because a provider
// takes it back only unchanged. A key that is in two parts of the text at once leaves the text as one part.
func (g guarded) redactContent(answer model.Response) []model.Content {
	if len(g.key) < minKey {
		return answer.Content
	}
	var content []model.Content
	within := 0
	for _, c := range answer.Content {
		within += strings.Count(c.Text, g.key)
		if r := c.Reasoning; r != nil && (g.has(r.ID) || g.has(r.Data) || g.has(r.Summary)) {
			c.Reasoning = nil
		}
		c.Text = g.redactText(c.Text)
		content = append(content, c)
	}
	if within < strings.Count(answer.Text, g.key) {
		return nil
	}
	return content
}

// redactText returns a text with a replacement for the key.
func (g guarded) redactText(text string) string {
	if !g.has(text) {
		return text
	}
	return strings.ReplaceAll(text, g.key, hidden)
}

// withheld passes on a streaming response up to the start of the key, or some bytes further: passed text cannot be
// revoked. Each byte is examined once, however often the response is passed on.
func (g guarded) withheld(report func(model.Partial)) func(model.Partial) {
	if report == nil || len(g.key) < minKey {
		return report
	}
	looked, passed, found := 0, 0, -1
	return func(p model.Partial) {
		if from := max(looked-len(g.key)+1, 0); found < 0 {
			if at := strings.Index(p.Text[from:], g.key); at >= 0 {
				found = from + at
			}
			looked = len(p.Text)
		}
		end := found
		if found < 0 {
			end = len(p.Text) - g.begun(p.Text)
		}
		passed = max(passed, end)
		p.Text = p.Text[:passed]
		report(p)
	}
}

// begun is the length of the key's prefix at the end of a text, if it is too long to be a coincidence; otherwise 0.
func (g guarded) begun(text string) int {
	for n := min(len(g.key)-1, len(text)); n >= minKey; n-- {
		if strings.HasSuffix(text, g.key[:n]) {
			return n
		}
	}
	return 0
}
