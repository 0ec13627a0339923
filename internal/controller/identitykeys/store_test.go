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
	// read is called before each read, and its error is that of the read.
	read func(context.Context) error
}

func newBench(objects ...client.Object) *bench {
	b := &bench{now: start}
	b.client = fake.NewClientBuilder().WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption,
		) error {
			b.reads++
			if b.read != nil {
				if err := b.read(ctx); err != nil {
					return err
				}
			}
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
	return New(Options{
		Live: b.client, Client: b.client, Namespace: "capstan-system", Issuer: "capstan",
		Clock: func() time.Time { return b.now },
	})
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

func TestWhileTheKeysCannotBeReadTheKeptOnesSign(t *testing.T) {
	b := newBench(installed()...)
	key, err := b.Signing(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	b.read = func(context.Context) error { return broken }
	b.now, b.reads = start.Add(lookAgain), 0
	for range 10 {
		if again, err := b.Signing(t.Context()); err != nil || again.ID != key.ID {
			t.Fatalf("Signing = %v, %v", again, err)
		}
	}
	if b.reads != 1 {
		t.Errorf("%d reads", b.reads)
	}
	b.now = b.now.Add(lookSoon)
	if again, err := b.Signing(t.Context()); err != nil || again.ID != key.ID || b.reads != 2 {
		t.Errorf("after the failure: %v, %v, %d reads", again, err, b.reads)
	}
	// Another process may have replaced the keys, and ended the publication of the old ones.
	b.now = start.Add(maxAge)
	if again, err := b.Signing(t.Context()); !errors.Is(err, broken) {
		t.Errorf("keys that are too old sign: %v, %v", again, err)
	}
	b.read = nil
	if again, err := b.Signing(t.Context()); err != nil || again.ID != key.ID {
		t.Errorf("Signing = %v, %v", again, err)
	}
}

func TestMissingObjectsAreNotReadAtEachAttempt(t *testing.T) {
	b := newBench()
	for range 10 {
		if _, err := b.Signing(t.Context()); !errors.Is(err, identity.ErrNoKeys) {
			t.Fatalf("Signing: %v", err)
		}
	}
	if b.reads != 1 {
		t.Errorf("%d reads", b.reads)
	}
	for _, o := range installed() {
		if err := b.client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	b.now = b.now.Add(keepMissing)
	if key, err := b.Signing(t.Context()); err != nil || key == nil {
		t.Errorf("after the installation: %v, %v", key, err)
	}
}

func TestASignerWaitsForTheKeysOnlyAsLongAsItsContext(t *testing.T) {
	b := newBench(installed()...)
	blocked, release := make(chan struct{}), make(chan struct{})
	b.read = func(context.Context) error {
		blocked <- struct{}{}
		<-release
		return nil
	}
	type signed struct {
		key *identity.Key
		err error
	}
	begin := func() chan signed {
		done := make(chan signed, 1)
		go func() {
			key, err := b.Signing(context.Background())
			done <- signed{key, err}
		}()
		<-blocked
		return done
	}
	end := func(done chan signed) *identity.Key {
		close(release)
		<-blocked
		first := <-done
		if first.err != nil {
			t.Fatal(first.err)
		}
		return first.key
	}
	first := begin()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if key, err := b.Signing(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a signer that has left has %v, %v", key, err)
	}
	key := end(first)

	b.now, release = start.Add(lookAgain), make(chan struct{})
	again := begin()
	if other, err := b.Signing(t.Context()); err != nil || other.ID != key.ID {
		t.Errorf("while the keys are read again: %v, %v", other, err)
	}
	if other := end(again); other.ID != key.ID {
		t.Errorf("Signing = %v, want %v", other.ID, key.ID)
	}
}

// A person who replaces all keys empties the Secret, and then the key set, in which the old keys are.
func TestEmptiedKeysAreReplacedAndPublishedBeforeTheNextOneSigns(t *testing.T) {
	b := newBench(installed()...)
	old, err := b.Signing(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range installed() {
		if err := b.client.Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	b.now = start.Add(lookAgain)
	key, err := b.Signing(t.Context())
	if err != nil || key.ID == old.ID || !strings.Contains(b.published(t), key.ID) ||
		strings.Contains(b.published(t), old.ID) {
		t.Errorf("%v, %v signs, and the key set is %s", key, err, b.published(t))
	}
	// Only the key set was emptied: it is written before the next token.
	if err := b.client.Update(t.Context(), installed()[1]); err != nil {
		t.Fatal(err)
	}
	b.now = b.now.Add(lookAgain)
	if again, err := b.Signing(t.Context()); err != nil || again.ID != key.ID ||
		!strings.Contains(b.published(t), key.ID) {
		t.Errorf("%v, %v signs, and the key set is %s", again, err, b.published(t))
	}
}
