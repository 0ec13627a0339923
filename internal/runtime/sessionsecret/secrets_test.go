package sessionsecret_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/record/memory"
	"github.com/capstan-dev/capstan/internal/runtime/sessionsecret"
)

var demo = record.Session{Namespace: "team", Name: "demo", UID: "uid-1"}

// world is a Session with its Secret.
type world struct {
	secret *corev1.Secret
	store  record.Store
	fails  error
}

func newWorld() *world {
	return &world{
		store: record.New(memory.New(), record.Options{}),
		secret: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: demo.Namespace, Name: sessionsecret.Name(demo.UID),
			Labels: map[string]string{v1alpha1.LabelSessionSecrets: string(demo.UID)},
			Annotations: map[string]string{
				v1alpha1.AnnotationSecretsSession: demo.Name, v1alpha1.AnnotationAllowedHosts: "",
			},
		}, Data: map[string][]byte{}},
	}
}

func (w *world) set(name, id, hosts, value string) {
	raw, err := json.Marshal(sessionsecret.Entry{ID: id, Hosts: hosts})
	if err != nil {
		panic(err)
	}
	w.secret.Annotations[v1alpha1.AnnotationSecretPrefix+name] = string(raw)
	w.secret.Data[name] = []byte(value)
}

func (w *world) read(_ context.Context, namespace, name string) (*corev1.Secret, error) {
	switch {
	case w.fails != nil:
		return nil, w.fails
	case namespace != w.secret.Namespace || name != w.secret.Name:
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
	default:
		return w.secret.DeepCopy(), nil
	}
}

func (w *world) of(s record.Session) *sessionsecret.Secrets {
	return sessionsecret.Of(w.read, w.store, s)
}

// value is the value of one secret for a URL, or why it is not sent.
func (w *world) value(t *testing.T, name, to string) (value, why string) {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	known, err := w.of(demo).Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	values, why, err := known.Values(t.Context(), []string{name}, u)
	if err != nil {
		t.Fatal(err)
	}
	return values[name], why
}

const api = "https://api.example.com/v1"

// Rules: KV-02.
func TestASecretIsForItsHostsOnly(t *testing.T) {
	w := newWorld()
	w.set("key", "id000001", "api.example.com, other.example.com:8443,http://web.team.svc:80", "the-value")
	w.set("unbound", "id000002", "", "the-value")
	for to, sent := range map[string]bool{
		api: true, "https://API.example.com:443/": true, "https://other.example.com:8443": true,
		"http://web.team.svc/": true, "https://other.example.com": false, "https://example.com": false,
		"http://api.example.com/": false, "https://api.example.com.evil.example/": false, "https://web.team.svc:80": false,
	} {
		value, why := w.value(t, "key", to)
		if sent != (value == "the-value" && why == "") || !sent && !strings.Contains(why, "may not be sent to") {
			t.Errorf("to %s: %q, %q", to, value, why)
		}
		if value, why := w.value(t, "unbound", to); value != "" || !strings.Contains(why, "may not be sent to") {
			t.Errorf("without hosts, to %s: %q, %q", to, value, why)
		}
	}
	for name, want := range map[string]string{
		"missing": "kubectl capstan secret set missing --session demo --host api.example.com --namespace team",
		"../key":  "is not a reference to a secret", "": "is not a reference", "KEY": "is not a reference",
		strings.Repeat("k", 64): "is not a reference", "a;rm -rf": "is not a reference",
	} {
		if value, why := w.value(t, name, api); value != "" || !strings.Contains(why, want) {
			t.Errorf("%q: %q, %q", name, value, why)
		}
	}
	if _, why := w.value(t, "missing", "https://a;reboot/"); strings.Contains(why, "reboot") {
		t.Errorf("a command has the host of a Tool: %q", why)
	}
}

// Rules: KV-02.
func TestASecretIsThatOfItsSessionOnly(t *testing.T) {
	for name, change := range map[string]func(*world){
		"another label":   func(w *world) { w.secret.Labels[v1alpha1.LabelSessionSecrets] = "uid-2" },
		"no label":        func(w *world) { w.secret.Labels = nil },
		"another Session": func(w *world) { w.secret.Annotations[v1alpha1.AnnotationSecretsSession] = "other" },
		"hosts of all":    func(w *world) { w.secret.Annotations[v1alpha1.AnnotationAllowedHosts] = "api.example.com" },
		"no annotation":   func(w *world) { delete(w.secret.Annotations, v1alpha1.AnnotationAllowedHosts) },
		"too many": func(w *world) {
			for i := range sessionsecret.MaxNames {
				w.set(fmt.Sprint("n", i), "id000001", "", "value")
			}
		},
		"no entry":      func(w *world) { delete(w.secret.Annotations, v1alpha1.AnnotationSecretPrefix+"key") },
		"a bad entry":   func(w *world) { w.secret.Annotations[v1alpha1.AnnotationSecretPrefix+"key"] = "{" },
		"a bad id":      func(w *world) { w.set("key", "../id", "api.example.com", "the-value") },
		"a long entry":  func(w *world) { w.set("key", "id000001", strings.Repeat("api.example.com,", 300), "the-value") },
		"a short value": func(w *world) { w.set("key", "id000001", "api.example.com", "abc") },
		"a long value": func(w *world) {
			w.set("key", "id000001", "api.example.com", strings.Repeat("x", sessionsecret.MaxValueBytes+1))
		},
		"a binary value": func(w *world) { w.set("key", "id000001", "api.example.com", "the-val\x00ue") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.set("key", "id000001", "api.example.com", "the-value")
			if value, why := w.value(t, "key", api); value != "the-value" || why != "" {
				t.Fatal(value, why)
			}
			change(w)
			if value, why := w.value(t, "key", api); value != "" || why == "" || strings.Contains(why, "the-val") {
				t.Errorf("%q, %q", value, why)
			}
		})
	}
	w := newWorld()
	w.set("key", "id000001", "api.example.com", "the-value")
	for _, other := range []record.Session{
		{Namespace: "other", Name: "demo", UID: "uid-1"},
		{Namespace: "team", Name: "demo", UID: "uid-2"},
		{Namespace: "team", Name: "other", UID: "uid-1"},
	} {
		u, err := url.Parse(api)
		if err != nil {
			t.Fatal(err)
		}
		known, err := w.of(other).Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		values, why, err := known.Values(t.Context(), []string{"key"}, u)
		if err != nil || why == "" || len(values) > 0 {
			t.Errorf("%v: %v, %q, %v", other, values, why, err)
		}
		if other.UID != demo.UID && len(known.Hidden()) > 0 {
			t.Errorf("%v has the values of another Session", other)
		}
	}
}

// Rules: KV-02.
func TestADeletedSecretIsUnusableUntilItIsSetAgain(t *testing.T) {
	w := newWorld()
	names := func(want ...string) {
		t.Helper()
		got, err := w.of(demo).Names(t.Context())
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%v, %v, want %v", got, err, want)
		}
	}
	step := int64(0)
	remove := func(cause record.Cause, name string, want bool) {
		t.Helper()
		if existed, err := w.of(demo).Delete(t.Context(), cause, name); err != nil || existed != want {
			t.Fatalf("%s existed: %t, %v", name, existed, err)
		}
	}
	next := func() record.Cause { step++; return record.Cause{Step: step, Key: fmt.Sprint("turn/", step)} }
	names()
	remove(next(), "key", false)
	w.set("key", "id000001", "api.example.com", "the-value")
	w.set("other", "id000002", "api.example.com", "another")
	names("key", "other")
	first := next()
	remove(first, "key", true)
	remove(first, "key", true) // the same call
	remove(next(), "key", false)
	names("other")
	if value, why := w.value(t, "key", api); value != "" || !strings.Contains(why, "was deleted in this session") {
		t.Fatal(value, why)
	}
	w.set("key", "id000003", "api.example.com", "the-value")
	names("key", "other")
	if value, why := w.value(t, "key", api); value != "the-value" {
		t.Fatal(why)
	}
	remove(next(), "key", true)
	index, err := w.store.List(t.Context(), demo.Scope("storage"))
	if err != nil || len(index.Items) != 1 {
		t.Errorf("deletions of old values are kept: %v, %v", index.Items, err)
	}
	if _, err := w.of(demo).Delete(t.Context(), next(), "a/b"); !errors.As(err, new(*record.ExplainedError)) {
		t.Errorf("an invalid name: %v", err)
	}
}

// Rules: KV-02.
func TestSecretsThatCannotBeReadAreExplained(t *testing.T) {
	w := newWorld()
	w.fails = apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "x", nil)
	if _, err := w.of(demo).Names(t.Context()); !errors.As(err, new(*record.ExplainedError)) {
		t.Error(err)
	}
	w.fails = errors.New("broken")
	if _, err := w.of(demo).Names(t.Context()); errors.As(err, new(*record.ExplainedError)) || err == nil {
		t.Error(err)
	}
	if name := sessionsecret.Name(types.UID("u")); name != "session-secrets-u" {
		t.Error(name)
	}
}

// A server may have got a value before the secret became unusable.
//
// Rules: KV-02.
func TestAllValuesOfASessionAreHidden(t *testing.T) {
	w := newWorld()
	w.set("key", "id000001", "api.example.com", "the-value")
	w.set("elsewhere", "id000002", "other.example.com", "another-value")
	w.set("short", "id000003", "", "abc")
	w.set("long", "id000004", "", strings.Repeat("x", sessionsecret.MaxValueBytes+1))
	step := record.Cause{Step: 1, Key: "turn/1"}
	if _, err := w.of(demo).Delete(t.Context(), step, "key"); err != nil {
		t.Fatal(err)
	}
	hidden := func(want ...string) {
		t.Helper()
		known, err := w.of(demo).Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := slices.Sorted(slices.Values(known.Hidden()))
		if !slices.Equal(got, want) {
			t.Errorf("it hides %q, want %q", got, want)
		}
	}
	hidden("another-value", "the-value")
	w.secret.Labels = nil
	delete(w.secret.Annotations, v1alpha1.AnnotationSecretPrefix+"elsewhere")
	hidden("another-value", "the-value")
	for i := range sessionsecret.MaxNames {
		w.set(fmt.Sprint("n", i), "id000001", "", "value")
	}
	hidden()
}
