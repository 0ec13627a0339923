package openai

import (
	"context"
	"net/http"
	"strings"

	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
)

// responsesDriver is a model.Driver for the Responses API. It is stateless: the provider is to store nothing, and
// returns its reasoning encrypted.
type responsesDriver struct {
	*driver
	responses responses.ResponseService
}

// NewResponses returns a driver for the Responses API. "responses" follows the base URL. Like New, it does not call the
// provider or read the environment.
func NewResponses(o Options) (model.Driver, error) {
	d, options, err := settings(o)
	if err != nil {
		return nil, err
	}
	return provider.Guard(name, o.Key, &responsesDriver{
		driver: d, responses: responses.NewResponseService(options...),
	}), nil
}

// Generate implements model.Driver.
func (d *responsesDriver) Generate(ctx context.Context, r model.Request) (*model.Response, error) {
	body, err := d.request(r)
	if err != nil {
		return nil, err
	}
	var raw *http.Response
	stream := d.responses.NewStreaming(ctx, body, option.WithResponseInto(&raw))
	defer func() { _ = stream.Close() }()
	var a items
	// One read may return many events.
	for ctx.Err() == nil && stream.Next() {
		e := stream.Current()
		if err := a.add(e); err != nil {
			return nil, err
		}
		if a.content {
			a.content = false
			r.ReportPartial(model.Partial{Text: a.text(), ToolCalls: a.calls > 0})
		}
	}
	if ended := ctx.Err(); ended != nil {
		return nil, ended
	}
	switch {
	case a.failed != nil:
		failure := d.failureFor(r.Model, a.failed.status(), 0, *a.failed)
		if failure.filtered != "" {
			return a.filtered(r.Model, failure.filtered), nil
		}
		return provider.Broken(a.response(r.Model), failure.err)
	case a.status != "":
		return a.complete(r.Model)
	}
	failure := d.failure(ctx, r.Model, raw, stream.Err(), a.events)
	if failure.filtered != "" {
		return a.filtered(r.Model, failure.filtered), nil
	}
	return provider.Broken(a.response(r.Model), failure.err)
}

// Reasons implements model.Reasoner. With tools this API accepts every effort.
func (d *responsesDriver) Reasons(request model.Request) bool {
	r, known := reasoningOf(request.Model)
	if !known {
		return mayReason(request.Model)
	}
	_, reasons := r.effortFor(d.parameters.ReasoningEffort, false)
	return reasons
}

// mayReason reports whether an unknown model reasons, by its name.
func mayReason(model string) bool {
	name := ownName(model)
	return reasoningFamily.MatchString(name) && !strings.HasPrefix(name, "gpt-5-chat")
}
