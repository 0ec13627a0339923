package attacks_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/hook"
	"github.com/capstan-dev/capstan/internal/runtime/hook/webhook"
)

// tokens reads the Secret of every namespace, which is for the hosts of the tests.
func tokens(_ context.Context, namespace, name string) (*corev1.Secret, error) {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Data:       map[string][]byte{"token": []byte("Bearer " + tokenSecret)},
	}, nil
}

// callWebhook runs a hook that is a webhook, with a Secret in its Authorization header.
func callWebhook(ctx context.Context, client *egress.Client, namespace string, w hook.Webhook) string {
	w.Headers = append(w.Headers, hook.Header{Name: "Authorization", SecretName: "token", SecretKey: "token"})
	e := &webhook.Executor{Egress: client, Secrets: tokens}
	outcome := e.Run(ctx, hook.Call{
		Spec:    &hook.Spec{ID: "session:w", Event: hook.PreToolUse, Timeout: fetchTimeout, Webhook: &w},
		Payload: []byte(`{"event":"pre_tool_use","data":{}}`), Key: "key", Identity: hook.Identity{Namespace: namespace},
	})
	if outcome.Decision == hook.Failed {
		return refused + outcome.Reason
	}
	return fmt.Sprintf("%s %s %s %s", outcome.Decision, outcome.Reason, outcome.UserMessage, outcome.Patch)
}

// webhooks are requests of hooks, to hostile servers and to where nothing may go.
func webhooks(t *testing.T) subject {
	n := newNetwork(t)
	bundle := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: n.hostile.Certificate().Raw}))
	get := func(name string, refused bool, all responses) class {
		c := class{name: name, refused: refused}
		for _, a := range all {
			path := n.serve(name+" "+a.name, a.h)
			c.attempts = append(c.attempts, attempt{name: a.name, run: func(ctx context.Context) string {
				return callWebhook(ctx, n.egress(nil), attacker, hook.Webhook{URL: n.hostile.URL + path, CABundle: bundle})
			}})
		}
		return c
	}
	to := func(name string, all ...string) class {
		c := class{name: name, refused: true}
		for _, address := range all {
			c.attempts = append(c.attempts, attempt{name: address, run: func(ctx context.Context) string {
				return callWebhook(ctx, n.egress(&turning{[][]string{{"127.0.0.2"}}}), attacker,
					hook.Webhook{URL: n.ports(address), CABundle: bundle})
			}})
		}
		return c
	}
	fine := n.serve("fine", write200("application/json", `{"decision":"allow"}`))
	with := func(name string, w hook.Webhook) attempt {
		return attempt{name: name, run: func(ctx context.Context) string {
			w.URL = n.hostile.URL + fine
			return callWebhook(ctx, n.egress(nil), attacker, w)
		}}
	}
	empty := "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"
	return subject{
		name: "Hooks that are webhooks", after: n.untouched,
		classes: []class{
			to("addresses", "https://INSIDE/", "https://rebound.example/", "https://169.254.169.254/",
				"https://[64:ff9b::7f00:2]/", "http://INSIDE/"),
			get("redirects", true, n.redirects()),
			get("redirects that the Secret must not follow", true, responses{
				{"to another server", location(n, "https://example.com/")},
				{"to another port", location(n, "https://127.0.0.1:1/")},
				{"as a GET", func(w http.ResponseWriter, r *http.Request) {
					http.Redirect(w, r, "https://example.com/", http.StatusSeeOther)
				}},
				{"in a circle", func(w http.ResponseWriter, r *http.Request) {
					http.Redirect(w, r, r.URL.Path, http.StatusPermanentRedirect)
				}},
				{"to http on the same server", location(n, "http://127.0.0.1:PORT/")},
			}),
			get("bodies", true, bodies("application/json")), get("headers", false, headers()),
			get("beginnings of responses", true, beginnings()), get("compression", true, compressed()),
			get("decisions", true, responses{
				{"nested deeply", write200("application/json", `{"decision":"mutate","patch":`+strings.Repeat(`{"a":`, 10_000))},
				{"the same member twice", write200("application/json", `{"decision":"allow","decision":"block"}`)},
				{"more than one", write200("application/json", `{"decision":"allow"}{"decision":"block"}`)},
				{"not in UTF-8", write200("application/json", "{\"decision\":\"block\",\"reason\":\"\xff\xfe\"}")},
				{"an unknown one", write200("application/json", `{"decision":"`+strings.Repeat("x", 60_000)+`"}`)},
			}),
			get("the Secret in a decision", false, reflected()),
			{name: "certificates and headers", refused: true, attempts: []attempt{
				with("thousands of certificates", hook.Webhook{CABundle: strings.Repeat(empty, 10_000)}),
				with("empty ones", hook.Webhook{CABundle: strings.Repeat(empty, 1000)}),
				with("that are none", hook.Webhook{CABundle: strings.Repeat("-", 60_000)}),
				with("a header with a line break", hook.Webhook{CABundle: bundle, Headers: []hook.Header{
					{Name: "X-A", Value: "a\r\nHost: example.org"},
				}}),
				with("a name of a header with a line break", hook.Webhook{CABundle: bundle, Headers: []hook.Header{
					{Name: "X-A\r\nX-B", Value: "a"},
				}}),
			}},
		},
		other: func(ctx context.Context) error {
			seen := callWebhook(ctx, n.egress(nil), bystander, hook.Webhook{URL: n.hostile.URL + fine, CABundle: bundle})
			if !strings.HasPrefix(seen, string(hook.Allow)) {
				return errors.New(seen)
			}
			return nil
		},
	}
}

// escaped is a text in which each character is an escape of JSON.
func escaped(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		fmt.Fprintf(&b, `\u%04x`, c)
	}
	return b.String()
}

// reflected are responses with the Secret of their request.
func reflected() responses {
	say := func(body func(header, token string) string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			header := r.Header.Get("Authorization")
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, body(header, strings.TrimPrefix(header, "Bearer ")))
		}
	}
	return responses{
		{"in the reason", say(func(header, _ string) string { return `{"decision":"block","reason":"` + header + `"}` })},
		{"in the message for the user", say(func(_, token string) string {
			return `{"decision":"block","user_message":"` + token + `"}`
		})},
		{"in the reason, in escapes", say(func(_, token string) string {
			return `{"decision":"block","reason":"` + escaped(token) + `"}`
		})},
		{"in the patch", say(func(_, token string) string {
			return `{"decision":"mutate","patch":{"arguments":{"` + token + `":"` + token + `"}}}`
		})},
		{"instead of JSON", say(func(_, token string) string { return token })},
	}
}
