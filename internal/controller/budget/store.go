package budget

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/status"
	"github.com/capstan-dev/capstan/internal/runtime/budget"
	"github.com/capstan-dev/capstan/internal/runtime/budget/keeper"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// Store has the Budgets and Sessions of the API server. It implements keeper.Store.
type Store struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Live reads past the cache.
	Live client.Reader
}

// Budgets implements keeper.Store.
func (s Store) Budgets(ctx context.Context, namespace string) ([]v1alpha1.Budget, error) {
	var list v1alpha1.BudgetList
	err := s.Client.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy)
	return list.Items, err
}

// Labels implements keeper.Store. Labels that the cache has left out are read past it.
func (s Store) Labels(ctx context.Context, payer budget.Payer) (labels.Set, error) {
	key := types.NamespacedName{Namespace: payer.Namespace, Name: payer.Root}
	session := &v1alpha1.Session{}
	err := s.Client.Get(ctx, key, session)
	if apierrors.IsNotFound(err) || err == nil && (session.UID != payer.RootUID || turnstate.LabelsLeftOut(session)) {
		session = &v1alpha1.Session{}
		err = s.Live.Get(ctx, key, session)
	}
	if err != nil {
		return nil, err
	}
	if session.UID != payer.RootUID {
		return nil, fmt.Errorf("the Session was replaced by another one with the same name")
	}
	return session.Labels, nil
}

// Read implements keeper.Store.
func (s Store) Read(ctx context.Context, key types.NamespacedName) (*v1alpha1.Budget, error) {
	found := &v1alpha1.Budget{}
	err := s.Live.Get(ctx, key, found)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return found, nil
}

// Write implements keeper.Store.
func (s Store) Write(ctx context.Context, base, next *v1alpha1.Budget) error {
	changed, err := status.Patch(ctx, s.Client, base, next)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		conflicts.Inc()
		return keeper.ErrConflict
	}
	if err == nil && changed {
		statusWrites.Inc()
	}
	return err
}

// Newer implements keeper.Store.
func (s Store) Newer(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order > 0
}
