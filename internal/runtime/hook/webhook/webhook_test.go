package webhook

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/hook"
)

// site is a server of a webhook.
type site struct {
	*httptest.Server
	bundle string
	got    []*http.Request
	bodies []string
}

func newSite(t *testing.T, respond http.HandlerFunc) *site {
	t.Helper()
	s := &site{}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		s.got, s.bodies = append(s.got, r), append(s.bodies, string(body))
		respond(w, r)
	}))
	t.Cleanup(s.Close)
	s.bundle = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	return s
}

func respond(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

// local is an executor that reaches servers of the test.
func local(secrets map[string]*corev1.Secret) *Executor {
	return &Executor{
		Egress: egress.New(egress.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}),
		Secrets: func(_ context.Context, namespace, name string) (*corev1.Secret, error) {
			if secret := secrets[namespace+"/"+name]; secret != nil {
				return secret, nil
			}
			if name == "broken" {
				return nil, errors.New("dial tcp 10.0.0.1:443: the API server")
			}
			return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
		},
	}
}

func call(s *site, headers ...hook.Header) hook.Call {
	return hook.Call{
		Spec: &hook.Spec{
			ID: "session:w", Timeout: 2 * time.Second,
			Webhook: &hook.Webhook{URL: s.URL + "/hook?a=1", CABundle: s.bundle, Headers: headers},
		},
		Payload: []byte(`{"event":"pre_tool_use"}`), Key: "t/2/pre_tool_use/1-0/session:w",
		Identity: hook.Identity{Namespace: "ns"},
	}
}

func TestAWebhookDecides(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		body   string
		want   hook.Outcome
	}{
		"nothing":   {204, "", hook.Outcome{Decision: hook.Allow}},
		"allow":     {200, `{"decision":"allow"}`, hook.Outcome{Decision: hook.Allow}},
		"block":     {200, `{"decision":"block","reason":"no"}`, hook.Outcome{Decision: hook.Block, Reason: "no"}},
		"an error":  {500, `{"decision":"allow"}`, hook.Fail("the webhook responded with status 500")},
		"not found": {404, "", hook.Fail("the webhook responded with status 404")},
		"no JSON":   {200, "yes", hook.Fail(`the output is not a JSON object: "yes"`)},
		"a large body": {
			200,
			strings.Repeat(" ", hook.MaxOutputBytes+1),
			hook.Fail("the response has more than 65536 bytes"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, respond(test.status, test.body))
			got := local(nil).Run(t.Context(), call(s))
			if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", test.want) {
				t.Errorf("it yields %q, want %q", got, test.want)
			}
			if len(s.got) != 1 || s.got[0].Method != http.MethodPost || s.bodies[0] != `{"event":"pre_tool_use"}` ||
				s.got[0].Header.Get("Idempotency-Key") != "t/2/pre_tool_use/1-0/session:w" ||
				s.got[0].Header.Get("Content-Type") != "application/json" || s.got[0].URL.RequestURI() != "/hook?a=1" {
				t.Errorf("the server got %+v, %q", s.got, s.bodies)
			}
		})
	}
}

func TestAWebhookIsSentNowhereElse(t *testing.T) {
	other := newSite(t, respond(200, `{"decision":"allow"}`))
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	})
	if got := local(nil).Run(t.Context(), call(s)); got.Decision != hook.Failed || len(other.got) != 0 {
		t.Errorf("after a redirect: %q, %d requests", got, len(other.got))
	}
	for name, test := range map[string]struct {
		executor *Executor
		change   func(*hook.Webhook)
		want     string
	}{
		"a private address": {
			&Executor{Egress: egress.New(egress.Options{})}, func(*hook.Webhook) {}, "has no allowed address",
		},
		"plain HTTP": {
			local(nil), func(w *hook.Webhook) { w.URL = strings.Replace(w.URL, "https", "http", 1) }, "is not https",
		},
		"a server that is not trusted": {local(nil), func(w *hook.Webhook) { w.CABundle = "" }, "not trusted"},
		"another bundle": {
			local(nil),
			func(w *hook.Webhook) { w.CABundle = "x" },
			"no certificate in PEM form",
		},
		"a large bundle": {
			local(nil), func(w *hook.Webhook) { w.CABundle = strings.Repeat("x", MaxBundleBytes+1) }, "the maximum is",
		},
		"the metadata server": {
			local(nil), func(w *hook.Webhook) { w.URL = "https://169.254.169.254/latest" }, "has no allowed address",
		},
		"a user in the URL": {
			local(nil), func(w *hook.Webhook) { w.URL = "https://a:b@example.org/" }, "contains a user name",
		},
	} {
		t.Run(name, func(t *testing.T) {
			target := newSite(t, respond(200, ""))
			c := call(target)
			test.change(c.Spec.Webhook)
			got := test.executor.Run(t.Context(), c)
			if got.Decision != hook.Failed || !strings.Contains(got.Reason, test.want) || len(target.got) != 0 {
				t.Errorf("it yields %q after %d requests, want an error with %q", got, len(target.got), test.want)
			}
			if err := Check(c.Spec.Webhook); (err != nil) != strings.Contains(name, "bundle") {
				t.Errorf("the check yields %v", err)
			}
		})
	}
}

func TestASecretIsSentToItsHostsOnly(t *testing.T) {
	s := newSite(t, respond(200, ""))
	header := hook.Header{Name: "Authorization", SecretName: "key", SecretKey: "token"}
	secret := func(hosts string) map[string]*corev1.Secret {
		found := &corev1.Secret{Data: map[string][]byte{"token": []byte("Bearer abc\n")}}
		found.Name = "key"
		if hosts != "" {
			found.Annotations = map[string]string{v1alpha1.AnnotationAllowedHosts: hosts}
		}
		return map[string]*corev1.Secret{"ns/key": found}
	}
	host := strings.TrimPrefix(s.URL, "https://")
	for name, test := range map[string]struct {
		secrets map[string]*corev1.Secret
		header  hook.Header
		want    string
	}{
		"bound to no host":      {secret(""), header, ""},
		"bound to the host":     {secret(host), header, ""},
		"bound to another host": {secret("example.org"), header, "is bound to hosts"},
		"missing":               {nil, header, "does not exist"},
		"of another namespace":  {map[string]*corev1.Secret{"other/key": secret("")["ns/key"]}, header, "does not exist"},
		"without the key":       {secret(""), hook.Header{Name: "A", SecretName: "key", SecretKey: "x"}, "has no key"},
		"that cannot be read today": {
			nil,
			hook.Header{Name: "A", SecretName: "broken", SecretKey: "x"},
			`reading Secret "broken" failed`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s.got = nil
			got := local(test.secrets).Run(t.Context(), call(s, test.header))
			if test.want == "" {
				if got.Decision != hook.Allow || len(s.got) != 1 || s.got[0].Header.Get("Authorization") != "Bearer abc" {
					t.Errorf("it yields %q, %d requests", got, len(s.got))
				}
				return
			}
			if got.Decision != hook.Failed || !strings.Contains(got.Reason, test.want) || len(s.got) != 0 ||
				strings.Contains(got.Reason, "10.0.0.1") {
				t.Errorf("it yields %q after %d requests, want an error with %q", got, len(s.got), test.want)
			}
		})
	}
}

func TestAWebhookEndsInTime(t *testing.T) {
	release := make(chan struct{})
	s := newSite(t, func(http.ResponseWriter, *http.Request) { <-release })
	defer close(release)
	c := call(s)
	c.Spec.Timeout = hook.MinTimeout
	begin := time.Now()
	if got := local(nil).Run(t.Context(), c); got.Decision != hook.Failed || time.Since(begin) > 5*time.Second {
		t.Errorf("it yields %q after %v", got, time.Since(begin))
	}
}

func TestTheValuesOfSecretsAreRemovedFromResponses(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		fmt.Fprintf(w, `{"decision":"block","reason":"%s for %s"}`, token, r.Header.Get("Idempotency-Key"))
	})
	e := local(map[string]*corev1.Secret{"ns/token": {Data: map[string][]byte{"token": []byte("Bearer s3cret-token")}}})
	got := e.Run(t.Context(), call(s, hook.Header{Name: "Authorization", SecretName: "token", SecretKey: "token"}))
	if want := "[redacted] for t/2/pre_tool_use/1-0/session:w"; got.Decision != hook.Block || got.Reason != want {
		t.Errorf("the outcome is %+v, want the reason %s", got, want)
	}
}
