package identitykeys

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capstan-dev/capstan/internal/runtime/identity"
)

const (
	// keyRing is the key of the Secret with the keys.
	keyRing = "keys.json"
	// keySet is the key of the ConfigMap with the JSON Web Key Set, and keyIssuer that with the issuer of the tokens.
	keySet    = "jwks.json"
	keyIssuer = "issuer"
	// lookAgain is the time after which the keys are read again when a token is signed. A person may have removed them.
	lookAgain = 5 * time.Minute
	// lookSoon is the time after which they are read again when that failed, and keepMissing when they were missing.
	lookSoon, keepMissing = 10 * time.Second, 5 * time.Second
	// maxAge is how long keys sign that cannot be read again. Another process that replaces them meanwhile publishes
	// them for longer than that.
	maxAge = identity.Lead
)

// Options are the settings of a Store.
type Options struct {
	// Live reads past the cache, which has no Secrets.
	Live client.Reader
	// Client writes.
	Client client.Writer
	// Namespace of the manager.
	Namespace string
	// Issuer of the tokens, for verifiers.
	Issuer string
	// Clock returns the current time.
	Clock func() time.Time
}

// Store has the keys of this installation. It reads and writes only when a token is signed, so that an installation
// without tokens costs nothing. The objects are part of the installation: the manager may not create any.
type Store struct {
	Options

	// looking is held while the keys are read, and kept is what was read last.
	looking *semaphore.Weighted
	kept    atomic.Pointer[kept]
}

var _ identity.Keys = &Store{}

// New returns a Store.
func New(o Options) *Store { return &Store{Options: o, looking: semaphore.NewWeighted(1)} }

// kept is what a Store knows.
type kept struct {
	ring identity.Ring
	// err reports that there are no keys.
	err error
	// next is when the keys are read again, and until is how long they sign if that fails.
	next, until time.Time
}

// signing returns the key that signs at a time.
func (k *kept) signing(now time.Time) (*identity.Key, error) {
	return k.ring.Signing(now), k.err
}

// Signing implements identity.Keys. A key signs only after its public part was published. While one caller reads the
// keys again the others sign with those that are kept.
func (s *Store) Signing(ctx context.Context) (*identity.Key, error) {
	known, now := s.known(), s.Clock()
	if now.Before(known.next) {
		return known.signing(now)
	}
	if !s.looking.TryAcquire(1) {
		if now.Before(known.until) {
			return known.signing(now)
		}
		if err := s.looking.Acquire(ctx, 1); err != nil {
			return nil, fmt.Errorf("waiting for the keys of identity tokens: %w", err)
		}
	}
	defer s.looking.Release(1)
	known, now = s.known(), s.Clock()
	if !now.Before(known.next) {
		var err error
		if known, err = s.look(ctx, known, now); err != nil {
			return nil, err
		}
		s.kept.Store(known)
	}
	return known.signing(now)
}

// known is what was read last.
func (s *Store) known() *kept {
	if known := s.kept.Load(); known != nil {
		return known
	}
	return &kept{}
}

// look returns what a Store knows after it has read the keys, or has failed to.
func (s *Store) look(ctx context.Context, before *kept, now time.Time) (*kept, error) {
	ring, err := s.rotated(ctx, now)
	if err == nil {
		err = s.publish(ctx, ring)
	}
	switch {
	case err == nil:
		return &kept{ring: ring, next: now.Add(lookAgain), until: now.Add(maxAge)}, nil
	case errors.Is(err, identity.ErrNoKeys):
		return &kept{err: err, next: now.Add(keepMissing)}, nil
	case now.Before(before.until):
		log.FromContext(ctx).Error(err, "Failed to read the keys of identity tokens again, the previous ones sign")
		return &kept{ring: before.ring, next: now.Add(lookSoon), until: before.until}, nil
	}
	return nil, err
}

// rotated returns the keys in the Secret, after those that are due are made and stored.
func (s *Store) rotated(ctx context.Context, now time.Time) (identity.Ring, error) {
	secret := &corev1.Secret{}
	if err := s.get(ctx, secret); err != nil {
		return nil, err
	}
	var ring identity.Ring
	if raw := secret.Data[keyRing]; len(raw) > 0 {
		var err error
		if ring, err = identity.Decode(raw); err != nil {
			return nil, fmt.Errorf("%w: Secret %s: %w", identity.ErrNoKeys, identity.KeysName, err)
		}
	}
	ring, changed, err := ring.Rotated(now)
	if err != nil || !changed {
		return ring, err
	}
	raw, err := ring.Encode()
	if err != nil {
		return nil, err
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	secret.Data[keyRing] = raw
	// Another manager may have made a key at the same time: then the update conflicts, and the keys are read again.
	if err := s.Client.Update(ctx, secret); err != nil {
		return nil, fmt.Errorf("storing the keys in Secret %s: %w", identity.KeysName, err)
	}
	return ring, nil
}

// publish writes the public keys to the ConfigMap, unless it has them.
func (s *Store) publish(ctx context.Context, ring identity.Ring) error {
	set, err := ring.KeySet()
	if err != nil {
		return err
	}
	published := &corev1.ConfigMap{}
	if err := s.get(ctx, published); err != nil {
		return err
	}
	if published.Data[keySet] == string(set) && published.Data[keyIssuer] == s.Issuer {
		return nil
	}
	if published.Data == nil {
		published.Data = map[string]string{}
	}
	published.Data[keySet], published.Data[keyIssuer] = string(set), s.Issuer
	if err := s.Client.Update(ctx, published); err != nil {
		return fmt.Errorf("publishing the key set in ConfigMap %s: %w", identity.KeysName, err)
	}
	return nil
}

// get reads an object of the installation. One that is missing, or must not be read, has to be installed by a person.
func (s *Store) get(ctx context.Context, o client.Object) error {
	err := s.Live.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: identity.KeysName}, o)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return fmt.Errorf("%w: %w", identity.ErrNoKeys, err)
	case err != nil:
		return fmt.Errorf("reading the keys of identity tokens: %w", err)
	}
	return nil
}
