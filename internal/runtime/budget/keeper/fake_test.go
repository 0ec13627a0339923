package keeper

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shopspring/decimal"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/budget"
)

// errCut is the error of a request whose outcome its sender does not learn.
var errCut = errors.New("connection cut")

// store is an API server that can lose responses, and deliver requests late.
type store struct {
	mu      sync.Mutex
	budgets map[string]*v1alpha1.Budget
	labels  labels.Set
	// writes counts the stored versions, and reads those that were read.
	writes, reads int
	// fault decides about each write: what happens to it before its outcome is reported.
	fault func() fault
	// late are writes that arrive later, if they still can.
	late []func()
	// most is the highest sum of spent and reserved of each Budget.
	most map[string]decimal.Decimal
	// held is closed to let writes pass; nil lets them. waiting counts the writes that have come to it.
	held    chan struct{}
	waiting atomic.Int32
}

// fault is what happens to a write.
type fault int

const (
	none fault = iota
	// lostResponse stores the write and reports an error; lostRequest stores nothing.
	lostResponse
	lostRequest
	// lateRequest reports an error, and stores the write later, if no other one comes first.
	lateRequest
	// foreignWrite has another process write first.
	foreignWrite
)

func newStore(budgets ...*v1alpha1.Budget) *store {
	s := &store{budgets: map[string]*v1alpha1.Budget{}, most: map[string]decimal.Decimal{}}
	for _, b := range budgets {
		b.ResourceVersion = "1"
		s.budgets[b.Name] = b
	}
	return s
}

// limited is a Budget of tokens.
func limited(name string, limit v1alpha1.BudgetLimit) *v1alpha1.Budget {
	return &v1alpha1.Budget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name), Generation: 1},
		Spec:       v1alpha1.BudgetSpec{Unit: v1alpha1.BudgetUnitTokens, Limit: limit},
	}
}

// Budgets implements Store.
func (s *store) Budgets(context.Context, string) ([]v1alpha1.Budget, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []v1alpha1.Budget
	for _, b := range s.budgets {
		list = append(list, *b.DeepCopy())
	}
	return list, nil
}

// Labels implements Store.
func (s *store) Labels(context.Context, budget.Payer) (labels.Set, error) { return s.labels, nil }

// Read implements Store.
func (s *store) Read(_ context.Context, key types.NamespacedName) (*v1alpha1.Budget, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	if b := s.budgets[key.Name]; b != nil {
		return b.DeepCopy(), nil
	}
	return nil, nil
}

// Write implements Store.
func (s *store) Write(_ context.Context, base, next *v1alpha1.Budget) error {
	s.mu.Lock()
	held := s.held
	s.mu.Unlock()
	// A patch without a difference is not sent.
	if apiequality.Semantic.DeepEqual(base.Status, next.Status) {
		return nil
	}
	if held != nil {
		s.waiting.Add(1)
		<-held
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	what := none
	if s.fault != nil {
		what = s.fault()
	}
	switch what {
	case lostRequest:
		return errCut
	case lateRequest:
		version, copied := base.ResourceVersion, next.DeepCopy()
		s.late = append(s.late, func() { _ = s.put(version, copied) })
		return errCut
	case none, lostResponse:
	case foreignWrite:
		if b := s.budgets[base.Name]; b != nil {
			b.ResourceVersion = after(b.ResourceVersion)
		}
	}
	if err := s.put(base.ResourceVersion, next); err != nil {
		return err
	}
	if what == lostResponse {
		return errCut
	}
	return nil
}

// put stores a version over the one that it was made of. The lock is held.
func (s *store) put(version string, next *v1alpha1.Budget) error {
	current := s.budgets[next.Name]
	if current == nil || current.ResourceVersion != version {
		return ErrConflict
	}
	next.ResourceVersion = after(version)
	s.budgets[next.Name] = next.DeepCopy()
	s.writes++
	spent, reserved := decimal.RequireFromString(next.Status.Spent), decimal.RequireFromString(next.Status.Reserved)
	s.most[next.Name] = decimal.Max(s.most[next.Name], spent.Add(reserved))
	return nil
}

// deliver lets the late writes arrive.
func (s *store) deliver() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, write := range s.late {
		write()
	}
	s.late = nil
}

// Newer implements Store.
func (s *store) Newer(version, than string) bool {
	a, _ := strconv.Atoi(version)
	b, _ := strconv.Atoi(than)
	return a > b
}

// after is the next version.
func after(version string) string {
	n, _ := strconv.Atoi(version)
	return strconv.Itoa(n + 1)
}

// get returns the stored Budget.
func (s *store) get(name string) *v1alpha1.Budget {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.budgets[name].DeepCopy()
}

// random returns faults of every kind.
func random(seed uint64) func() fault {
	r := rand.New(rand.NewPCG(seed, seed)) //nolint:gosec // Reproducible.
	return func() fault {
		if n := fault(r.IntN(12)); n <= foreignWrite {
			return n
		}
		return none
	}
}

// epoch is the time of tests.
var epoch = time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)
