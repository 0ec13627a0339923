package anthropic

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
)

const (
	// DefaultBaseURL is Anthropic's own address.
	DefaultBaseURL = "https://api.anthropic.com/"
	// name of the provider in errors.
	name = "Anthropic"
	// userAgent is the User-Agent of requests.
	userAgent = "capstan"
)

// Options of a driver. "v1/messages" follows the base URL.
type Options = provider.Options

// driver is a model.Driver. It is stateless.
type driver struct {
	messages   sdk.MessageService
	parameters v1alpha1.ModelParameters
	sampling   provider.Sampling
	key        string
	// own reports whether the server is Anthropic's or Azure's, whose restrictions are known.
	own bool
}

// isOwn reports whether a host is Anthropic's or Azure's.
func isOwn(host string) bool {
	host = "." + strings.ToLower(strings.TrimSuffix(host, "."))
	return strings.HasSuffix(host, ".anthropic.com") || strings.HasSuffix(host, ".azure.com")
}

// machine are headers in which the SDK describes its platform.
var machine = []string{
	"X-Stainless-Lang",
	"X-Stainless-Package-Version",
	"X-Stainless-Os",
	"X-Stainless-Arch",
	"X-Stainless-Runtime",
	"X-Stainless-Runtime-Version",
	"X-Stainless-Retry-Count",
	"X-Stainless-Timeout",
}

// New returns a driver. It does not call the provider, and does not read the environment: the service is created
// without the SDK's client, whose constructor would read addresses, keys, profiles and headers from there, and tracing
// is off.
func New(o Options) (model.Driver, error) {
	if o.HTTP == nil {
		return nil, errors.New("creating the Anthropic driver: missing HTTP client")
	}
	if o.Key == "" {
		return nil, errors.New("creating the Anthropic driver: missing API key")
	}
	base := o.BaseURL
	if base == "" {
		base = DefaultBaseURL
	}
	address, err := url.Parse(base)
	if err != nil || address.Host == "" {
		return nil, errors.New("invalid base URL for Anthropic")
	}
	sampling, err := provider.SamplingOf(o.Parameters)
	if err != nil {
		return nil, fmt.Errorf("reading the parameters for Anthropic: %w", err)
	}
	options := []option.RequestOption{
		option.WithBaseURL(strings.TrimSuffix(base, "/") + "/"),
		option.WithAPIKey(o.Key),
		option.WithHTTPClient(provider.Client(o.HTTP)),
		option.WithMaxRetries(0),
		option.WithoutOpenTelemetry(),
		option.WithOpenTelemetryPropagation(false),
		option.WithHeader("User-Agent", userAgent),
	}
	for _, header := range machine {
		options = append(options, option.WithHeaderDel(header))
	}
	return provider.Guard(name, o.Key, &driver{
		messages: sdk.NewMessageService(options...), parameters: o.Parameters, sampling: sampling, key: o.Key,
		own: isOwn(address.Hostname()),
	}), nil
}

// Generate implements model.Driver.
func (d *driver) Generate(ctx context.Context, r model.Request) (*model.Response, error) {
	body, err := d.request(r)
	if err != nil {
		return nil, err
	}
	var raw *http.Response
	stream := d.messages.NewStreaming(ctx, body, option.WithResponseInto(&raw))
	defer func() { _ = stream.Close() }()
	var a answer
	// One read may return many events.
	for ctx.Err() == nil && stream.Next() {
		e := stream.Current()
		if err := a.add(e); err != nil {
			return nil, err
		}
		if hasContent(e) {
			r.ReportPartial(model.Partial{Text: a.text.String(), ToolCalls: len(a.calls) > 0})
		}
	}
	if ended := ctx.Err(); ended != nil {
		return nil, ended
	}
	if a.finish != "" {
		return a.complete(r.Model, d.key)
	}
	var refused *sdk.Error
	if err := stream.Err(); errors.As(err, &refused) && errorOf(refused).filtered() {
		return provider.Filtered(a.response(r.Model)), nil
	}
	return provider.Broken(a.response(r.Model), d.failure(ctx, r.Model, raw, stream.Err(), a.events))
}
