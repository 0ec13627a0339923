package invocation

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/credential"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// CheckSecrets returns the first missing Secret of the headers of an HTTP tool; nil if none is missing. It reads the
// Secrets as a call does, and keeps nothing of them.
func (run *Runner) CheckSecrets(
	ctx context.Context,
	namespace, name string,
	definition *v1alpha1.HTTPTool,
) (*act.MissingSecret, error) {
	_, withheld, err := run.secrets(ctx, namespace, name, definition)
	return withheld, err
}

// secrets reads the Secrets that a Tool's headers need, or reports the first that is missing.
func (run *Runner) secrets(
	ctx context.Context, namespace, name string, definition *v1alpha1.HTTPTool,
) (map[string]*corev1.Secret, *act.MissingSecret, error) {
	found := map[string]*corev1.Secret{}
	for _, header := range definition.Headers {
		ref := header.SecretKeyRef
		if ref == nil {
			continue
		}
		withheld := &act.MissingSecret{Tool: name}
		if found[ref.Name] == nil {
			secret, err := run.Secrets(ctx, namespace, ref.Name)
			switch {
			case apierrors.IsNotFound(err):
				withheld.Reason, withheld.Problem = v1alpha1.ReasonSecretMissing, credential.Missing(
					namespace,
					ref,
					credential.OfTool,
				)
				return nil, withheld, nil
			case apierrors.IsForbidden(err):
				withheld.Reason, withheld.Problem = v1alpha1.ReasonRoleMissing, credential.RoleMissing(run.Account, namespace, ref)
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

// begun reports whether a call that must not start twice was claimed. The outcome of a claimed call follows from the
// journal, and does not depend on its Secrets.
func (run *Runner) begun(ctx context.Context, t turnstate.Turn, c Call) (bool, error) {
	if !act.Claimable(c.Call, t.Local) {
		return false, nil
	}
	claims, err := run.Log.Claims(ctx, t.Session, t.Ref.UID, t.Step(), t.Progress.Plan.OpenedAtOrdinal)
	for _, claim := range claims {
		if claim.Call.ID == c.Call.ID {
			return true, nil
		}
	}
	return false, err
}
