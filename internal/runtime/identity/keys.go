package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	// Period is how long a key is the newest one, before the next one is made.
	Period = 30 * 24 * time.Hour
	// Lead is how long a key is published before it signs: verifiers keep a key set for a while.
	Lead = 24 * time.Hour

	// keyPrefix begins the id of each key. Texts are searched for tokens by it.
	keyPrefix = "capstan-"
	// maxKeys bounds the keys that are read back. There are three at most.
	maxKeys = 16
)

// Key signs tokens.
type Key struct {
	// ID names the key in tokens and in the key set.
	ID string
	// Created is when it was made.
	Created time.Time
	// Private is on the curve P-256.
	Private *ecdsa.PrivateKey
}

// NewKey returns the Key of a private key, which must be on the curve P-256.
func NewKey(private *ecdsa.PrivateKey, created time.Time) (*Key, error) {
	if private == nil || private.Curve != elliptic.P256() {
		return nil, errors.New("the key is not one of the curve P-256")
	}
	point, err := private.PublicKey.Bytes()
	if err != nil {
		return nil, fmt.Errorf("reading the public key: %w", err)
	}
	sum := sha256.Sum256(point)
	return &Key{
		ID:      keyPrefix + base64.RawURLEncoding.EncodeToString(sum[:12]),
		Created: created, Private: private,
	}, nil
}

// Ring is the keys of an installation, the newest one last.
type Ring []*Key

// Rotated returns the keys of a time: with a new one if the newest is older than Period, and without keys whose tokens
// have all ended. It also reports whether the keys have changed.
func (r Ring) Rotated(now time.Time) (Ring, bool, error) {
	next := slices.Clone(r)
	if len(next) == 0 || !now.Before(next[len(next)-1].Created.Add(Period)) {
		private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return r, false, fmt.Errorf("making a key: %w", err)
		}
		key, err := NewKey(private, now)
		if err != nil {
			return r, false, err
		}
		next = append(next, key)
	}
	// A key that another one has replaced is published as long as a token of it may be valid.
	for len(next) > 1 && !now.Before(next[1].Created.Add(Lead+Lifetime+Lead)) {
		next = next[1:]
	}
	return next, len(next) != len(r) || len(next) > 0 && next[len(next)-1] != r[len(r)-1], nil
}

// Signing returns the key that signs at a time: the newest one that was published long enough; nil for no keys.
func (r Ring) Signing(now time.Time) *Key {
	for _, key := range slices.Backward(r) {
		if !now.Before(key.Created.Add(Lead)) {
			return key
		}
	}
	if len(r) == 0 {
		return nil
	}
	return r[0]
}

// storedKey is a key as it is stored.
type storedKey struct {
	Created time.Time `json:"created"`
	// PKCS8 is the private key, in DER.
	PKCS8 []byte `json:"pkcs8"`
}

// Encode returns the keys in the form that is stored. It is a secret.
func (r Ring) Encode() ([]byte, error) {
	stored := make([]storedKey, len(r))
	for i, key := range r {
		raw, err := x509.MarshalPKCS8PrivateKey(key.Private)
		if err != nil {
			return nil, fmt.Errorf("encoding a key: %w", err)
		}
		stored[i] = storedKey{Created: key.Created.UTC(), PKCS8: raw}
	}
	return json.Marshal(stored)
}

// Decode returns keys from the form that is stored. Its errors have nothing of the keys.
func Decode(raw []byte) (Ring, error) {
	var stored []storedKey
	if json.Unmarshal(raw, &stored) != nil || len(stored) > maxKeys {
		return nil, errors.New("the keys are not readable")
	}
	ring := make(Ring, len(stored))
	for i, s := range stored {
		private, err := x509.ParsePKCS8PrivateKey(s.PKCS8)
		if err != nil {
			return nil, fmt.Errorf("key %d is not readable", i)
		}
		// A key of another kind is nil here, which NewKey refuses.
		onCurve, _ := private.(*ecdsa.PrivateKey)
		if ring[i], err = NewKey(onCurve, s.Created); err != nil {
			return nil, fmt.Errorf("key %d cannot be used: %w", i, err)
		}
	}
	slices.SortStableFunc(ring, func(a, b *Key) int { return a.Created.Compare(b.Created) })
	return ring, nil
}

// jwk is a public key in the form of RFC 7517.
type jwk struct {
	KeyType   string `json:"kty"`
	Curve     string `json:"crv"`
	X         string `json:"x"`
	Y         string `json:"y"`
	ID        string `json:"kid"`
	Algorithm string `json:"alg"`
	Use       string `json:"use"`
}

// KeySet returns the public keys as a JSON Web Key Set, which is the same for the same keys.
func (r Ring) KeySet() ([]byte, error) {
	set := struct {
		Keys []jwk `json:"keys"`
	}{Keys: make([]jwk, len(r))}
	for i, key := range r {
		point, err := key.Private.PublicKey.Bytes()
		if err != nil {
			return nil, fmt.Errorf("encoding a public key: %w", err)
		}
		// The uncompressed form: a byte, and both coordinates.
		x, y := point[1:33], point[33:]
		set.Keys[i] = jwk{
			KeyType: "EC", Curve: "P-256", ID: key.ID, Algorithm: algorithm, Use: "sig",
			X: base64.RawURLEncoding.EncodeToString(x), Y: base64.RawURLEncoding.EncodeToString(y),
		}
	}
	return json.Marshal(set)
}
