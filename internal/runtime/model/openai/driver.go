package openai

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
)

const (
	// DefaultBaseURL is OpenAI's own address.
	DefaultBaseURL = "https://api.openai.com/v1/"
	// name of the provider in errors.
	name = "OpenAI"
	// versionQuery is the query of a base URL that has the version of one of Azure's dated APIs.
	versionQuery = "api-version"
)

// Options of a driver. "chat/completions" or "responses" follows the base URL.
type Options = provider.Options

// driver is a model.Driver. It is stateless.
type driver struct {
	completions sdk.ChatCompletionService
	parameters  v1alpha1.ModelParameters
	sampling    provider.Sampling
	key         string
	// own reports whether the server is OpenAI's or Azure's, which refuse parameters that other servers still require.
	own bool
	// dated reports whether the API is one of Azure's with a version, which refuse parameters that are newer.
	dated bool
	// identifies reports whether the server is OpenAI's, which documents a field for the pseudonym of a user. Others may
	// refuse it.
	identifies bool
	// deepSeek reports whether the server is DeepSeek's.
	deepSeek bool
}

// New returns a driver for Chat Completions. It does not call the provider, and does not read the environment: the
// service is created without the SDK's client, whose constructor would read addresses, keys and headers from there.
func New(o Options) (model.Driver, error) {
	d, options, err := settings(o)
	if err != nil {
		return nil, err
	}
	d.completions = sdk.NewChatCompletionService(options...)
	return provider.Guard(name, o.Key, d), nil
}

// settings returns the common part of the drivers of both APIs, and the options of the SDK.
func settings(o Options) (*driver, []option.RequestOption, error) {
	if o.HTTP == nil {
		return nil, nil, errors.New("creating the OpenAI driver: missing HTTP client")
	}
	if o.Key == "" && o.BaseURL == "" {
		return nil, nil, errors.New("creating the OpenAI driver: missing API key")
	}
	base := o.BaseURL
	if base == "" {
		base = DefaultBaseURL
	}
	address, err := url.Parse(base)
	if err != nil || address.Host == "" {
		return nil, nil, errors.New("invalid base URL for OpenAI")
	}
	sampling, err := provider.SamplingOf(o.Parameters)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the parameters for OpenAI: %w", err)
	}
	version := address.Query().Get(versionQuery)
	address.RawQuery = ""
	options := []option.RequestOption{
		option.WithBaseURL(strings.TrimSuffix(address.String(), "/") + "/"),
		option.WithHTTPClient(provider.Client(o.HTTP)),
		option.WithMaxRetries(0),
		option.WithMiddleware(withoutNullErrors),
	}
	switch {
	case version != "":
		// There a bearer token is one of an identity provider, and no API key.
		options = append(options, option.WithQuery(versionQuery, version))
		if o.Key != "" {
			options = append(options, option.WithHeader("Api-Key", o.Key))
		}
	case o.Key != "":
		options = append(options, option.WithAPIKey(o.Key))
	}
	return &driver{
		parameters: o.Parameters,
		sampling:   sampling,
		key:        o.Key,
		own:        isOwn(address.Hostname()) || version != "",
		dated:      version != "",
		identifies: isOpenAI(address.Hostname()),
		deepSeek:   isDeepSeek(address.Hostname()),
	}, options, nil
}

// ownHosts are the suffixes of the hosts of OpenAI and of Azure's public and national clouds, API Management included.
var ownHosts = []string{
	".openai.com", ".azure.com", ".azure.us", ".azure.cn", ".azure-api.net", ".azure-api.us",
	".azure-api.cn",
}

// isOwn reports whether a host is OpenAI's or Azure's.
func isOwn(host string) bool {
	host = "." + strings.ToLower(strings.TrimSuffix(host, "."))
	return slices.ContainsFunc(ownHosts, func(end string) bool { return strings.HasSuffix(host, end) })
}

// isOpenAI reports whether a host is OpenAI's.
func isOpenAI(host string) bool {
	return strings.HasSuffix("."+strings.ToLower(strings.TrimSuffix(host, ".")), ".openai.com")
}

// Generate implements model.Driver.
func (d *driver) Generate(ctx context.Context, r model.Request) (*model.Response, error) {
	body, err := d.request(r)
	if err != nil {
		return nil, err
	}
	var raw *http.Response
	stream := d.completions.NewStreaming(ctx, body, option.WithResponseInto(&raw))
	defer func() { _ = stream.Close() }()
	var a answer
	// One read may return many events.
	for ctx.Err() == nil && stream.Next() {
		chunk := stream.Current()
		if err := a.add(chunk); err != nil {
			return nil, err
		}
		if hasContent(chunk) {
			r.ReportPartial(model.Partial{Text: a.text.String(), ToolCalls: len(a.calls) > 0})
		}
	}
	if ended := ctx.Err(); ended != nil {
		return nil, ended
	}
	if a.finished {
		return a.complete(r.Model, d.key)
	}
	failure := d.failure(ctx, r.Model, raw, stream.Err(), a.chunks)
	if failure.filtered != "" {
		return a.filtered(r.Model, failure.filtered), nil
	}
	return provider.Broken(a.response(r.Model), failure.err)
}
