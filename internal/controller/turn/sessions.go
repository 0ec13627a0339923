package turn

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	remembered "github.com/capstan-dev/capstan/internal/runtime/memory"
)

// Sessions reads Sessions past the cache, which keeps no configurations of capabilities.
type Sessions struct{ Live client.Reader }

var _ remembered.Host = Sessions{}

// Session implements memory.Host.
func (s Sessions) Session(ctx context.Context, namespace, name string) (*v1alpha1.Session, error) {
	session := &v1alpha1.Session{}
	switch err := s.Live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, session); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Session %s: %w", name, err)
	default:
		return session, nil
	}
}
