package invocation

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/credential"
	"github.com/capstan-dev/capstan/internal/runtime/journal/memory"
	"github.com/capstan-dev/capstan/internal/testing/site"
)

func secretHeader(name, key string) v1alpha1.HTTPHeader {
	return v1alpha1.HTTPHeader{
		Name:         "X-" + name + "-" + key,
		SecretKeyRef: &v1alpha1.SecretKeyReference{Name: name, Key: key},
	}
}

func TestACallWaitsForTheSecretsOfItsHeadersAndClaimsNothing(t *testing.T) {
	for name, test := range map[string]struct {
		read            credential.Reader
		reason, problem string
	}{
		"missing": {func(context.Context, string, string) (*corev1.Secret, error) {
			return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, "key")
		}, v1alpha1.ReasonSecretMissing, "kubectl create secret generic key --namespace ns --from-literal=token=YOUR_VALUE"},
		"without the key": {func(context.Context, string, string) (*corev1.Secret, error) {
			return &corev1.Secret{Data: map[string][]byte{"other": []byte("a")}}, nil
		}, v1alpha1.ReasonSecretKeyMissing, "kubectl patch secret key --namespace ns"},
		"not to be read": {func(context.Context, string, string) (*corev1.Secret, error) {
			return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "key", errors.New("no"))
		}, v1alpha1.ReasonRoleMissing, "kubectl create rolebinding capstan-manager-secrets --namespace ns"},
	} {
		for _, class := range []v1alpha1.SideEffect{v1alpha1.SideEffectAtMostOnce, v1alpha1.SideEffectIdempotent} {
			t.Run(name+", "+string(class), func(t *testing.T) {
				s := site.New(t, site.Fine)
				b := newBench(t).reaching(s)
				turn, call := requesting(s, class)
				call.Definition.Spec().HTTP.Headers = []v1alpha1.HTTPHeader{secretHeader("key", "token")}
				b.Secrets = test.read
				_, err := b.CarryOut(t.Context(), turn, call)
				var withheld *act.MissingSecret
				if !errors.As(err, &withheld) || withheld.Reason != test.reason ||
					!strings.Contains(withheld.Error(), test.problem) {
					t.Fatalf("it ends with %v", err)
				}
				if b.entries() != 0 || s.Requests() != 0 {
					t.Errorf("%d entries, %d requests", b.entries(), s.Requests())
				}
				b.Secrets = func(context.Context, string, string) (*corev1.Secret, error) {
					return &corev1.Secret{Data: map[string][]byte{"token": []byte("a")}}, nil
				}
				end, err := b.CarryOut(t.Context(), turn, call)
				if err != nil || end.Outcome.State != v1alpha1.ToolCallStateSucceeded || s.Requests() != 1 {
					t.Errorf("with the Secret it ends with %+v, %v after %d requests", end, err, s.Requests())
				}
			})
		}
	}
}

func TestWhatBecameOfAClaimedCallIsNotUpToItsSecrets(t *testing.T) {
	s, store := site.New(t, site.Fine), memory.New()
	b := onStore(t, store).reaching(s)
	turn, call := requesting(s, v1alpha1.SideEffectAtMostOnce)
	if _, err := b.CarryOut(t.Context(), turn, call); err != nil {
		t.Fatal(err)
	}
	_, again := requesting(s, v1alpha1.SideEffectAtMostOnce)
	again.Definition.Spec().HTTP.Headers = []v1alpha1.HTTPHeader{secretHeader("key", "token")}
	end, err := onStore(t, store).reaching(s).CarryOut(t.Context(), turn, again)
	if err != nil || end.Kept.Ordinal != 2 || end.Outcome.State != v1alpha1.ToolCallStateSucceeded || s.Requests() != 1 {
		t.Errorf("a call that has ended: %+v, %v after %d requests", end, err, s.Requests())
	}

	b = newBench(t).reaching(s)
	turn, call = requesting(s, v1alpha1.SideEffectAtMostOnce)
	b.claimFor(turn, "another process")
	call.Definition.Spec().HTTP.Headers = []v1alpha1.HTTPHeader{secretHeader("key", "token")}
	end, err = b.CarryOut(t.Context(), turn, call)
	if err != nil || end.Outcome.State != v1alpha1.ToolCallStateUnknown || s.Requests() != 1 {
		t.Errorf("a call that another process has claimed: %+v, %v after %d requests", end, err, s.Requests())
	}
}

func TestASecretIsReadOnceForAllHeaders(t *testing.T) {
	s := site.New(t, site.Fine)
	b := newBench(t).reaching(s)
	turn, call := requesting(s, v1alpha1.SideEffectPure)
	call.Definition.Spec().HTTP.Headers = []v1alpha1.HTTPHeader{
		secretHeader("one", "a"),
		secretHeader("two", "a"),
		secretHeader("one", "b"),
	}
	var read []string
	b.Secrets = func(_ context.Context, _, name string) (*corev1.Secret, error) {
		read = append(read, name)
		return &corev1.Secret{Data: map[string][]byte{"a": []byte("1"), "b": []byte("2")}}, nil
	}
	if _, err := b.CarryOut(t.Context(), turn, call); err != nil || strings.Join(read, " ") != "one two" {
		t.Errorf("read %q, %v", read, err)
	}
}
