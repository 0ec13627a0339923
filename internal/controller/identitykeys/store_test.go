package identitykeys

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capstan-dev/capstan/internal/runtime/identity"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// installed is what an installation has before the first token.
func installed() []client.Object {
	meta := metav1.ObjectMeta{Namespace: "capstan-system", Name: identity.KeysName}
	return []client.Object{&corev1.Secret{ObjectMeta: meta}, &corev1.ConfigMap{ObjectMeta: meta}}
}

// bench is a Store whose requests are counted.
type bench struct {
	*Store
	client client.Client
	now    time.Time
	reads  int
	writes []string
	fail   func(client.Object) error
}

func newBench(objects ...client.Object) *bench {
	b := &bench{now: start}
	b.client = fake.NewClientBuilder().WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption,
		) error {
			b.reads++
			return c.Get(ctx, key, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if b.fail != nil {
				if err := b.fail(o); err != nil {
					return err
				}
			}
			name := "Secret"
			if _, ok := o.(*corev1.ConfigMap); ok {
				name = "ConfigMap"
			}
			b.writes = append(b.writes, name)
			return c.Update(ctx, o, opts...)
		},
	}).Build()
	b.Store = b.another()
	return b
}

// another is a Store of another process.
func (b *bench) another() *Store {
	return &Store{
		Live: b.client, Client: b.client, Namespace: "capstan-system", Issuer: "capstan",
		Clock: func() time.Time { return b.now },
	}
}

// published is the key set.
func (b *bench) published(t *testing.T) string {
	t.Helper()
	set := &corev1.ConfigMap{}
	if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(installed()[1]), set); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(set.Data[keySet], `"d"`) || strings.Contains(set.Data[keySet], "pkcs8") {
		t.Errorf("the key set is %s", set.Data[keySet])
	}
	return set.Data[keySet]
}

func TestTheKeysAreMadeOnceAndPublishedBeforeTheySign(t *testing.T) {
	b := newBench(installed()...)
	key, err := b.Signing(t.Context())
	if err != nil || key == nil {
		t.Fatalf("Signing = %v, %v", key, err)
	}
	if !strings.Contains(b.published(t), key.ID) || strings.Join(b.writes, " ") != "Secret ConfigMap" {
		t.Errorf("after %v the key set is %s", b.writes, b.published(t))
	}
	reads := b.reads
	for range 100 {
		if again, err := b.Signing(t.Context()); err != nil || again.ID != key.ID {
			t.Fatalf("Signing = %v, %v", again, err)
		}
	}
	if b.reads != reads || len(b.writes) != 2 {
		t.Errorf("%d reads and %d writes more", b.reads-reads, len(b.writes)-2)
	}
	other, err := b.another().Signing(t.Context())
	if err != nil || other.ID != key.ID || len(b.writes) != 2 {
		t.Errorf("another process signs with %v, %v, after %v", other, err, b.writes)
	}
	b.now = start.Add(identity.Period)
	if again, err := b.Signing(t.Context()); err != nil || again.ID != key.ID || len(b.writes) != 4 {
		t.Errorf("a new key signs before verifiers know it: %v, %v, %v", again, err, b.writes)
	}
	b.now = b.now.Add(identity.Lead)
	if again, err := b.Signing(t.Context()); err != nil || again.ID == key.ID ||
		!strings.Contains(b.published(t), again.ID) {
		t.Errorf("the new key does not sign: %v, %v", again, err)
	}
}

func TestAKeyThatCannotBePublishedSignsNothing(t *testing.T) {
	b := newBench(installed()...)
	broken := errors.New("broken")
	b.fail = func(o client.Object) error {
		if _, ok := o.(*corev1.ConfigMap); ok {
			return broken
		}
		return nil
	}
	if key, err := b.Signing(t.Context()); !errors.Is(err, broken) || errors.Is(err, identity.ErrNoKeys) {
		t.Errorf("Signing = %v, %v", key, err)
	}
	b.fail = nil
	key, err := b.Signing(t.Context())
	if err != nil || !strings.Contains(b.published(t), key.ID) {
		t.Errorf("Signing = %v, %v", key, err)
	}
	b.fail = func(client.Object) error { return broken }
	b.now = start.Add(identity.Period)
	if key, err := b.Signing(t.Context()); !errors.Is(err, broken) {
		t.Errorf("a key that is not stored: %v, %v", key, err)
	}
}

func TestWithoutTheObjectsOfTheInstallationNothingIsSigned(t *testing.T) {
	damaged := installed()
	damaged[0].(*corev1.Secret).Data = map[string][]byte{keyRing: []byte("x")}
	for name, objects := range map[string][]client.Object{
		"nothing": nil, "no Secret": installed()[1:], "no ConfigMap": installed()[:1], "damaged keys": damaged,
	} {
		b := newBench(objects...)
		if key, err := b.Signing(t.Context()); !errors.Is(err, identity.ErrNoKeys) || key != nil {
			t.Errorf("%s: %v, %v", name, key, err)
		}
	}
	b := newBench(installed()...)
	if _, err := b.Signing(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.client.Delete(t.Context(), installed()[0]); err != nil {
		t.Fatal(err)
	}
	b.now = start.Add(lookAgain)
	if _, err := b.Signing(t.Context()); !errors.Is(err, identity.ErrNoKeys) {
		t.Errorf("after the Secret was deleted: %v", err)
	}
}
