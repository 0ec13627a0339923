package streamcert

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// bench is a Store whose writes are counted.
type bench struct {
	*Store
	t      *testing.T
	now    time.Time
	fail   error
	writes int
	reads  int
}

func newBench(t *testing.T) *bench {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: "capstan-system", Name: Name}
	b := &bench{t: t, now: start}
	of := fake.NewClientBuilder().WithObjects(&corev1.Secret{ObjectMeta: meta}, &corev1.ConfigMap{ObjectMeta: meta}).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(
				ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption,
			) error {
				b.reads++
				return c.Get(ctx, key, o, opts...)
			},
			Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
				if b.fail != nil {
					return b.fail
				}
				b.writes++
				return c.Update(ctx, o, opts...)
			},
		}).Build()
	b.Store = New(Options{
		Live: of, Client: of, Namespace: "capstan-system", Address: "stream.example.com:443",
		Names: append(ServiceNames("capstan-system"), "stream.example.com", "192.0.2.1"),
		Clock: func() time.Time { return b.now },
	})
	return b
}

// another is a Store of another process.
func (b *bench) another() *bench {
	other := *b
	other.Store = New(b.Options)
	return &other
}

// served returns the serving certificate, after a client has verified it with a bundle.
func (b *bench) served(bundle string) *tls.Certificate {
	b.t.Helper()
	c, err := b.Certificate(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(bundle))
	for _, name := range []string{"capstan-stream.capstan-system.svc", "stream.example.com", "192.0.2.1"} {
		if _, err := c.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: b.now}); err != nil {
			b.t.Errorf("at %s a client does not accept the certificate for %s: %v", b.now, name, err)
		}
	}
	return c
}

// published is what clients read.
func (b *bench) published() string {
	b.t.Helper()
	public := &corev1.ConfigMap{}
	if err := b.Live.Get(b.t.Context(), client.ObjectKey{Namespace: "capstan-system", Name: Name}, public); err != nil {
		b.t.Fatal(err)
	}
	if public.Data[KeyAddress] != "stream.example.com:443" || strings.Contains(public.Data[KeyCA], "KEY") {
		b.t.Errorf("the ConfigMap is %v", public.Data)
	}
	return public.Data[KeyCA]
}

func TestTheCertificateIsMadeOnceAndPublished(t *testing.T) {
	b := newBench(t)
	first, err := b.Certificate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b.served(b.published())
	reads := b.reads
	for range 10 {
		b.served(b.published())
	}
	if b.writes != 2 || b.reads != reads+10 {
		t.Errorf("%d writes, %d reads", b.writes, b.reads-reads)
	}
	other := b.another()
	if again := other.served(b.published()); !slices.Equal(again.Certificate[0], first.Certificate[0]) || b.writes != 2 {
		t.Errorf("another process has another certificate, after %d writes", b.writes)
	}
}

// TestEveryClientAcceptsTheCertificateForYears: with what was published when it connected, and with what was published
// a day before.
func TestEveryClientAcceptsTheCertificateForYears(t *testing.T) {
	b := newBench(t)
	before := ""
	certificates, bundles := map[string]bool{}, map[string]bool{}
	for day := range 5 * 365 {
		b.now = start.Add(time.Duration(day) * 24 * time.Hour)
		c, err := b.Certificate(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		now := b.published()
		b.served(now)
		if before != "" {
			b.served(before)
		}
		if left := c.Leaf.NotAfter.Sub(b.now); left < servingRest-24*time.Hour {
			t.Fatalf("on day %d the certificate is valid for %s", day, left)
		}
		before = now
		certificates[string(c.Certificate[0])], bundles[now] = true, true
	}
	if len(certificates) < 25 || len(bundles) < 8 || strings.Count(before, "BEGIN") > maxAuthorities {
		t.Errorf("%d certificates, %d bundles", len(certificates), len(bundles))
	}
}

func TestAnotherNameNeedsAnotherCertificate(t *testing.T) {
	b := newBench(t)
	b.served(func() string { _, _ = b.Certificate(t.Context()); return b.published() }())
	b.Options.Names = append(b.Options.Names, "other.example.com")
	c, err := b.another().Certificate(t.Context())
	if err != nil || !slices.Contains(c.Leaf.DNSNames, "other.example.com") {
		t.Errorf("the certificate is for %v, %v", c.Leaf.DNSNames, err)
	}
}

func TestTheCertificateIsServedWhileItCannotBeReplaced(t *testing.T) {
	b := newBench(t)
	b.fail = errors.New("broken")
	if _, err := b.Certificate(t.Context()); err == nil {
		t.Error("a certificate that is not published is served")
	}
	b.fail = nil
	if _, err := b.Certificate(t.Context()); err == nil {
		t.Error("each connection asks the API server for a certificate that cannot be had")
	}
	issued := start.Add(lookSoon)
	b.now = issued
	first, err := b.Certificate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b.fail, b.now = errors.New("broken"), issued.Add(servingLife-servingRest)
	if again, err := b.Certificate(t.Context()); err != nil || again != first {
		t.Errorf("%v, %v", again, err)
	}
	b.now = issued.Add(servingLife)
	if _, err := b.Certificate(t.Context()); err == nil {
		t.Error("a certificate that has expired is served")
	}
	b.fail, b.now = nil, b.now.Add(lookSoon)
	b.served(func() string { _, _ = b.Certificate(t.Context()); return b.published() }())
}

func TestADamagedSecretIsReportedWithoutItsContent(t *testing.T) {
	for _, damaged := range []string{"secret-content", `{"serving":{"certificate":"c2VjcmV0","key":"c2VjcmV0"}}`} {
		if _, err := parseRing([]byte(damaged)); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("the error is %v", err)
		}
	}
}
