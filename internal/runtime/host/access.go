package host

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

// maxKeyBytes is the longest API key that is sent.
const maxKeyBytes = 4 << 10

// access is how the driver of a Model reaches its provider: the API key, read now and kept by nobody, and a client that reaches the host of the
// provider and no other. A *model.KeyError says what keeps the Model from having a key; any other error says nothing of the Model.
func (h *Host) access(ctx context.Context, namespace string, m *v1alpha1.Model) (model.Access, error) {
	ref := m.Spec.SecretKeyRef
	if ref == nil {
		return model.Access{}, nil
	}
	endpoint, err := url.Parse(model.Endpoint(m))
	if err != nil || endpoint.Host == "" {
		return model.Access{}, &model.UnavailableError{Model: m.Name, Cause: fmt.Errorf("the baseURL of Model %q has no host", m.Name)}
	}
	secret, err := h.Secrets(ctx, namespace, ref.Name)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		secret = nil
	case err != nil:
		return model.Access{}, fmt.Errorf("reading Secret %s: %w", ref.Name, err)
	}
	key, problem := keyOf(secret, ref, endpoint)
	if problem != "" {
		return model.Access{}, &model.KeyError{Model: m.Name, Problem: problem}
	}
	return model.Access{HTTP: h.Egress.HTTPClient(egress.TransportOptions{Hosts: []string{endpoint.Host}}), Key: key}, nil
}

// keyOf is the API key that a Secret holds for an address, or what is wrong and what to do. A line break at the end comes from how files are made,
// and belongs to no key.
func keyOf(secret *corev1.Secret, ref *v1alpha1.SecretKeyReference, to *url.URL) (key, problem string) {
	if secret == nil {
		return "", fmt.Sprintf("Secret %q does not exist, or the manager may not read it: create it, or bind the role capstan-manager-secrets to the manager in this namespace",
			ref.Name)
	}
	if listed, bound := secret.Annotations[v1alpha1.AnnotationAllowedHosts]; bound && !egress.Listed(strings.Split(listed, ","), to) {
		return "", fmt.Sprintf("Secret %q is bound to hosts by %s, and %s is not among them: add it there, or name another Secret",
			ref.Name, v1alpha1.AnnotationAllowedHosts, to.Host)
	}
	raw, ok := secret.Data[ref.Key]
	key = strings.TrimRight(string(raw), "\r\n")
	switch {
	case !ok:
		return "", fmt.Sprintf("Secret %q has no key %q: add it, or name another one", ref.Name, ref.Key)
	case key == "", len(key) > maxKeyBytes, strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c > '~' }):
		return "", fmt.Sprintf("what Secret %q has at the key %q is no API key: 1 to %d characters of ASCII without spaces are", ref.Name, ref.Key, maxKeyBytes)
	default:
		return key, ""
	}
}
