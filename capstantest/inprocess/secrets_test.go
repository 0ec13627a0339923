package inprocess_test

import (
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest/inprocess"
	"github.com/capstan-dev/capstan/capstantest/providers"
)

// guardedSite is a server of the test, with the options that let a Runtime reach it.
func guardedSite(
	t *testing.T,
	handle http.HandlerFunc,
) (url string, requests *atomic.Int32, options []inprocess.Option) {
	requests = &atomic.Int32{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		handle(w, r)
	}))
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	return server.URL, requests, []inprocess.Option{
		inprocess.WithEgressRoots(roots), inprocess.WithEgressAllow(netip.MustParsePrefix("127.0.0.0/8")),
	}
}

func secret(name string, data map[string]string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data}
}

// expectWait checks that a Turn waits for a reference, and that its condition gives the remedy.
func expectWait(t *testing.T, turn *v1alpha1.Turn, because, remedy string) {
	t.Helper()
	if turn.Status.Phase != v1alpha1.TurnPhaseWaiting || reason(turn) != "Unknown "+because ||
		len(turn.Status.WaitsFor) != 1 {
		t.Fatalf("the Turn does not wait for %s: %+v", because, turn.Status)
	}
	if wait := turn.Status.WaitsFor[0]; wait.Type != v1alpha1.WaitTypeReference || wait.Reason != because ||
		!strings.Contains(wait.Message, remedy) {
		t.Errorf("the Turn waits for %+v", wait)
	}
}

const guardedTool = `
apiVersion: capstan.dev/v1alpha1
kind: Tool
metadata: {name: weather}
spec:
  description: Reports the weather.
  http: {url: "%URL%", method: GET, headers: [{name: Authorization, secretKeyRef: {name: key, key: token}}]}
---
apiVersion: capstan.dev/v1alpha1
kind: Session
metadata: {name: demo}
spec: {harnessRef: {name: base}, tools: [{name: weather}]}
`

func TestACallWaitsForTheSecretOfAHeader(t *testing.T) {
	url, requests, options := guardedSite(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer x" {
			_, _ = w.Write([]byte("rain"))
		}
	})
	runtime := start(t, append(options, inprocess.WithYAML(strings.ReplaceAll(guardedTool, "%URL%", url)),
		inprocess.WithSimulation(calling([]string{"weather", "look"})), inprocess.WithTools(returns("the sky")))...)
	turn := run(t, runtime, message("demo-1", "Go."))
	expectWait(
		t,
		turn,
		v1alpha1.ReasonSecretMissing,
		"kubectl create secret generic key --namespace default --from-literal=token=",
	)
	if calls := turn.Status.ToolCalls; calls[0].State != v1alpha1.ToolCallStatePending ||
		calls[1].State != v1alpha1.ToolCallStateSucceeded {
		t.Errorf("the calls are %+v", calls)
	}

	if err := runtime.Apply(secret("key", map[string]string{"other": "x"})); err != nil {
		t.Fatal(err)
	}
	turn, err := runtime.Await(t.Context(), "demo-1")
	if err != nil {
		t.Fatal(err)
	}
	expectWait(t, turn, v1alpha1.ReasonSecretKeyMissing, "kubectl patch secret key")
	if requests.Load() != 0 {
		t.Error("a request was sent without the Secret")
	}

	if err := runtime.Apply(secret("key", map[string]string{"token": "Bearer x"})); err != nil {
		t.Fatal(err)
	}
	turn, err = runtime.Await(t.Context(), "demo-1")
	if err != nil || reason(turn) != "True EndTurn" || turn.Status.ToolCalls[0].Preview != "rain" || requests.Load() != 1 {
		t.Errorf("with the Secret: %+v, %v, %d requests", turn.Status, err, requests.Load())
	}
}

func TestATurnThatWaitsForASecretCanBeCancelled(t *testing.T) {
	url, requests, options := guardedSite(t, func(http.ResponseWriter, *http.Request) {})
	runtime := start(t, append(options, inprocess.WithYAML(strings.ReplaceAll(guardedTool, "%URL%", url)),
		inprocess.WithSimulation(calling([]string{"weather"})))...)
	run(t, runtime, message("demo-1", "Go."))
	turn, err := runtime.Cancel(t.Context(), "demo-1")
	if err != nil || reason(turn) != "False Cancelled" || requests.Load() != 0 {
		t.Errorf("cancelled: %+v, %v, %d requests", turn.Status, err, requests.Load())
	}
}

func TestASessionWhoseModelHasNoKeyCannotBeUsed(t *testing.T) {
	_, err := inprocess.New(t.Context(), inprocess.WithYAML(base), inprocess.WithYAML(realModel),
		inprocess.WithProviders(providers.All()))
	if err == nil ||
		!strings.Contains(err.Error(), "(SecretMissing). "+`Secret "key" does not exist. Create it: kubectl`) {
		t.Errorf("New = %v", err)
	}
}

func TestATurnWaitsForTheKeyOfItsModel(t *testing.T) {
	url, requests, options := guardedSite(
		t,
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
	)
	keyed := &v1alpha1.Model{
		ObjectMeta: metav1.ObjectMeta{
			Name:        "simulated",
			Annotations: map[string]string{v1alpha1.AnnotationDefaultModel: "true"},
		},
	}
	keyed.Spec = v1alpha1.ModelSpec{
		Provider:     v1alpha1.ModelProviderOpenAI,
		Model:        "m",
		BaseURL:      url + "/v1",
		SecretKeyRef: &v1alpha1.SecretKeyReference{Name: "key", Key: "token"},
	}
	var runtime *inprocess.Runtime
	runtime = start(t, append(options, inprocess.WithProviders(providers.All()),
		inprocess.WithSimulation(calling([]string{"look"})),
		inprocess.WithTools(func(inprocess.Call) (string, string, int) {
			// The Model gets another spec between the two model calls of the Turn.
			if err := runtime.Apply(keyed); err != nil {
				return "", err.Error(), 1
			}
			return "the sky", "", 0
		}))...)
	turn := run(t, runtime, message("demo-1", "Go."))
	expectWait(t, turn, v1alpha1.ReasonSecretMissing, "kubectl create secret generic key")
	if err := runtime.Apply(secret("key", map[string]string{"token": "sk-x"})); err != nil {
		t.Fatal(err)
	}
	turn, err := runtime.Await(t.Context(), "demo-1")
	if err != nil || reason(turn) != "False ProviderMisconfigured" || requests.Load() == 0 {
		t.Errorf("with the key: %s, %v, %d requests", reason(turn), err, requests.Load())
	}
}

func TestApplyAcceptsNoOtherKind(t *testing.T) {
	runtime := start(t, inprocess.WithSimulation(calling()))
	if err := runtime.Apply(&corev1.ConfigMap{}); err == nil || !strings.Contains(err.Error(), "ConfigMap") {
		t.Errorf("Apply = %v", err)
	}
}
