package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// keepAddress is how long an address counts. A leader that has changed refuses what is sent to it.
const keepAddress = 2 * time.Second

// ErrNoLeader reports that no pod of the manager is known to lead.
var ErrNoLeader = errors.New("no pod of the manager leads now")

// Addresses finds the pod that leads. It reads at most once in two seconds, and only when it is asked.
type Addresses struct {
	// Live reads past the cache.
	Live client.Reader
	// Namespace of the manager.
	Namespace string
	// Clock returns the current time.
	Clock func() time.Time

	mu      sync.Mutex
	address string
	err     error
	until   time.Time
}

// Address returns the address of the pod that leads. The error is ErrNoLeader, or about the API server.
func (a *Addresses) Address(ctx context.Context) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := a.Clock(); !now.Before(a.until) {
		a.address, a.err = a.look(ctx)
		a.until = now.Add(keepAddress)
	}
	return a.address, a.err
}

func (a *Addresses) look(ctx context.Context) (string, error) {
	lease := &coordinationv1.Lease{}
	if err := a.Live.Get(ctx, types.NamespacedName{Namespace: a.Namespace, Name: LeaseName}, lease); err != nil {
		return "", fmt.Errorf("reading the Lease of the leader: %w", err)
	}
	if lease.Spec.HolderIdentity == nil {
		return "", ErrNoLeader
	}
	holder, ok := parseIdentity(a.Namespace, *lease.Spec.HolderIdentity)
	if !ok {
		return "", ErrNoLeader
	}
	pod := &corev1.Pod{}
	if err := a.Live.Get(ctx, holder.Pod, pod); err != nil {
		return "", fmt.Errorf("reading the pod of the leader: %w", err)
	}
	if pod.UID != holder.UID || pod.Status.PodIP == "" {
		return "", ErrNoLeader
	}
	return pod.Status.PodIP, nil
}
