package turn

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/configsource"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// Hooked returns the function that reports whether the Session of a Turn has hooks that look at messages. A Session
// that is gone has no further Turn whose prompt could show one.
func Hooked(reader client.Reader) func(context.Context, turnstate.Turn) (bool, error) {
	return func(ctx context.Context, t turnstate.Turn) (bool, error) {
		session := &v1alpha1.Session{}
		key := types.NamespacedName{Namespace: t.Session.Namespace, Name: t.Session.Name}
		switch err := reader.Get(ctx, key, session); {
		case apierrors.IsNotFound(err), err == nil && session.UID != t.Session.UID:
			return false, nil
		case err != nil:
			return false, err
		}
		resolved, err := configsource.Session(ctx, reader, session)
		if err != nil {
			return false, err
		}
		return resolved.PromptHooks(), nil
	}
}
