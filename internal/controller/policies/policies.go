// Package policies verifies that the ValidatingAdmissionPolicies of the installation are in force: without them, a user
// who may write a Tool could name any Secret that the manager may read. While a policy is missing, no Secret is read,
// and steps that need one wait.
package policies

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/config/policy"
	"github.com/capstan-dev/capstan/internal/runtime/credential"
)

const (
	// calm is the time between two checks while all policies are in force.
	calm = time.Minute
	// alert is the time between two checks while a policy is missing.
	alert = 5 * time.Second
)

// errNotLooked is the state before the first check.
var errNotLooked = errors.New("the ValidatingAdmissionPolicies have not been checked yet")

// NotInForceError names the policy that is not in force, and the remedy.
type NotInForceError struct {
	// Why is the cause, without a full stop.
	Why string
}

// Error implements error.
func (e *NotInForceError) Error() string {
	return e.Why + ". Apply the installation manifests again; until then the manager reads no Secret"
}

// Verifier checks the policies at start and then periodically. A nil Verifier assumes that they are in force.
type Verifier struct {
	// Live reads past the cache.
	Live client.Reader
	// Account is the user name of the manager at the API server.
	Account string
	// Wake is called for each waiting Turn when the policies are in force again, and WakeModel for each waiting Model.
	Wake, WakeModel func(types.NamespacedName)

	mu        sync.Mutex
	refreshed bool
	problem   error
	waiting   map[waiter]struct{}
}

// waiter is a Turn or a Model that waits until the policies are in force.
type waiter struct {
	model bool
	key   types.NamespacedName
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: a standby manager checks too.
func (*Verifier) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (v *Verifier) Start(ctx context.Context) error {
	for {
		v.Refresh(ctx)
		pause := calm
		if v.InForce() != nil {
			pause = alert
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// Refresh checks the policies once. If the API server does not respond, the last result stays.
func (v *Verifier) Refresh(ctx context.Context) {
	known, problem := v.shortfall(ctx)
	if !known {
		ctrl.LoggerFrom(ctx).Error(problem, "Failed to check the ValidatingAdmissionPolicies")
		return
	}
	v.mu.Lock()
	before, first := v.problem, !v.refreshed
	v.refreshed, v.problem = true, problem
	var wake map[waiter]struct{}
	if problem == nil {
		wake, v.waiting = v.waiting, nil
	}
	v.mu.Unlock()
	switch {
	case problem != nil && (before == nil || before.Error() != problem.Error()):
		ctrl.Log.WithName("policies").Error(problem,
			"A ValidatingAdmissionPolicy is not in force; the manager is not ready and reads no Secret")
	case problem == nil && !first && before != nil:
		ctrl.Log.WithName("policies").Info("All ValidatingAdmissionPolicies are in force again")
	}
	for w := range wake {
		if w.model {
			v.WakeModel(w.key)
		} else {
			v.Wake(w.key)
		}
	}
}

// shortfall reports whether the state of the policies could be read, and returns the missing part.
func (v *Verifier) shortfall(ctx context.Context) (known bool, problem error) {
	policies, err := policy.Policies(policy.Accounts{Manager: v.Account})
	if err != nil {
		return true, err
	}
	for _, want := range policies {
		have, err := read(ctx, v.Live, want.Policy.Name, &admissionregistrationv1.ValidatingAdmissionPolicy{})
		if err != nil {
			return explained(err)
		}
		binding, err := read(ctx, v.Live, want.Binding.Name, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{})
		if err != nil {
			return explained(err)
		}
		if why := policy.Shortfall(want, have, binding); why != "" {
			return true, &NotInForceError{Why: why}
		}
	}
	return true, nil
}

// read reads one object of the cluster: nil when it does not exist.
func read[T any, P interface {
	*T
	client.Object
}](ctx context.Context, live client.Reader, name string, object P) (P, error) {
	err := live.Get(ctx, types.NamespacedName{Name: name}, object)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return object, err
}

// explained distinguishes an error response of the API server from a missing response.
func explained(err error) (bool, error) {
	if apierrors.IsForbidden(err) {
		return true, &NotInForceError{Why: "the manager has no permission to read the ValidatingAdmissionPolicies: " +
			"bind the ClusterRole capstan-manager-cluster to it"}
	}
	return false, fmt.Errorf("reading the ValidatingAdmissionPolicies: %w", err)
}

// InForce returns nil while every policy is in force.
func (v *Verifier) InForce() error {
	if v == nil {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.refreshed {
		return errNotLooked
	}
	return v.problem
}

// Await is like InForce, and wakes the Turn once every policy is in force.
func (v *Verifier) Await(turn types.NamespacedName) error {
	return v.await(waiter{key: turn})
}

// AwaitModel is like Await, for a Model.
func (v *Verifier) AwaitModel(model types.NamespacedName) error {
	return v.await(waiter{model: true, key: model})
}

func (v *Verifier) await(w waiter) error {
	if v == nil {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.refreshed && v.problem == nil {
		return nil
	}
	if v.waiting == nil {
		v.waiting = map[waiter]struct{}{}
	}
	v.waiting[w] = struct{}{}
	if !v.refreshed {
		return errNotLooked
	}
	return v.problem
}

// Check is a readiness check.
func (v *Verifier) Check(*http.Request) error {
	return v.InForce()
}

// Guard permits reads of Secrets only while every policy is in force.
func (v *Verifier) Guard(read credential.Reader) credential.Reader {
	if v == nil {
		return read
	}
	return func(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
		if err := v.InForce(); err != nil {
			return nil, err
		}
		return read(ctx, namespace, name)
	}
}
