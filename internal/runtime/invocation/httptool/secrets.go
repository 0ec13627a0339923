package httptool

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/credential"
	"github.com/capstan-dev/capstan/internal/runtime/invocation/executor"
)

// readSecrets reads the Secrets that a Tool's headers need, or reports the first that is missing.
func readSecrets(
	ctx context.Context, p executor.Process, namespace, name string, definition *v1alpha1.HTTPTool,
) (map[string]*corev1.Secret, *act.MissingSecret, error) {
	found := map[string]*corev1.Secret{}
	for _, header := range definition.Headers {
		ref := header.SecretKeyRef
		if ref == nil {
			continue
		}
		withheld := &act.MissingSecret{Tool: name}
		if found[ref.Name] == nil {
			secret, err := p.Secrets(ctx, namespace, ref.Name)
			switch {
			case apierrors.IsNotFound(err):
				withheld.Reason, withheld.Problem = v1alpha1.ReasonSecretMissing, credential.Missing(
					namespace,
					ref,
					credential.OfTool,
				)
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
			withheld.Reason, withheld.Problem = v1alpha1.ReasonSecretKeyMissing, credential.KeyMissing(
				namespace,
				ref,
				credential.OfTool,
			)
			return nil, withheld, nil
		}
	}
	return found, nil, nil
}
