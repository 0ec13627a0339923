// Package trust reads the certificates by which Models, HTTP tools and MCPServers trust their servers.
package trust

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/credential"
)

// MaxBundleBytes is the most that certificates may take.
const MaxBundleBytes = 64 << 10

// ConfigMapReader reads the current version of a ConfigMap.
type ConfigMapReader func(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error)

// Reader reads certificates. It keeps nothing of them.
type Reader struct {
	Secrets    credential.Reader
	ConfigMaps ConfigMapReader
	// Account is the user name of the process at the API server, for instructions in messages.
	Account string
}

// Bundle is certificates that a server is trusted by. The zero value is those of the system.
type Bundle struct {
	// Roots are the certificates; nil for those of the system.
	Roots *x509.CertPool
	// Digest identifies them; empty for those of the system.
	Digest string
}

// Problem is why certificates cannot be used, until another object is changed.
type Problem struct {
	// Reason and Message are those of a Ready condition.
	Reason, Message string
}

// Read reads the certificates that an object refers to; those of the system for nil.
func (r Reader) Read(ctx context.Context, namespace string, from *v1alpha1.CABundleSource) (Bundle, *Problem, error) {
	if from == nil {
		return Bundle{}, nil, nil
	}
	kind, name, key := "ConfigMap", "", ""
	var raw []byte
	var found bool
	var err error
	switch {
	case from.SecretKeyRef != nil:
		kind, name, key = "Secret", from.SecretKeyRef.Name, from.SecretKeyRef.Key
		raw, found, err = r.ofSecret(ctx, namespace, name, key)
	case from.ConfigMapKeyRef != nil:
		name, key = from.ConfigMapKeyRef.Name, from.ConfigMapKeyRef.Key
		raw, found, err = r.ofConfigMap(ctx, namespace, name, key)
	}
	switch {
	case apierrors.IsNotFound(err):
		return Bundle{}, &Problem{
			v1alpha1.ReasonCABundleMissing, fmt.Sprintf("%s %q of caBundle does not exist: create it", kind, name),
		}, nil
	case apierrors.IsForbidden(err):
		return Bundle{}, &Problem{v1alpha1.ReasonRoleMissing, credential.MayNotRead(r.Account, namespace, kind, name)}, nil
	case err != nil:
		return Bundle{}, nil, fmt.Errorf("reading %s %s of caBundle: %w", kind, name, err)
	case !found:
		return Bundle{}, &Problem{
			v1alpha1.ReasonCABundleMissing, fmt.Sprintf("%s %q of caBundle has no key %q: add it", kind, name, key),
		}, nil
	case len(raw) > MaxBundleBytes:
		return Bundle{}, &Problem{v1alpha1.ReasonCABundleUnusable, fmt.Sprintf(
			"key %q of %s %q has %d bytes, but caBundle has at most %d", key, kind, name, len(raw), MaxBundleBytes)}, nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(raw) {
		return Bundle{}, &Problem{v1alpha1.ReasonCABundleUnusable, fmt.Sprintf(
			"key %q of %s %q has no certificate in PEM form, which caBundle needs", key, kind, name)}, nil
	}
	sum := sha256.Sum256(raw)
	return Bundle{Roots: pool, Digest: hex.EncodeToString(sum[:])}, nil, nil
}

func (r Reader) ofSecret(ctx context.Context, namespace, name, key string) ([]byte, bool, error) {
	secret, err := r.Secrets(ctx, namespace, name)
	if err != nil {
		return nil, false, err
	}
	raw, found := secret.Data[key]
	return raw, found, nil
}

func (r Reader) ofConfigMap(ctx context.Context, namespace, name, key string) ([]byte, bool, error) {
	m, err := r.ConfigMaps(ctx, namespace, name)
	if err != nil {
		return nil, false, err
	}
	text, found := m.Data[key]
	return []byte(text), found, nil
}
