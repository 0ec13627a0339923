package providertest

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
)

// Failure is the response of a server that does not serve a request, and the expected error of a driver.
type Failure struct {
	Status int
	Header map[string]string
	Body   string
	// Code is the code of the error, and Text its text; empty if any text will do.
	Code v1alpha1.ErrorCode
	Text string
	// After is when the server permits another request, and Again reports whether one may succeed.
	After time.Duration
	Again bool
}

// Check has a driver call a server that fails, once. None of the secrets may be in the error.
func (f Failure) Check(t *testing.T, generate func(*Server) (*model.Response, error), secrets ...string) {
	t.Helper()
	server := Serve(t, Answer{Status: f.Status, Header: f.Header, Body: f.Body})
	got, err := generate(server)
	if got != nil || err == nil {
		t.Fatalf("Generate = %+v, %v", got, err)
	}
	// The runtime decides about retries, and no driver follows a redirect with the key.
	server.One(t)
	if code := model.CodeOf(err); code != f.Code {
		t.Errorf("%q has the code %s, want %s", err, code, f.Code)
	}
	if f.Text != "" && err.Error() != f.Text {
		t.Errorf("the error is %q, want %q", err, f.Text)
	}
	var own *provider.Error
	if !errors.As(err, &own) || own.RetryAfter != f.After || own.Transient() != f.Again {
		t.Errorf("the error is %+v, want transient %t after %s", err, f.Again, f.After)
	}
	CheckSecrets(t, err, secrets...)
}

// CheckSecrets fails the test when an error shows a secret or an address, however it is printed.
func CheckSecrets(t *testing.T, err error, secrets ...string) {
	t.Helper()
	for ; err != nil; err = errors.Unwrap(err) {
		for _, secret := range append(secrets, "https://") {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error shows %q: %v", secret, err)
			}
		}
		if len(err.Error()) > 300 {
			t.Errorf("the error has %d bytes: %v", len(err.Error()), err)
		}
	}
}

// fails: the meaning of a status alone, from a provider or from a gateway before it.
func fails(t *testing.T, s Subject) {
	r := s.firstRequest()
	question := r.Messages[0].PlainText()
	page := "<html><body>" + question + " " + testKey
	for name, failure := range map[string]Failure{
		"a body that is too large": {Status: 413, Body: page, Code: v1alpha1.ErrorCodeRequestTooLarge},
		"no key":                   {Status: 401, Body: page, Code: v1alpha1.ErrorCodeProviderMisconfigured},
		"a key for something else": {Status: 403, Body: page, Code: v1alpha1.ErrorCodeProviderMisconfigured},
		"an unknown model":         {Status: 404, Body: page, Code: v1alpha1.ErrorCodeModelUnavailable},
		"a limit": {
			Status: 429, Header: map[string]string{"Retry-After": "20"}, Body: page,
			Code: v1alpha1.ErrorCodeProviderRateLimited, After: 20 * time.Second, Again: true,
		},
		"a failure": {Status: 500, Code: v1alpha1.ErrorCodeProviderUnavailable, Again: true},
		"a gateway's failure": {
			Status: 502, Body: page, Code: v1alpha1.ErrorCodeProviderUnavailable, Again: true,
		},
		"overload": {Status: 529, Body: "null", Code: v1alpha1.ErrorCodeProviderUnavailable, Again: true},
		"a huge body": {
			Status: 500, Body: strings.Repeat(page, 100_000), Code: v1alpha1.ErrorCodeProviderUnavailable, Again: true,
		},
		"a redirect": {
			Status: 307, Header: map[string]string{"Location": "https://elsewhere.example.org/"},
			Code: v1alpha1.ErrorCodeProviderMisconfigured,
		},
	} {
		t.Run(name, func(t *testing.T) {
			failure.Check(t, func(server *Server) (*model.Response, error) {
				return s.generate(t, server.Client(), r)
			}, testKey, question, "Bearer")
		})
	}
}

// generate has a driver with the key of the tests make a request.
func (s Subject) generate(t *testing.T, h *http.Client, r model.Request) (*model.Response, error) {
	t.Helper()
	driver, err := s.New(h, testKey)
	if err != nil {
		t.Fatalf("%s: %v", s.Name, err)
	}
	return driver.Generate(t.Context(), r)
}

// brokenSchema: the SDKs would send it, or an empty request in its place. The error names the tool.
func brokenSchema(t *testing.T, s Subject) {
	for _, schema := range []string{"{", "[", "[]", "true"} {
		t.Run(schema, func(t *testing.T) {
			server := Serve(t, Answer{Body: s.stream(loop()[0])})
			r := s.firstRequest()
			r.Tools = []model.ToolDefinition{{Name: "odd", InputSchema: []byte(schema)}}
			got, err := s.generate(t, server.Client(), r)
			if got != nil || err == nil || !strings.Contains(err.Error(), "tool odd") || len(server.Seen()) != 0 {
				t.Errorf("Generate = %+v, %v after %d requests", got, err, len(server.Seen()))
			}
		})
	}
}
