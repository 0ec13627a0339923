package attacks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/invocation/executor"
	"github.com/capstan-dev/capstan/internal/runtime/invocation/httptool"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/record/memory"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/internal/testing/site"
)

// sender is a cluster with the Secret of a Session in each of two namespaces, and a server that is sent the values.
type sender struct {
	server, other *site.Site
	// echo is how the server writes what it has got.
	echo    atomic.Pointer[func(http.ResponseWriter, string)]
	secrets map[string]*corev1.Secret
	process executor.Process
	// stolen counts the requests that have the value and come elsewhere.
	stolen atomic.Int64
}

func newSender(t *testing.T) *sender {
	v := &sender{secrets: map[string]*corev1.Secret{}}
	v.server = site.New(t, func(w http.ResponseWriter, r *http.Request) {
		var got struct{ Key string }
		body, err := io.ReadAll(r.Body)
		if err == nil && json.Unmarshal(body, &got) == nil && strings.HasPrefix(r.URL.Path, "/echo") {
			(*v.echo.Load())(w, got.Key)
			return
		}
		fmt.Fprint(w, got.Key == tokenSecret)
	})
	v.other = site.New(t, func(_ http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err != nil || strings.Contains(string(body), tokenSecret) {
			v.stolen.Add(1)
		}
	})
	for _, of := range []string{attacker + "/rich", bystander + "/s"} {
		namespace, name, _ := strings.Cut(of, "/")
		secret := builder.SessionSecrets(namespace, name, types.UID("uid-"+of), map[string]string{"key": tokenSecret},
			strings.TrimPrefix(v.server.URL, "https://"))
		v.secrets[namespace+"/"+secret.Name] = secret
	}
	v.process = executor.Process{
		Clock: time.Now, Egress: v.server.Egress(), Records: record.New(memory.New(), record.Options{}),
		Secrets: func(_ context.Context, namespace, name string) (*corev1.Secret, error) {
			if s := v.secrets[namespace+"/"+name]; s != nil {
				return s.DeepCopy(), nil
			}
			return nil, site.NotFound(name)
		},
	}
	return v
}

// call is a call of an HTTP tool in a Session, with arguments that a model has written.
func (v *sender) call(namespace, session, address, arguments string, permits ...v1alpha1.SecretArgument) executor.Call {
	t := &v1alpha1.Tool{ObjectMeta: metav1.ObjectMeta{Name: "ask"}}
	t.Spec = v1alpha1.ToolSpec{
		SideEffect: v1alpha1.SideEffectPure, HTTP: &v1alpha1.HTTPTool{URL: address, SecretArguments: permits},
	}
	d := definition.Of(t)
	planned := v1alpha1.ToolCall{ID: "1-0", Name: "ask", Attempt: 1}
	d.Pin(&planned)
	return executor.Call{
		Session: journal.Session{
			Namespace: namespace, Name: session, UID: types.UID("uid-" + namespace + "/" + session),
		},
		Turn: v1alpha1.JournalTurn{Name: "t", UID: "turn"}, Call: planned, Arguments: arguments, Definition: d,
		Claimed: func(context.Context) (bool, error) { return false, nil },
	}
}

// send makes a call, and returns what the model gets to see.
func (v *sender) send(ctx context.Context, c executor.Call) string {
	work, err := httptool.Executor{}.Prepare(ctx, v.process, c)
	if err != nil {
		return refused + err.Error()
	}
	outcome := work.Refused
	if outcome == nil {
		made, defect := work.Do(ctx)
		if defect != nil {
			return defect.Error()
		}
		outcome = &made
	}
	if outcome.Result == nil {
		return refused + outcome.Error
	}
	return *outcome.Result
}

// sessionSecrets are references of a model to secrets that are not for it or not for their destination, and servers
// that return a value to the model.
func sessionSecrets(t *testing.T) subject {
	v := newSender(t)
	const reference = `{"key":"secret://key"}`
	try := func(name, namespace, session, address, arguments, want string, permits ...v1alpha1.SecretArgument) attempt {
		return attempt{name: name, want: want, run: func(ctx context.Context) string {
			return v.send(ctx, v.call(namespace, session, address, arguments, permits...))
		}}
	}
	const missing = "this session has no secret"
	echo := func(name, want string, write func(http.ResponseWriter, string)) attempt {
		return attempt{name: name, want: want, run: func(ctx context.Context) string {
			v.echo.Store(&write)
			return v.send(ctx, v.call(attacker, "rich", v.server.URL+"/echo", reference, "/key"))
		}}
	}
	text := func(write func(string) string) func(http.ResponseWriter, string) {
		return func(w http.ResponseWriter, value string) { fmt.Fprint(w, write(value)) }
	}
	redirect := func(w http.ResponseWriter, _ string) {
		w.Header().Set("Location", v.other.URL)
		w.WriteHeader(http.StatusTemporaryRedirect)
	}
	return subject{
		name: "Secrets of a Session",
		classes: []class{
			{name: "secrets of others", refused: true, attempts: []attempt{
				try("that of another Session", attacker, "poor", v.server.URL, reference, missing, "/key"),
				try("that of a Session of another namespace", attacker, "s", v.server.URL, reference, missing, "/key"),
				try("a path to another Secret", attacker, "rich", v.server.URL,
					`{"key":"secret://../session-secrets-uid-bystander/s/key"}`, "not a reference", "/key"),
				try("a name that is no name", attacker, "rich", v.server.URL, `{"key":"secret://key\u0000"}`,
					"not a reference", "/key"),
			}},
			{name: "destinations", refused: true, attempts: []attempt{
				try("another host", attacker, "rich", v.other.URL, reference, "may not be sent to", "/key"),
				try("the host without encryption", attacker, "rich", "http"+strings.TrimPrefix(v.server.URL, "https"),
					reference, "may not be sent to", "/key"),
				echo("a redirect of the body to another host", "redirected", redirect),
				try("very many references", attacker, "rich", v.server.URL,
					`{`+strings.Repeat(`"key":"secret://key",`, 40<<10)+`"key":"secret://key"}`, "more than", "/key"),
			}},
			{name: "arguments without permission", attempts: []attempt{
				try("a Tool that permits none", attacker, "rich", v.server.URL, reference, "false"),
				try("another argument", attacker, "rich", v.server.URL, reference, "false", "/other"),
				try("a part of an argument", attacker, "rich", v.server.URL, `{"key":"x secret://key"}`, "false", "/key"),
				{name: "a Tool that runs as a Job", want: reference, run: func(ctx context.Context) string {
					c := v.call(attacker, "rich", v.server.URL, reference)
					c.Definition = definition.Of(&v1alpha1.Tool{Spec: v1alpha1.ToolSpec{Job: &v1alpha1.JobTool{}}})
					filled, _, err := v.process.Fill(ctx, c, v.server.URL)
					return shown(filled.Arguments, err)
				}},
			}},
			{name: "servers that return the value", attempts: []attempt{
				echo("as it is", "[redacted]", text(func(s string) string { return "You said " + s })),
				echo("in JSON with escapes", "[redacted]", text(func(s string) string {
					var b strings.Builder
					for _, c := range s {
						fmt.Fprintf(&b, `\u%04x`, c)
					}
					return `{"said":"` + b.String() + `"}`
				})),
				echo("in a URL", "[redacted]", text(func(s string) string { return "/?key=" + url.QueryEscape(s) })),
				echo("in an error", "[redacted]", func(w http.ResponseWriter, s string) { http.Error(w, s, http.StatusForbidden) }),
				echo("as the name of a connection", "status 401", func(w http.ResponseWriter, s string) {
					w.Header().Set("Capstan-Connection-Required", s)
					w.WriteHeader(http.StatusUnauthorized)
				}),
			}},
		},
		other: func(ctx context.Context) error {
			if seen := v.send(ctx, v.call(bystander, "s", v.server.URL, reference, "/key")); seen != "true" {
				return errors.New(seen)
			}
			return nil
		},
		after: func(t *testing.T) {
			if n := v.stolen.Load(); n != 0 || v.other.Requests() != 0 {
				t.Errorf("%d requests went to another host, %d with the value", v.other.Requests(), n)
			}
		},
	}
}
