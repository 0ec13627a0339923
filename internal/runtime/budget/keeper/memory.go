package keeper

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/budget"
)

// Memory is a Store of one process. It is safe for concurrent use.
type Memory struct {
	// Session returns the Session of a name; nil for none.
	Session func(name string) *v1alpha1.Session

	mu      sync.Mutex
	version int
	budgets map[string]*v1alpha1.Budget
}

// Apply adds a Budget, or replaces the spec of the one of its name, and returns the stored one.
func (m *Memory) Apply(b *v1alpha1.Budget) *v1alpha1.Budget {
	m.mu.Lock()
	defer m.mu.Unlock()
	stored := b.DeepCopy()
	if known := m.budgets[b.Name]; known != nil {
		stored.Status = *known.Status.DeepCopy()
	}
	m.store(stored)
	return stored.DeepCopy()
}

// Get returns the Budget of a name; nil for none.
func (m *Memory) Get(name string) *v1alpha1.Budget {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.budgets[name].DeepCopy()
}

// store stores a version. The lock is held.
func (m *Memory) store(b *v1alpha1.Budget) {
	if m.budgets == nil {
		m.budgets = map[string]*v1alpha1.Budget{}
	}
	m.version++
	b.ResourceVersion = strconv.Itoa(m.version)
	m.budgets[b.Name] = b
}

// Budgets implements Store.
func (m *Memory) Budgets(context.Context, string) ([]v1alpha1.Budget, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := make([]v1alpha1.Budget, 0, len(m.budgets))
	for _, b := range m.budgets {
		list = append(list, *b.DeepCopy())
	}
	return list, nil
}

// Labels implements Store.
func (m *Memory) Labels(_ context.Context, payer budget.Payer) (labels.Set, error) {
	session := m.Session(payer.Root)
	if session == nil {
		return nil, fmt.Errorf("the Session does not exist")
	}
	return session.Labels, nil
}

// Read implements Store.
func (m *Memory) Read(_ context.Context, key types.NamespacedName) (*v1alpha1.Budget, error) {
	return m.Get(key.Name), nil
}

// Write implements Store.
func (m *Memory) Write(_ context.Context, base, next *v1alpha1.Budget) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.budgets[base.Name]; known == nil || known.ResourceVersion != base.ResourceVersion {
		return ErrConflict
	}
	next.Status.Reservations = slices.Clip(next.Status.Reservations)
	m.store(next.DeepCopy())
	next.ResourceVersion = strconv.Itoa(m.version)
	return nil
}

// Newer implements Store.
func (m *Memory) Newer(version, than string) bool {
	a, errA := strconv.Atoi(version)
	b, errB := strconv.Atoi(than)
	return errA == nil && errB == nil && a > b
}
