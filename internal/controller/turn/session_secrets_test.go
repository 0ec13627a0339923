package turn

import (
	"context"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/sessionsecret"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/internal/testing/site"
)

// The server of a call without a reference has the value from another one, which a tool of the Turn permits.
//
// Rules: KV-02.
func TestTheResultsOfATurnWhoseToolsPermitSecretsHaveNone(t *testing.T) {
	for permitted, want := range map[bool]string{true: "It is [redacted].", false: "It is hunter2-hunter2."} {
		w := newWorld(t)
		w.respond = func(string) string { return "It is hunter2-hunter2." }
		create := w.site("create", v1alpha1.SideEffectPure)
		if permitted {
			create.Spec.HTTP.SecretArguments = []v1alpha1.SecretArgument{"/body"}
		}
		w.begin(w.site("get", v1alpha1.SideEffectPure), create)
		m, reads := w.manager(0), &atomic.Int32{}
		session := w.session()
		secret := builder.SessionSecrets(session.Namespace, session.Name, session.UID,
			map[string]string{"key": "hunter2-hunter2"})
		m.Steps.Secrets = func(_ context.Context, _, name string) (*corev1.Secret, error) {
			reads.Add(1)
			if name != sessionsecret.Name(session.UID) {
				return nil, site.NotFound(name)
			}
			return secret, nil
		}
		m.until("the end", w.finished)
		if got := w.call("get").Preview; got != want {
			t.Errorf("where secrets are permitted: %t, the result is %q", permitted, got)
		}
		if permitted != (reads.Load() > 0) {
			t.Errorf("where secrets are permitted: %t, the Secret was read %d times", permitted, reads.Load())
		}
	}
}
