package harness

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/reference"
	"github.com/capstan-dev/capstan/internal/runtime/config"
)

// gather reads the ancestors of a Harness and the objects that the chain names.
func (r *Reconciler) gather(ctx context.Context, leaf *v1alpha1.Harness) (observation, error) {
	var readErr error
	chain, chainError := config.Chain(leaf.Name, func(name string) *v1alpha1.Harness {
		if name == leaf.Name {
			return leaf
		}
		harness := &v1alpha1.Harness{}
		err := r.Client.Get(ctx, types.NamespacedName{Namespace: leaf.Namespace, Name: name}, harness)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			readErr = fmt.Errorf("reading Harness %s/%s: %w", leaf.Namespace, name, err)
			return nil
		}
		return harness
	})
	if readErr != nil {
		return observation{}, readErr
	}
	o := observation{chain: chain, chainError: chainError}
	if chainError != nil {
		return o, nil
	}
	seen, err := reference.Look(ctx, r.Client, leaf.Namespace, o.effective())
	if err != nil {
		return observation{}, err
	}
	o.seen = seen
	return o, nil
}
