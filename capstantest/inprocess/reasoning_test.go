package inprocess_test

import (
	"context"
	"crypto/x509"
	"net/http/httptest"
	"net/netip"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest/inprocess"
	"github.com/capstan-dev/capstan/capstantest/providers"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider/providertest"
)

// TestATurnOfAModelThatReasonsHasOnePrefix runs a tool loop against the double of each API, with another runtime
// after each step, for which the Harness and the Tool were edited.
func TestATurnOfAModelThatReasonsHasOnePrefix(t *testing.T) {
	for _, api := range providertest.APIs() {
		t.Run(api.Name, func(t *testing.T) {
			double := api.Loop("ask", `{}`)
			server := httptest.NewTLSServer(double)
			defer server.Close()
			roots := x509.NewCertPool()
			roots.AddCert(server.Certificate())
			model := &v1alpha1.Model{ObjectMeta: metav1.ObjectMeta{Name: "real", UID: "model-uid"}, Spec: api.Spec}
			model.Spec.BaseURL = server.URL
			model.Spec.SecretKeyRef = &v1alpha1.SecretKeyReference{Name: "key", Key: "token"}
			session := &v1alpha1.Session{ObjectMeta: metav1.ObjectMeta{Name: "demo"}, Spec: v1alpha1.SessionSpec{
				HarnessRef:  v1alpha1.LocalReference{Name: "base"},
				ConfigLayer: v1alpha1.ConfigLayer{ModelRef: &v1alpha1.LocalReference{Name: "real"}},
			}}
			store := inprocess.NewMemoryStore()
			var turn *v1alpha1.Turn
			for step, edited := range []string{"Be brief.", "Be verbose.", ""} {
				life, die := context.WithCancel(t.Context())
				runtime := startIn(life, t, inprocess.WithStore(store), inprocess.WithObjects(model, session,
					&v1alpha1.Harness{ObjectMeta: metav1.ObjectMeta{Name: "base"}, Spec: v1alpha1.HarnessSpec{
						ConfigLayer: v1alpha1.ConfigLayer{
							SystemPrompt: edited, Tools: []v1alpha1.LocalReference{{Name: "ask"}},
						},
					}},
					&v1alpha1.Tool{ObjectMeta: metav1.ObjectMeta{Name: "ask"}, Spec: v1alpha1.ToolSpec{
						Description: "Asks. " + edited, Client: &v1alpha1.ClientTool{},
					}}),
					inprocess.WithSecret("key", map[string]string{"token": "sk-1"}), inprocess.WithEgressRoots(roots),
					inprocess.WithEgressAllow(netip.MustParsePrefix("127.0.0.0/8")),
					inprocess.WithProviders(providers.All()))
				turn = run(t, runtime, message("demo-1", "Please rest."))
				for _, call := range turn.Status.ToolCalls {
					if step == 2 || call.State.Settled() {
						break
					}
					var err error
					if turn, err = runtime.Answer(t.Context(), "demo-1", call.ID, "Yes."); err != nil {
						t.Fatal(err)
					}
				}
				die()
			}
			if turn.Status.Output != "Good morning." {
				t.Fatalf("the Turn ended with %s: %+v", reason(turn), turn.Status)
			}
			if difference, err := double.Beginning(); difference != "" || err != nil {
				t.Error(difference, err)
			}
			if got := double.Returned(); got != 2 {
				t.Errorf("the last request has %d of 2 thoughts", got)
			}
			if got := len(double.Bodies()); got != len(double.Script) {
				t.Errorf("the model was called %d times", got)
			}
		})
	}
}
