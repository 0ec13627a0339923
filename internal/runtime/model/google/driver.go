package google

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"google.golang.org/genai"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
)

const (
	// DefaultBaseURL is Google's own address.
	DefaultBaseURL = "https://generativelanguage.googleapis.com/"
	// apiVersion follows the base URL.
	apiVersion = "v1beta"
	// name of the provider in errors.
	name = "Google"
)

// Options of a driver. "v1beta/models/..." follows the base URL.
type Options = provider.Options

// driver is a model.Driver. It is stateless.
type driver struct {
	models     *genai.Models
	parameters v1alpha1.ModelParameters
	sampling   provider.Sampling
	key        string
}

// New returns a driver. It does not call the provider. The settings that the SDK would read from the environment (the
// backend, the key and the address) are set here.
func New(o Options) (model.Driver, error) {
	if o.HTTP == nil {
		return nil, errors.New("creating the Google driver: missing HTTP client")
	}
	if o.Key == "" {
		return nil, errors.New("creating the Google driver: missing API key")
	}
	base := o.BaseURL
	if base == "" {
		base = DefaultBaseURL
	}
	if address, err := url.Parse(base); err != nil || address.Host == "" {
		return nil, errors.New("invalid base URL for Google")
	}
	sampling, err := provider.SamplingOf(o.Parameters)
	if err != nil {
		return nil, fmt.Errorf("reading the parameters for Google: %w", err)
	}
	client := provider.Client(o.HTTP)
	client.Transport = recordingTransport{next: client.Transport}
	// The context is for credentials of another backend only.
	service, err := genai.NewClient(context.Background(), &genai.ClientConfig{
		Backend:     genai.BackendGeminiAPI,
		APIKey:      o.Key,
		HTTPClient:  client,
		HTTPOptions: genai.HTTPOptions{BaseURL: base, APIVersion: apiVersion},
	})
	if err != nil {
		// The SDK's error contains its settings, including the key.
		return nil, errors.New("creating the Google driver: failed to create the client")
	}
	return provider.Guard(
		name,
		o.Key,
		&driver{models: service.Models, parameters: o.Parameters, sampling: sampling, key: o.Key},
	), nil
}

// wellFormedModel matches valid names of models: the name becomes a part of the path.
var wellFormedModel = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_@/-]|\.[A-Za-z0-9_@-])*$`)

// Generate implements model.Driver.
func (d *driver) Generate(ctx context.Context, r model.Request) (*model.Response, error) {
	if !wellFormedModel.MatchString(r.Model) {
		return nil, provider.StatusError(name, r.Model, http.StatusNotFound, 0, "")
	}
	contents, config, err := d.request(r)
	if err != nil {
		return nil, err
	}
	var seen record
	var a answer
	var broke error
	for chunk, err := range d.models.GenerateContentStream(
		context.WithValue(ctx, recordKey{}, &seen), r.Model, contents, config,
	) {
		// One read may return many events.
		if broke = cmp.Or(err, ctx.Err()); broke != nil {
			break
		}
		if err := a.add(chunk, seen.next()); err != nil {
			return nil, err
		}
		if hasContent(chunk) {
			r.ReportPartial(model.Partial{Text: a.text.String(), ToolCalls: len(a.calls) > 0})
		}
	}
	if ended := ctx.Err(); ended != nil {
		return nil, ended
	}
	if a.finish != "" {
		return a.complete(r.Model, d.key)
	}
	if a.blocked != "" {
		return a.refused(r.Model, d.key), nil
	}
	return provider.Broken(a.response(r.Model), d.failure(ctx, r.Model, &seen, broke, a.chunks))
}

// wantsSignatures reports whether a model refuses a tool call without the signature of its reasoning. All except the
// older ones do; those refuse an invalid signature.
func wantsSignatures(model string) bool {
	return sinceGemini3(model)
}

// nestsImages reports whether a model reads images within the results of functions. The older ones refuse them
// (ai.google.dev/gemini-api/docs/function-calling, as quoted in github.com/google-gemini/gemini-cli/issues/17068,
// 2026-01, and github.com/maximhq/bifrost/pull/4202, 2026-06).
func nestsImages(model string) bool {
	return sinceGemini3(model)
}

// sinceGemini3 reports whether a model is not one of those known to be older than Gemini 3.
func sinceGemini3(model string) bool {
	model = strings.TrimPrefix(model, "models/")
	for _, older := range []string{"gemini-1.", "gemini-2.", "gemma-"} {
		if strings.HasPrefix(model, older) {
			return false
		}
	}
	return true
}
