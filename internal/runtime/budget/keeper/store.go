package keeper

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/budget"
)

// ErrConflict means that a Budget was not written because another process wrote it first.
var ErrConflict = errors.New("the Budget was written by another process")

// Store has Budgets, and the Sessions that they select.
type Store interface {
	// Budgets returns the Budgets of a namespace as a cache has them. The caller does not change them.
	Budgets(ctx context.Context, namespace string) ([]v1alpha1.Budget, error)
	// Labels returns the labels of the Session that decides for a payer. It is an error if the Session is not known.
	Labels(ctx context.Context, payer budget.Payer) (labels.Set, error)
	// Read reads a Budget past any cache; nil if it does not exist.
	Read(ctx context.Context, key types.NamespacedName) (*v1alpha1.Budget, error)
	// Write writes the status of next where it differs from that of base, if the Budget is still as base is: otherwise
	// the error is ErrConflict. next becomes the stored version. After any other error the outcome is unknown.
	Write(ctx context.Context, base, next *v1alpha1.Budget) error
	// Newer reports whether one version of a Budget is newer than another.
	Newer(version, than string) bool
}
