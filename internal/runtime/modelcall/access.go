package modelcall

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/credential"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

// maxKeyBytes is the longest API key that is sent.
const maxKeyBytes = 4 << 10

// access returns the driver's access to the provider of a Model: the API key, read now and not kept, and a client that
// reaches only the host of the provider. A *model.KeyError is why the Model has no key; any other error is not about
// the Model.
func (c *Caller) access(ctx context.Context, namespace string, m *v1alpha1.Model) (model.Access, error) {
	if m.Spec.SecretKeyRef == nil {
		return model.Access{}, nil
	}
	key, endpoint, err := c.key(ctx, namespace, m)
	if err != nil {
		return model.Access{}, err
	}
	return model.Access{
		HTTP: c.Egress.HTTPClient(egress.TransportOptions{Hosts: []string{endpoint.Host}}),
		Key:  key,
	}, nil
}

// CheckKey returns why a Model has no API key, as a *model.KeyError; nil if it has one or needs none. After any other
// error the state of the key is unknown. It reads the Secret as a call does, and keeps nothing of it.
func (c *Caller) CheckKey(ctx context.Context, m *v1alpha1.Model) error {
	if m.Spec.SecretKeyRef == nil {
		return nil
	}
	_, _, err := c.key(ctx, m.Namespace, m)
	return err
}

// key is the API key of a Model, and where it is sent to.
func (c *Caller) key(ctx context.Context, namespace string, m *v1alpha1.Model) (string, *url.URL, error) {
	ref := m.Spec.SecretKeyRef
	endpoint, err := url.Parse(model.Endpoint(m))
	if err != nil || endpoint.Host == "" {
		return "", nil, &model.UnavailableError{
			Model: m.Name,
			Cause: fmt.Errorf("the baseURL of Model %q has no host", m.Name),
		}
	}
	secret, err := c.Secrets(ctx, namespace, ref.Name)
	var key, reason, problem string
	switch {
	case apierrors.IsNotFound(err):
		reason, problem = v1alpha1.ReasonSecretMissing, credential.Missing(namespace, ref, credential.OfModel)
	case apierrors.IsForbidden(err):
		reason, problem = v1alpha1.ReasonRoleMissing, credential.RoleMissing(c.Account, namespace, ref)
	case err != nil:
		return "", nil, fmt.Errorf("reading Secret %s: %w", ref.Name, err)
	default:
		key, reason, problem = keyOf(secret, namespace, ref, endpoint)
	}
	if reason != "" {
		return "", nil, &model.KeyError{Model: m.Name, Reason: reason, Problem: problem}
	}
	return key, endpoint, nil
}

// keyOf returns the API key in a Secret for an address, or what is wrong, as a reason and a message with the remedy. A
// line break at the end usually comes from a file, and is not part of the key.
func keyOf(
	secret *corev1.Secret, namespace string, ref *v1alpha1.SecretKeyReference, to *url.URL,
) (key, reason, problem string) {
	if listed, bound := secret.Annotations[v1alpha1.AnnotationAllowedHosts]; bound &&
		!egress.Listed(strings.Split(listed, ","), to) {
		return "", v1alpha1.ReasonSecretUnusable, fmt.Sprintf("Secret %q is bound to hosts by %s, which "+
			"does not list %s: add it there, or use another Secret",
			ref.Name, v1alpha1.AnnotationAllowedHosts, to.Host)
	}
	raw, ok := secret.Data[ref.Key]
	key = strings.TrimRight(string(raw), "\r\n")
	switch {
	case !ok:
		return "", v1alpha1.ReasonSecretKeyMissing, credential.KeyMissing(namespace, ref, credential.OfModel)
	case key == "", len(key) > maxKeyBytes, strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c > '~' }):
		return "", v1alpha1.ReasonSecretUnusable,
			fmt.Sprintf("key %q of Secret %q is not a valid API key: it must be 1 to %d printable ASCII characters "+
				"without spaces", ref.Key, ref.Name, maxKeyBytes)
	default:
		return key, "", ""
	}
}
