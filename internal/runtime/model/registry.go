package model

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/destination"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
)

// Access is how a driver reaches its provider.
type Access struct {
	// HTTP sends every request of the driver. It reaches the host of Endpoint and no other.
	HTTP *http.Client
	// Key of the provider's API. It must not get into errors, logs or responses.
	Key string
}

// Factory makes the driver of a Model. It makes no call to the provider. Drivers of providers without a network need no
// access.
type Factory func(m *v1alpha1.Model, access Access) (Driver, error)

// Registry holds the factories by provider (MODEL-03). It must not change once it is in use.
type Registry map[v1alpha1.ModelProvider]Factory

// Driver makes the driver of a Model. The error is an *UnavailableError when it cannot.
func (r Registry) Driver(m *v1alpha1.Model, access Access) (Driver, error) {
	if LeftOut(m) {
		panic("Model " + m.Name + " is used before its script is read")
	}
	factory := r[m.Spec.Provider]
	if factory == nil {
		return nil, &UnavailableError{Model: m.Name, Cause: &UnknownProviderError{Provider: m.Spec.Provider}}
	}
	driver, err := factory(m, access)
	if err != nil {
		return nil, &UnavailableError{Model: m.Name, Cause: err}
	}
	return driver, nil
}

// Check returns why a Model cannot have a driver, independent of its API key; nil when it can. Making a driver makes no
// call, so that it needs neither a valid key nor a client that reaches anything.
func (r Registry) Check(m *v1alpha1.Model) error {
	_, err := r.Driver(m, Access{HTTP: &http.Client{}, Key: "none"})
	return err
}

// endpoints are where the providers are by themselves. The policy bound-secrets-models knows them as well.
var endpoints = map[v1alpha1.ModelProvider]string{
	v1alpha1.ModelProviderAnthropic: "https://api.anthropic.com",
	v1alpha1.ModelProviderOpenAI:    "https://api.openai.com",
	v1alpha1.ModelProviderGoogle:    "https://generativelanguage.googleapis.com",
}

// Providers are those that are called over a network, in their order.
func Providers() []v1alpha1.ModelProvider { return slices.Sorted(maps.Keys(endpoints)) }

// Endpoint is a URL with the host that the API key of a Model is sent to: its own, or the provider's. It is empty for a
// provider without a network.
func Endpoint(m *v1alpha1.Model) string {
	if base := BaseURL(m); base != "" {
		return base
	}
	return endpoints[m.Spec.Provider]
}

// Route is that of the requests of a Model.
func Route(m *v1alpha1.Model) egress.Route {
	_, route := address(m)
	return route
}

// BaseURL is the URL of a Model under which the provider's API begins: its baseURL or that of its Service; empty for
// the provider's own.
func BaseURL(m *v1alpha1.Model) string {
	base, _ := address(m)
	return base
}

func address(m *v1alpha1.Model) (string, egress.Route) {
	ref := m.Spec.ServiceRef
	if ref != nil && ref.Path == "" && m.Spec.Provider == v1alpha1.ModelProviderOpenAI {
		ref = ref.DeepCopy()
		ref.Path = openAIPath
	}
	return destination.Of(m.Namespace, m.Spec.BaseURL, ref)
}

// openAIPath is where the servers that are compatible with OpenAI have its API.
const openAIPath = "/v1"

// InCluster reports whether a Model is called at a Service of the cluster: it refers to one, or the host of its baseURL
// is the name of one, with the namespace, such as gateway.team-a.svc or gateway.team-a.svc.cluster.local.
func InCluster(m *v1alpha1.Model) bool {
	if m.Spec.ServiceRef != nil {
		return true
	}
	address, err := url.Parse(m.Spec.BaseURL)
	if err != nil {
		return false
	}
	host := strings.ToLower(strings.TrimSuffix(address.Hostname(), "."))
	service, found := strings.CutSuffix(strings.TrimSuffix(host, ".cluster.local"), ".svc")
	return found && strings.Count(service, ".") == 1
}

// APIOf is the API that a Model of provider OpenAI is called by: the one that it names; otherwise Responses at OpenAI's
// own address, unless it has stop sequences, which that API lacks, and Chat Completions at any other.
func APIOf(m *v1alpha1.Model) v1alpha1.ModelAPI {
	stops := m.Spec.Parameters != nil && len(m.Spec.Parameters.StopSequences) > 0
	switch {
	case m.Spec.API != "":
		return m.Spec.API
	case stops || !isOpenAI(BaseURL(m)):
		return v1alpha1.ModelAPIChatCompletions
	default:
		return v1alpha1.ModelAPIResponses
	}
}

// isOpenAI reports whether a base URL is OpenAI's own; none is.
func isOpenAI(baseURL string) bool {
	if baseURL == "" {
		return true
	}
	address, err := url.Parse(baseURL)
	if err != nil {
		return false
	}
	return strings.HasSuffix("."+strings.ToLower(strings.TrimSuffix(address.Hostname(), ".")), ".openai.com")
}

// Name is the provider's name of a Model: spec.model, otherwise the name of the object; empty for no Model.
func Name(m *v1alpha1.Model) string {
	switch {
	case m == nil:
		return ""
	case m.Spec.Model != "":
		return m.Spec.Model
	default:
		return m.Name
	}
}
