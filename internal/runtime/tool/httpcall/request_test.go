package httpcall

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/credential"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// forecast is a call of a tool that asks a server.
func forecast(change func(*Params)) Params {
	p := Params{
		Turn: "turn-uid",
		Call: v1alpha1.ToolCall{
			ID:         "1-0",
			Name:       "weather",
			Executor:   v1alpha1.ToolExecutorHTTP,
			SideEffect: v1alpha1.SideEffectAtMostOnce,
			Attempt:    1,
		},
		Tool: &v1alpha1.ToolSpec{
			InputSchema: &v1alpha1.JSON{
				Raw: []byte(
					`{"type":"object","properties":{"city":{"type":"string"},"days":{"type":["integer","null"]},` +
						`"fine":{"type":"boolean"}}}`,
				),
			},
			HTTP: &v1alpha1.HTTPTool{URL: "https://api.example.org/v1?unit=c"},
		},
		Arguments:   ` {"city":"Lisbon"}`,
		TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}
	if change != nil {
		change(&p)
	}
	return p
}

func secretHeader(name, secret, key string) v1alpha1.HTTPHeader {
	return v1alpha1.HTTPHeader{Name: name, SecretKeyRef: &v1alpha1.SecretKeyReference{Name: secret, Key: key}}
}

func newSecret(name, value string, hosts ...string) credential.Sources {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"token": []byte(value)}}
	if len(hosts) > 0 {
		secret.Annotations = map[string]string{v1alpha1.AnnotationAllowedHosts: strings.Join(hosts, ",")}
	}
	return credential.Sources{Secrets: map[string]*corev1.Secret{name: secret}}
}

func TestARequestSendsTheArgumentsAsItsBody(t *testing.T) {
	p := forecast(func(p *Params) {
		p.Tool.HTTP.Headers = []v1alpha1.HTTPHeader{
			{
				Name:  "x-plain",
				Value: new("yes"),
			},
			{Name: "Accept", Value: new("text/csv")},
			secretHeader("Authorization", "weather", "token"),
		}
		p.Secrets = newSecret("weather", "Bearer abc\n")
		p.Call.Timeout = &metav1.Duration{Duration: time.Minute}
	})
	r, refused := Build(p)
	if refused != nil {
		t.Fatalf("refused: %+v", refused)
	}
	if r.Method != "POST" || r.URL != "https://api.example.org/v1?unit=c" || string(r.Body) != p.Arguments ||
		r.Timeout != time.Minute ||
		r.AllowHTTP {
		t.Errorf("the request is %+v", r)
	}
	for name, want := range map[string]string{
		"Content-Type": "application/json", "X-Plain": "yes", "Accept": "text/csv", "Authorization": "",
		"Idempotency-Key": tool.IdempotencyKey("turn-uid", "1-0"), "Traceparent": p.TraceParent,
	} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("the header %s is %q, want %q", name, got, want)
		}
	}
	if len(r.Secret) != 1 || r.Secret.Get("Authorization") != "Bearer abc" {
		t.Errorf("the secret headers are %v", r.Secret)
	}
	p.TraceParent, p.Arguments, p.Call.Timeout = "nonsense", " ", nil
	r, _ = Build(p)
	if r.Header.Get("Traceparent") != "" || string(r.Body) != "{}" || r.Timeout != 30*time.Second {
		t.Errorf("without them the request is %+v", r)
	}
}

func TestARequestSendsTheArgumentsInItsQuery(t *testing.T) {
	for name, test := range map[string]struct {
		url, arguments  string
		want            string
		reason, message string
	}{
		"none": {arguments: "", want: "https://api.example.org/v1"},
		"beside a parameter": {
			url: "https://api.example.org/v1?unit=c", arguments: `{"city":"Lisbon"}`,
			want: "https://api.example.org/v1?unit=c&city=Lisbon",
		},
		"of each type, in order": {
			arguments: `{"fine":true,"days":12345678901234567890,"city":"a"}`,
			want:      "https://api.example.org/v1?city=a&days=12345678901234567890&fine=true",
		},
		"null": {arguments: `{"days":null}`, want: "https://api.example.org/v1"},
		"what would be syntax": {
			arguments: `{"city":"a&fine=true#/../?x=\r\n@b"}`,
			want:      "https://api.example.org/v1?city=a%26fine%3Dtrue%23%2F..%2F%3Fx%3D%0D%0A%40b",
		},
		"what is for people": {
			arguments: `{"human_intent":"look","city":"a"}`, want: "https://api.example.org/v1?city=a",
		},
		"undeclared": {
			arguments: `{"town":"a"}`, reason: v1alpha1.ToolCallReasonInvalidArguments, message: `"town" is not declared`,
		},
		"a list": {
			arguments: `{"city":["a"]}`, reason: v1alpha1.ToolCallReasonInvalidArguments, message: `"city" must be a string`,
		},
		"no object": {
			arguments: `[]`, reason: v1alpha1.ToolCallReasonInvalidArguments, message: "not a JSON object",
		},
		"too long": {
			arguments: `{"city":"` + strings.Repeat("a", MaxURLBytes) + `"}`, reason: v1alpha1.ToolCallReasonArgumentsTooLarge,
			message: "the maximum is 8192",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := forecast(func(p *Params) {
				p.Tool.HTTP.Method, p.Tool.HTTP.URL = v1alpha1.HTTPMethodGet, "https://api.example.org/v1"
				p.Arguments = test.arguments
				if test.url != "" {
					p.Tool.HTTP.URL = test.url
				}
			})
			r, refused := Build(p)
			if test.reason != "" {
				if refused == nil || refused.State != v1alpha1.ToolCallStateNotExecuted || refused.Reason != test.reason ||
					!strings.Contains(refused.Error, test.message) {
					t.Errorf("refused with %+v", refused)
				}
				return
			}
			if refused != nil || r.URL != test.want || len(r.Body) > 0 || r.Method != "GET" ||
				r.Header.Get("Content-Type") != "" {
				t.Errorf("the request is %s %s %q, refused %+v", r.Method, r.URL, r.Body, refused)
			}
		})
	}
}

func TestWhereArgumentsGo(t *testing.T) {
	for _, test := range []struct {
		method    v1alpha1.HTTPMethod
		arguments v1alpha1.HTTPArguments
		want      v1alpha1.HTTPArguments
	}{
		{"", "", v1alpha1.HTTPArgumentsBody},
		{v1alpha1.HTTPMethodGet, "", v1alpha1.HTTPArgumentsQuery},
		{v1alpha1.HTTPMethodDelete, "", v1alpha1.HTTPArgumentsBody},
		{v1alpha1.HTTPMethodDelete, v1alpha1.HTTPArgumentsQuery, v1alpha1.HTTPArgumentsQuery},
		{v1alpha1.HTTPMethodPut, v1alpha1.HTTPArgumentsBody, v1alpha1.HTTPArgumentsBody},
	} {
		if got := argumentsOf(&v1alpha1.HTTPTool{Method: test.method, Arguments: test.arguments}); got != test.want {
			t.Errorf("%s with %q: %s", test.method, test.arguments, got)
		}
	}
}

func TestASecretThatCannotBeSentIsNot(t *testing.T) {
	for name, test := range map[string]struct {
		secrets credential.Sources
		key     string
		message string
	}{
		"one that is free":  {secrets: newSecret("weather", "abc")},
		"one for this host": {secrets: newSecret("weather", "abc", "other.example", " API.example.org ")},
		"one for this port": {secrets: newSecret("weather", "abc", "api.example.org:443")},
		"one for another port": {
			secrets: newSecret("weather", "abc", "api.example.org:8443"),
			message: "is bound to hosts by capstan.dev/allowed-hosts",
		},
		"one for another host": {
			secrets: newSecret("weather", "abc", "example.org"), message: "is bound to hosts by capstan.dev/allowed-hosts",
		},
		"one for no host": {
			secrets: newSecret("weather", "abc", ""), message: "is bound to hosts by capstan.dev/allowed-hosts",
		},
		"one that is not there": {message: `Secret "weather" of one of its headers does not exist`},
		"one without the key":   {secrets: newSecret("weather", "abc"), key: "other", message: `has no key "other"`},
		"an empty one":          {secrets: newSecret("weather", "\n"), message: "is not a valid header value"},
		"one with two lines":    {secrets: newSecret("weather", "abc\nX-Admin: yes"), message: "is not a valid header value"},
		"one that is too long": {
			secrets: newSecret("weather", strings.Repeat("a", MaxHeaderBytes+1)), message: "is not a valid header value",
		},
		"one that is not all text": {secrets: newSecret("weather", "abc\xff"), message: "is not a valid header value"},
	} {
		t.Run(name, func(t *testing.T) {
			p := forecast(func(p *Params) {
				p.Secrets = test.secrets
				p.Tool.HTTP.Headers = []v1alpha1.HTTPHeader{secretHeader("X-Key", "weather", "token")}
				if test.key != "" {
					p.Tool.HTTP.Headers[0].SecretKeyRef.Key = test.key
				}
			})
			r, refused := Build(p)
			if test.message == "" {
				if refused != nil || r.Secret.Get("X-Key") != "abc" {
					t.Errorf("refused %+v", refused)
				}
				return
			}
			if refused == nil || refused.State != v1alpha1.ToolCallStateNotExecuted ||
				refused.Reason != v1alpha1.ToolCallReasonSecretUnusable ||
				!strings.Contains(refused.Error, test.message) {
				t.Fatalf("refused with %+v", refused)
			}
			if strings.Contains(refused.Error, "abc") || strings.Contains(refused.Error, "X-Admin") {
				t.Errorf("%q gives the Secret away", refused.Error)
			}
		})
	}
}

func TestAToolThatCouldNeverBeCalledIsNotReady(t *testing.T) {
	for name, test := range map[string]struct {
		url, schema string
		method      v1alpha1.HTTPMethod
		want        string
	}{
		"scalars": {
			method: v1alpha1.HTTPMethodGet, schema: `{"properties":{"a":{"type":"string"},"b":{"type":["number","null"]}}}`,
		},
		"no schema":        {method: v1alpha1.HTTPMethodGet},
		"a list in a body": {method: v1alpha1.HTTPMethodPost, schema: `{"properties":{"a":{"type":"array"}}}`},
		"a list in a query": {
			method: v1alpha1.HTTPMethodGet, schema: `{"properties":{"a":{"type":"array"}}}`,
			want: `the property "a" is not declared as a string, number or boolean`,
		},
		"what is in the query anyway": {
			method: v1alpha1.HTTPMethodGet, url: "https://example.org?a=1", schema: `{"properties":{"a":{"type":"string"}}}`,
			want: `the query parameter "a" is in both http.url and inputSchema`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			spec := &v1alpha1.ToolSpec{HTTP: &v1alpha1.HTTPTool{URL: "https://example.org", Method: test.method}}
			if test.url != "" {
				spec.HTTP.URL = test.url
			}
			if test.schema != "" {
				spec.InputSchema = &v1alpha1.JSON{Raw: []byte(test.schema)}
			}
			if got := Check(spec); !strings.Contains(got, test.want) || (got == "") != (test.want == "") {
				t.Errorf("it reports %q, want %q", got, test.want)
			}
		})
	}
	if got := Check(&v1alpha1.ToolSpec{}); got != "" {
		t.Errorf("of another tool it reports %q", got)
	}
}
