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
	"github.com/capstan-dev/capstan/internal/runtime/model/probe"
	"github.com/capstan-dev/capstan/internal/runtime/trust"
)

// maxKeyBytes is the longest API key that is sent.
const maxKeyBytes = 4 << 10

// access returns the driver's access to the provider of a Model: the API key, read now and not kept, and a client that
// reaches only the host of the provider. A *model.KeyError is why the Model has no key or no certificates; any other
// error is not about the Model.
func (c *Caller) access(ctx context.Context, namespace string, m *v1alpha1.Model) (model.Access, error) {
	base, route := model.Endpoint(m), model.Route(m)
	if base == "" && m.Spec.SecretKeyRef == nil {
		return model.Access{}, nil
	}
	endpoint, err := url.Parse(base)
	if err != nil || endpoint.Host == "" {
		return model.Access{}, &model.UnavailableError{
			Model: m.Name,
			Cause: fmt.Errorf("the baseURL of Model %q has no host", m.Name),
		}
	}
	var key string
	if m.Spec.SecretKeyRef != nil {
		if key, err = c.key(ctx, namespace, m, endpoint); err != nil {
			return model.Access{}, err
		}
	}
	trusted, problem, err := trust.Reader{Secrets: c.Secrets, ConfigMaps: c.ConfigMaps, Account: c.Account}.
		Read(ctx, namespace, m.Spec.CABundle)
	if err != nil {
		return model.Access{}, err
	}
	if problem != nil {
		return model.Access{}, &model.KeyError{Model: m.Name, Reason: problem.Reason, Problem: problem.Message}
	}
	route.Roots = trusted.Roots
	return model.Access{
		HTTP: c.Egress.HTTPClient(egress.TransportOptions{Hosts: []string{egress.Place(endpoint)}, Route: route}),
		Key:  key,
	}, nil
}

// CheckKey returns why a Model has no API key or no certificates, as a *model.KeyError; nil if it has them or needs
// none. After any other error their state is unknown. It reads the objects as a call does, and keeps nothing of them.
func (c *Caller) CheckKey(ctx context.Context, m *v1alpha1.Model) error {
	_, err := c.access(ctx, m.Namespace, m)
	return err
}

// Probe asks the provider of a Model whether it accepts the Model. The error is a *model.KeyError for a Model without
// its API key or certificates.
func (c *Caller) Probe(ctx context.Context, m *v1alpha1.Model) (probe.Result, error) {
	access, err := c.access(ctx, m.Namespace, m)
	if err != nil {
		return probe.Result{}, err
	}
	return probe.Do(ctx, m, access)
}

// key is the API key of a Model, which is sent to an endpoint.
func (c *Caller) key(ctx context.Context, namespace string, m *v1alpha1.Model, endpoint *url.URL) (string, error) {
	ref := m.Spec.SecretKeyRef
	secret, err := c.Secrets(ctx, namespace, ref.Name)
	var key, reason, problem string
	switch {
	case apierrors.IsNotFound(err):
		reason, problem = v1alpha1.ReasonSecretMissing, credential.Missing(namespace, ref, credential.OfModel)
	case apierrors.IsForbidden(err):
		reason, problem = v1alpha1.ReasonRoleMissing, credential.RoleMissing(c.Account, namespace, ref)
	case err != nil:
		return "", fmt.Errorf("reading Secret %s: %w", ref.Name, err)
	default:
		key, reason, problem = keyOf(secret, namespace, ref, endpoint)
	}
	if reason != "" {
		return "", &model.KeyError{Model: m.Name, Reason: reason, Problem: problem}
	}
	return key, nil
}

// keyOf returns the API key in a Secret for an address, or what is wrong, as a reason and a message with the remedy. A
// line break at the end usually comes from a file, and is not part of the key.
func keyOf(
	secret *corev1.Secret, namespace string, ref *v1alpha1.SecretKeyReference, to *url.URL,
) (key, reason, problem string) {
	if why := credential.BoundElsewhere(secret, to); why != "" {
		return "", v1alpha1.ReasonSecretUnusable, why
	}
	raw, ok := secret.Data[ref.Key]
	key = strings.TrimRight(string(raw), "\r\n")
	switch _, connection := secret.Labels[v1alpha1.LabelConnection]; {
	case connection:
		return "", v1alpha1.ReasonSecretUnusable,
			fmt.Sprintf("Secret %q is the connection of a user, and no API key: use another Secret", ref.Name)
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
