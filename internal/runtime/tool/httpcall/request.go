package httpcall

import (
	"crypto/x509"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/credential"
	"github.com/capstan-dev/capstan/internal/runtime/destination"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
	"github.com/capstan-dev/capstan/internal/runtime/tool/executors"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

const (
	// MaxURLBytes is the maximum length of a URL with the arguments in its query.
	MaxURLBytes = 8 * 1024
	// MaxHeaderBytes is the maximum length of the value of a header.
	MaxHeaderBytes = credential.MaxHeaderBytes
)

const (
	headerIdempotencyKey = "Idempotency-Key"
	headerTraceParent    = "Traceparent"
	mediaTypeJSON        = "application/json"
)

// Params are the inputs of the request of one call.
type Params struct {
	// Turn is the UID of the Turn that owns the call.
	Turn types.UID
	// Call as it was pinned.
	Call v1alpha1.ToolCall
	// Tool to run. Its http must be set.
	Tool *v1alpha1.ToolSpec
	// Arguments for the tool. Blank arguments reach it as {}.
	Arguments string
	// TraceParent is the W3C trace context of the call. An invalid one is omitted.
	TraceParent string
	// Secrets have the current values of the headers that are secret. Missing ones are omitted.
	Secrets credential.Sources
	// Hidden are the values of secrets that the response must not show, and Confined reports whether the arguments have
	// one, so that no redirect leads to another place.
	Hidden   []string
	Confined bool
	// Namespace of the Tool, and Roots the certificates that its server is trusted by; nil for those of the manager.
	Namespace string
	Roots     *x509.CertPool
	// Permits applies the network access list to a URL.
	Permits func(*url.URL) bool
	// KeepsOutput reports whether a response that is longer than a result is of use.
	KeepsOutput bool
}

// Build returns the request of one call, or the outcome of a call that cannot be sent. Text from the model is
// only in the body or in values of the query.
func Build(p Params) (egress.Request, *tool.Outcome) {
	definition.MustBeWhole(p.Tool)
	spec := p.Tool.HTTP
	base, route := destination.Of(p.Namespace, spec.URL, spec.ServiceRef)
	route.Roots = p.Roots
	r := egress.Request{
		Method:   string(methodOf(spec)),
		URL:      base,
		Route:    route,
		Header:   http.Header{},
		MaxBody:  tool.MaxResultBytes + reserved(p.Hidden),
		Permits:  p.Permits,
		Confined: p.Confined,
	}
	if p.KeepsOutput {
		r.MaxBody = tool.MaxOutputBytes + reserved(p.Hidden)
	}
	r.Timeout = executors.Named(v1alpha1.ToolExecutorHTTP).TimeoutOf(p.Call, p.Tool)
	if argumentsOf(spec) == v1alpha1.HTTPArgumentsQuery {
		var refused *tool.Outcome
		if r.URL, refused = withQuery(base, p); refused != nil {
			return r, refused
		}
	} else {
		r.Body = []byte(tool.ArgumentsOrEmpty(p.Arguments))
		r.Header.Set("Content-Type", mediaTypeJSON)
	}
	r.Header.Set("Accept", mediaTypeJSON+", text/*;q=0.9, */*;q=0.1")
	if refused := addHeaders(&r, p); refused != nil {
		return r, refused
	}
	r.Header.Set(headerIdempotencyKey, tool.RoundKey(p.Turn, p.Call.ID, tool.InputRound(p.Call)))
	if tool.ValidTraceParent(p.TraceParent) {
		r.Header.Set(headerTraceParent, p.TraceParent)
	}
	return r, nil
}

// maxEscaped is the most bytes by which JSON in JSON, or JSON in a URL, usually writes one of a value.
const maxEscaped = 8

// reserved is how much of a response is read beyond what is of use. It is dropped if the response goes on, because it
// may be the start of a secret, which is not found.
func reserved(hidden []string) int64 {
	longest := 0
	for _, value := range hidden {
		longest = max(longest, len(value))
	}
	return max(MaxHeaderBytes, int64(maxEscaped*longest))
}

func methodOf(spec *v1alpha1.HTTPTool) v1alpha1.HTTPMethod {
	if spec.Method == "" {
		return v1alpha1.HTTPMethodPost
	}
	return spec.Method
}

// InQuery reports whether the arguments are sent in the query of the URL.
func InQuery(spec *v1alpha1.HTTPTool) bool { return argumentsOf(spec) == v1alpha1.HTTPArgumentsQuery }

// argumentsOf returns where the arguments go.
func argumentsOf(spec *v1alpha1.HTTPTool) v1alpha1.HTTPArguments {
	switch {
	case spec.Arguments != "":
		return spec.Arguments
	case methodOf(spec) == v1alpha1.HTTPMethodGet:
		return v1alpha1.HTTPArgumentsQuery
	default:
		return v1alpha1.HTTPArgumentsBody
	}
}

// addHeaders sets the headers of the Tool.
func addHeaders(r *egress.Request, p Params) *tool.Outcome {
	plain, secret, why := credential.Headers(p.Tool.HTTP.Headers, p.Secrets, r.URL)
	if why != "" {
		refused := NotSent(p.Call, v1alpha1.ToolCallReasonSecretUnusable, why)
		return &refused
	}
	for name, values := range plain {
		r.Header[name] = values
	}
	for name := range secret {
		r.Header.Del(name)
	}
	r.Secret = secret
	return nil
}

// withQuery is the URL with the arguments as parameters, in the order of their names.
func withQuery(base string, p Params) (string, *tool.Outcome) {
	refuse := func(reason, format string, args ...any) (string, *tool.Outcome) {
		refused := NotSent(p.Call, reason, fmt.Sprintf(format, args...))
		return "", &refused
	}
	u, err := url.Parse(base)
	if err != nil {
		return refuse(v1alpha1.ToolCallReasonInvalidRequest, "its url is invalid")
	}
	arguments := map[string]any{}
	decoder := json.NewDecoder(strings.NewReader(tool.ArgumentsOrEmpty(p.Arguments)))
	decoder.UseNumber()
	if decoder.Decode(&arguments) != nil {
		return refuse(v1alpha1.ToolCallReasonInvalidArguments, "the arguments are not a JSON object")
	}
	declared := definition.ScalarNames(p.Tool.InputSchema)
	query := url.Values{}
	for _, name := range slices.Sorted(maps.Keys(arguments)) {
		if !slices.Contains(declared, name) {
			if name == tool.IntentKey {
				continue
			}
			return refuse(
				v1alpha1.ToolCallReasonInvalidArguments,
				"the argument %q is not declared as a string, number or boolean in its schema",
				result.Head(name, 64),
			)
		}
		value, ok := scalar(arguments[name])
		if !ok {
			return refuse(
				v1alpha1.ToolCallReasonInvalidArguments,
				"the argument %q must be a string, a number or a boolean",
				name,
			)
		}
		if arguments[name] != nil {
			query.Set(name, value)
		}
	}
	if len(query) > 0 {
		u.RawQuery = strings.TrimPrefix(u.RawQuery+"&"+query.Encode(), "&")
	}
	text := u.String()
	if len(text) > MaxURLBytes {
		return refuse(
			v1alpha1.ToolCallReasonArgumentsTooLarge,
			"its url with the arguments has %d bytes; the maximum is %d. Send less",
			len(text),
			MaxURLBytes,
		)
	}
	return text, nil
}

// scalar is a value as a query has it.
func scalar(value any) (string, bool) {
	switch value := value.(type) {
	case nil:
		return "", true
	case string:
		return value, true
	case json.Number:
		return value.String(), true
	case bool:
		return fmt.Sprint(value), true
	default:
		return "", false
	}
}

// Check returns why no call of an HTTP tool can be sent, whatever its arguments; empty if calls can be sent:
// arguments in a query must be scalars, and must not collide with parameters of the same name.
func Check(spec *v1alpha1.ToolSpec) string {
	definition.MustBeWhole(spec)
	if spec.HTTP == nil || argumentsOf(spec.HTTP) != v1alpha1.HTTPArgumentsQuery || spec.InputSchema == nil {
		return ""
	}
	u, err := url.Parse(spec.HTTP.URL)
	if err != nil {
		return "http.url is invalid"
	}
	var declared struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(spec.InputSchema.Raw, &declared) != nil {
		return "inputSchema has properties that are not schemas"
	}
	fixed := u.Query()
	for _, name := range slices.Sorted(maps.Keys(declared.Properties)) {
		if !definition.DeclaresScalar(declared.Properties[name]) {
			return fmt.Sprintf(
				"the arguments are sent in the query of http.url, but the property %q is not declared as a string, number or "+
					"boolean",
				name,
			)
		}
		if fixed.Has(name) {
			return fmt.Sprintf("the query parameter %q is in both http.url and inputSchema", name)
		}
	}
	return ""
}
