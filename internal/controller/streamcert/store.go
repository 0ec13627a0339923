package streamcert

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// Name is the name of the Secret and of the ConfigMap, and that of the Service.
	Name = "capstan-stream"
	// KeyCA is the key of the ConfigMap with the certificates of the authority.
	KeyCA = "ca.crt"
	// KeyAddress is the key with the address at which clients reach the manager; absent if none is configured.
	KeyAddress = "address"

	// keyRing is the key of the Secret.
	keyRing = "certificates.json"
	// lookSoon is the time after which a failed rotation is tried again.
	lookSoon = 10 * time.Second
	// rotateTimeout bounds a rotation.
	rotateTimeout = 10 * time.Second
)

// Options are the settings of a Store.
type Options struct {
	// Live reads past the cache, which has no Secrets.
	Live client.Reader
	// Client writes.
	Client client.Writer
	// Namespace of the manager.
	Namespace string
	// Names of the server, which its certificate is for.
	Names []string
	// Address at which clients reach it; empty for none.
	Address string
	// Clock returns the current time.
	Clock func() time.Time
}

// Store has the serving certificate of the leader. It reads and writes when it is used first, and when something is to
// be rotated. The objects are part of the installation: the manager may not create any.
type Store struct {
	Options

	mu   sync.Mutex
	kept *tls.Certificate
	due  time.Time
	// failed is why there is no certificate, until due.
	failed error
}

// New returns a Store.
func New(o Options) *Store { return &Store{Options: o} }

// ServiceNames are the names of the Service in a namespace.
func ServiceNames(namespace string) []string {
	return []string{Name + "." + namespace + ".svc", Name + "." + namespace, Name}
}

// Get implements tls.Config.GetCertificate. One that is still valid is served while it cannot be replaced.
func (s *Store) Get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	return s.Certificate(hello.Context())
}

// Certificate returns the serving certificate. What signs it is published before.
func (s *Store) Certificate(ctx context.Context) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Clock()
	if now.Before(s.due) && (s.kept != nil || s.failed != nil) {
		return s.kept, s.failed
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rotateTimeout)
	defer cancel()
	r, err := s.rotate(ctx, now)
	if err != nil {
		if s.kept == nil || !now.Before(s.kept.Leaf.NotAfter) {
			s.kept, s.failed, s.due = nil, err, now.Add(lookSoon)
			return nil, err
		}
		log.FromContext(ctx).Error(err, "Failed to rotate the certificate of event streams")
		s.due = now.Add(lookSoon)
		return s.kept, nil
	}
	s.kept, s.failed, s.due = r.certificate(), nil, r.due()
	return s.kept, nil
}

// rotate brings the Secret and the ConfigMap up to date.
func (s *Store) rotate(ctx context.Context, now time.Time) (ring, error) {
	key := types.NamespacedName{Namespace: s.Namespace, Name: Name}
	secret := &corev1.Secret{}
	if err := s.Live.Get(ctx, key, secret); err != nil {
		return ring{}, fmt.Errorf("reading the certificate of event streams: %w", err)
	}
	stored, err := parseRing(secret.Data[keyRing])
	if err != nil {
		return ring{}, fmt.Errorf("reading Secret %s: %w; empty it, and the manager makes a new one", key, err)
	}
	next, changed, err := stored.rotated(now, s.Names)
	if err != nil {
		return ring{}, err
	}
	if changed {
		raw, err := json.Marshal(next)
		if err != nil {
			return ring{}, errors.New("encoding the certificate of event streams")
		}
		secret.Data = map[string][]byte{keyRing: raw}
		// Another process may have changed it meanwhile: the update fails then.
		if err := s.Client.Update(ctx, secret); err != nil {
			return ring{}, fmt.Errorf("writing the certificate of event streams: %w", err)
		}
	}
	return next, s.publish(ctx, next.bundle())
}

// Publish publishes an authority that is not the manager's own.
func (s *Store) Publish(ctx context.Context, bundle string) error { return s.publish(ctx, bundle) }

func (s *Store) publish(ctx context.Context, bundle string) error {
	public := &corev1.ConfigMap{}
	if err := s.Live.Get(ctx, types.NamespacedName{Namespace: s.Namespace, Name: Name}, public); err != nil {
		return fmt.Errorf("reading the address of event streams: %w", err)
	}
	want := map[string]string{}
	if bundle != "" {
		want[KeyCA] = bundle
	}
	if s.Address != "" {
		want[KeyAddress] = s.Address
	}
	if maps.Equal(public.Data, want) {
		return nil
	}
	public.Data = want
	if err := s.Client.Update(ctx, public); err != nil {
		return fmt.Errorf("publishing the address of event streams: %w", err)
	}
	return nil
}
