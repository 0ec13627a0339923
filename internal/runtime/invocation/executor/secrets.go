package executor

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/credential"
)

// ReadSecrets reads the Secrets that the headers of a tool's requests need, or reports the first that is missing.
func (p Process) ReadSecrets(
	ctx context.Context, namespace, tool string, headers []v1alpha1.HTTPHeader, use credential.Use,
) (map[string]*corev1.Secret, *act.MissingSecret, error) {
	found := map[string]*corev1.Secret{}
	for _, header := range headers {
		ref := header.SecretKeyRef
		if ref == nil {
			continue
		}
		withheld := &act.MissingSecret{Tool: tool}
		if found[ref.Name] == nil {
			secret, err := p.Secrets(ctx, namespace, ref.Name)
			switch {
			case apierrors.IsNotFound(err):
				withheld.Reason, withheld.Problem = v1alpha1.ReasonSecretMissing, credential.Missing(namespace, ref, use)
				return nil, withheld, nil
			case apierrors.IsForbidden(err):
				withheld.Reason, withheld.Problem = v1alpha1.ReasonRoleMissing, credential.RoleMissing(p.Account, namespace, ref)
				return nil, withheld, nil
			case err != nil:
				return nil, nil, fmt.Errorf("reading Secret %s: %w", ref.Name, err)
			}
			found[ref.Name] = secret
		}
		if _, ok := found[ref.Name].Data[ref.Key]; !ok {
			withheld.Reason, withheld.Problem = v1alpha1.ReasonSecretKeyMissing, credential.KeyMissing(namespace, ref, use)
			return nil, withheld, nil
		}
	}
	return found, nil, nil
}

// AwaitSecrets reads Secrets as ReadSecrets does, before a call starts. A missing Secret is an error, unless the call
// is claimed.
func (p Process) AwaitSecrets(
	ctx context.Context, c Call, headers []v1alpha1.HTTPHeader, use credential.Use,
) (map[string]*corev1.Secret, error) {
	secrets, missing, err := p.ReadSecrets(ctx, c.Session.Namespace, c.Call.Name, headers, use)
	if err != nil || missing == nil {
		return secrets, err
	}
	claimed, err := c.Claimed(ctx)
	if err != nil {
		return nil, fmt.Errorf("looking for the claim of call %s: %w", c.Call.ID, err)
	}
	if !claimed {
		return nil, missing
	}
	return nil, nil
}
