// Package probe asks the providers of Models whether they accept a Model, without generating anything: it lists the
// models that the API key may use, which all of them document and none charges for.
package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/excerpt"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
)

const (
	// timeout is how long a probe may take.
	timeout = 15 * time.Second
	// maxBody is how much of a response is read, and maxProblem how much of the provider's error is shown, in bytes.
	maxBody, maxProblem = 1 << 20, 512
	// anthropicVersion is the version of Anthropic's API that all requests name.
	anthropicVersion = "2023-06-01"
	// versionQuery is the query of a baseURL that has the version of one of Azure's dated APIs.
	versionQuery = "api-version"
)

// Result is what a probe has found.
type Result struct {
	// Reachable reports whether the provider accepts the Model.
	Reachable bool
	// Reason and Message are those of the condition.
	Reason, Message string
}

// Do asks the provider of a Model. The error is that of the context.
func Do(ctx context.Context, m *v1alpha1.Model, access model.Access) (Result, error) {
	within, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := requestFor(within, m, access.Key)
	if err != nil {
		return failed(v1alpha1.ReasonProbeFailed, "the address of the provider is invalid"), nil
	}
	client := *access.HTTP
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	response, err := client.Do(request)
	if ctx.Err() != nil {
		return Result{}, ctx.Err()
	}
	if err != nil {
		return failed(v1alpha1.ReasonProbeFailed, unreachable(err)), nil
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if ctx.Err() != nil {
		return Result{}, ctx.Err()
	}
	if err != nil {
		return failed(v1alpha1.ReasonProbeFailed, "the response of the provider is incomplete"), nil
	}
	return resultOf(m, response.StatusCode, body, access.Key), nil
}

// requestFor is the request that lists the models of a provider.
func requestFor(ctx context.Context, m *v1alpha1.Model, key string) (*http.Request, error) {
	address, err := url.Parse(model.Endpoint(m))
	if err != nil {
		return nil, err
	}
	version := address.Query().Get(versionQuery)
	address.RawQuery = ""
	base := strings.TrimSuffix(address.String(), "/")
	header := http.Header{}
	var path string
	switch {
	case version != "":
		// Deployments have no list, but their resource has one of its models.
		base, _, _ = strings.Cut(base, "/deployments/")
		path = "/models?" + url.Values{versionQuery: {version}}.Encode()
		if key != "" {
			header.Set("Api-Key", key)
		}
	case m.Spec.Provider == v1alpha1.ModelProviderAnthropic:
		path = "/v1/models?limit=1000"
		header.Set("X-Api-Key", key)
		header.Set("Anthropic-Version", anthropicVersion)
	case m.Spec.Provider == v1alpha1.ModelProviderGoogle:
		path = "/v1beta/models?pageSize=1000"
		header.Set("X-Goog-Api-Key", key)
	default:
		path = "/models"
		if model.BaseURL(m) == "" {
			path = "/v1/models"
		}
		if key != "" {
			header.Set("Authorization", "Bearer "+key)
		}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header = header
	return request, nil
}

// unreachable is why there was no response. The error of the standard library has the URL.
func unreachable(err error) string {
	var own *egress.Error
	if errors.As(err, &own) {
		return own.Text
	}
	return "the provider did not respond in time"
}

// resultOf reads a response.
func resultOf(m *v1alpha1.Model, status int, body []byte, key string) Result {
	problem := fmt.Sprintf("the provider responded with status %d (%s)", status, http.StatusText(status))
	if text := problemOf(body, key); text != "" && status >= http.StatusMultipleChoices {
		problem += ": " + text
	}
	switch {
	case status < http.StatusMultipleChoices:
		return listed(m, body)
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return failed(v1alpha1.ReasonKeyRejected, problem)
	case status == http.StatusNotFound, status == http.StatusMethodNotAllowed:
		return failed(v1alpha1.ReasonProbeFailed, problem+"; check the address, or whether the server lists its models")
	default:
		return failed(v1alpha1.ReasonProbeFailed, problem)
	}
}

// listed is the result of a list of models. One that is not in the list may be usable nevertheless: gateways and Azure
// list other names than those that they accept.
func listed(m *v1alpha1.Model, body []byte) Result {
	var list struct {
		Data   []struct{ ID string }
		Models []struct{ Name string }
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return failed(v1alpha1.ReasonProbeFailed, "the response of the provider is not a list of models: check the address")
	}
	name := model.Name(m)
	for _, entry := range list.Data {
		if entry.ID == name || entry.ID == name+":latest" {
			return Result{Reachable: true, Reason: v1alpha1.ReasonProbeSucceeded, Message: "The provider lists the model."}
		}
	}
	for _, entry := range list.Models {
		if entry.Name == name || entry.Name == "models/"+name {
			return Result{Reachable: true, Reason: v1alpha1.ReasonProbeSucceeded, Message: "The provider lists the model."}
		}
	}
	return Result{
		Reachable: true, Reason: v1alpha1.ReasonModelNotListed, Message: fmt.Sprintf("The provider accepts the request, but "+
			"does not list the model %q. Check spec.model, unless the provider accepts names that it does not list.",
			excerpt.Of(name, 256)),
	}
}

// problemOf is the provider's own error, without the API key and control characters; empty for none.
func problemOf(body []byte, key string) string {
	var content struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &content) != nil || len(content.Error) == 0 {
		return ""
	}
	var text string
	if json.Unmarshal(content.Error, &text) != nil {
		var detailed struct {
			Message string `json:"message"`
		}
		_ = json.Unmarshal(content.Error, &detailed)
		text = detailed.Message
	}
	return excerpt.Of(strings.Join(strings.Fields(provider.SafeText(text, key)), " "), maxProblem)
}

func failed(reason, problem string) Result {
	return Result{Reason: reason, Message: "The probe has failed: " + problem + "."}
}
