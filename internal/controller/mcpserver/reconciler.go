// Package mcpserver keeps the tools of MCPServers known: it lists them from time to time, and stores their definitions.
package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/configsource"
	"github.com/capstan-dev/capstan/internal/controller/pacing"
	"github.com/capstan-dev/capstan/internal/controller/policies"
	"github.com/capstan-dev/capstan/internal/controller/status"
	"github.com/capstan-dev/capstan/internal/controller/wake"
	"github.com/capstan-dev/capstan/internal/runtime/mcp"
	"github.com/capstan-dev/capstan/internal/runtime/mcp/discovery"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
)

const (
	// workers is the number of discoveries that run at once, and perNamespace the number of those of one namespace: a
	// server may take its time.
	workers      = 8
	perNamespace = 2
	// busyPause is the time until a discovery is tried again for which its namespace had no place.
	busyPause = time.Second
	// policiesPause is the time until a discovery is tried again that needs a Secret while a policy is missing.
	policiesPause = 5 * time.Second
)

// Reconciler keeps the tools of MCPServers known.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Texts reads what the cache leaves out.
	Texts *configsource.Texts
	// Records has the definitions of the tools.
	Records record.Store
	// Discoverer lists the tools of servers.
	Discoverer discovery.Discoverer
	// Clients are those of calls, which end when their MCPServer changes.
	Clients *mcp.Clients
	// Policies prevents reads of Secrets while an admission policy of the installation is missing. Nil prevents
	// nothing.
	Policies *policies.Verifier
	// Clock returns the current time.
	Clock func() time.Time
	// Wakes enqueues MCPServers whose next discovery may be due.
	Wakes *wake.Source

	rechecks pacing.Rechecks

	mu       sync.Mutex
	attempts map[types.NamespacedName]attempt
	running  map[string]int
}

// +kubebuilder:rbac:groups=capstan.dev,resources=mcpservers,verbs=get;list;watch
// +kubebuilder:rbac:groups=capstan.dev,resources=mcpservers/status,verbs=patch
// +kubebuilder:rbac:groups=capstan.dev,resources=records,verbs=get;create;update;delete

// Reconcile asks one server for its tools, if that is due, and writes what is known to the status.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	base := &v1alpha1.MCPServer{}
	if err := r.Client.Get(ctx, req.NamespacedName, base); err != nil {
		if client.IgnoreNotFound(err) == nil {
			r.forget(req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	last := r.last(req.NamespacedName)
	if last.uid != "" && !last.of(base) {
		r.end(req.NamespacedName)
	}
	pause := wait(base, last, r.Clock())
	if pause == 0 {
		var err error
		if last, pause, err = r.discover(ctx, base); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
	}
	if pause > 0 {
		var err error
		if pause, err = r.listen(ctx, base, pause); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
	}
	if last.finding.Reason == "" || !last.of(base) {
		return ctrl.Result{RequeueAfter: pause}, nil
	}
	next := base.DeepCopy()
	next.Status = apply(base, last)
	result, err := status.Write(ctx, r.Client, base, next)
	if err != nil || result.RequeueAfter > 0 {
		return result, err
	}
	return ctrl.Result{RequeueAfter: max(wait(next, last, r.Clock()), time.Second)}, nil
}

// discover lists the tools of an MCPServer. Without a place for it, or when a Secret must not be read
// now, it returns the pause until it is tried again.
func (r *Reconciler) discover(ctx context.Context, base *v1alpha1.MCPServer) (attempt, time.Duration, error) {
	key := client.ObjectKeyFromObject(base)
	if !r.enter(base.Namespace) {
		return attempt{}, busyPause, nil
	}
	defer r.leave(base.Namespace)
	whole, err := r.Texts.MCPServer(ctx, base)
	if err != nil {
		return attempt{}, 0, err
	}
	if sendsSecret(whole) && r.Policies.InForce() != nil {
		return attempt{}, policiesPause, nil
	}
	before := r.begin(key)
	finding, err := r.Discoverer.Discover(ctx, whole)
	if err != nil {
		if before.noticed {
			r.Noticed(discovery.Subject(base))
		}
		return attempt{}, 0, fmt.Errorf("discovering the tools of MCPServer %s: %w", key.Name, err)
	}
	if finding.Catalog != nil {
		err := discovery.Save(ctx, r.Records, whole, finding.Catalog)
		switch {
		case errors.Is(err, record.ErrRefused), errors.Is(err, record.ErrFull), errors.Is(err, record.ErrInvalid):
			finding = discovery.Finding{
				Asked: true, Reason: v1alpha1.ReasonDefinitionsTooLarge,
				Message: fmt.Sprintf("The definitions of the tools cannot be stored: %v.", err),
			}
		case err != nil:
			return attempt{}, 0, fmt.Errorf("storing the tools of MCPServer %s: %w", key.Name, err)
		}
	}
	last := attempt{uid: base.UID, generation: whole.Generation, at: r.Clock(), finding: finding}.after(before, base)
	if finding.Reason == v1alpha1.ReasonReady {
		r.rechecks.End(key)
	} else if last.pause = r.rechecks.Next(key, finding.Message, last.at); finding.Asked {
		last.pause = max(last.pause, minInterval)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.attempts == nil {
		r.attempts = map[types.NamespacedName]attempt{}
	}
	// The server may have changed again since it was asked.
	last.noticed = r.attempts[key].noticed
	r.attempts[key] = last
	return last, 0, nil
}

// begin returns the last attempt of this process. Notices that come from now on are about changes after it.
func (r *Reconciler) begin(key types.NamespacedName) attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.attempts[key]
	if before.noticed {
		begun := before
		begun.noticed = false
		r.attempts[key] = begun
	}
	return before
}

// sendsSecret reports whether requests to a server use something that admission asks the author of the MCPServer about.
func sendsSecret(server *v1alpha1.MCPServer) bool {
	if server.Spec.ServiceRef != nil || server.Spec.CABundle != nil {
		return true
	}
	for _, header := range server.Spec.Headers {
		if header.SecretKeyRef != nil {
			return true
		}
	}
	return false
}

// last returns the last attempt of this process.
func (r *Reconciler) last(key types.NamespacedName) attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.attempts[key]
}

// forget drops what is known of an MCPServer that is gone.
func (r *Reconciler) forget(key types.NamespacedName) {
	r.rechecks.End(key)
	r.end(key)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.attempts, key)
}

// end ends the connections to the server of an MCPServer that has changed, or is gone.
func (r *Reconciler) end(key types.NamespacedName) {
	r.Clients.Forget(key.Namespace, key.Name)
	r.Discoverer.Listeners.Forget(mcp.Subject{Namespace: key.Namespace, Name: key.Name})
}

// listen listens to a server whose tools an earlier process has discovered, until the next discovery is due after a
// pause. It returns when to look again.
func (r *Reconciler) listen(ctx context.Context, base *v1alpha1.MCPServer, pause time.Duration) (time.Duration, error) {
	known := definition.Discovered(base) && base.Status.ObservedGeneration == base.Generation
	if !known || r.Discoverer.Listeners == nil || r.Discoverer.Listeners.Tried(discovery.Subject(base)) {
		return pause, nil
	}
	if !r.enter(base.Namespace) {
		return min(pause, busyPause), nil
	}
	defer r.leave(base.Namespace)
	whole, err := r.Texts.MCPServer(ctx, base)
	if err != nil {
		return 0, err
	}
	if sendsSecret(whole) && r.Policies.InForce() != nil {
		return min(pause, policiesPause), nil
	}
	if err := r.Discoverer.Listen(ctx, whole); err != nil {
		return 0, fmt.Errorf("listening to MCPServer %s: %w", base.Name, err)
	}
	return pause, nil
}

// Noticed records that a server has said that its tools have changed. The next discovery comes sooner then.
func (r *Reconciler) Noticed(subject mcp.Subject) {
	key := types.NamespacedName{Namespace: subject.Namespace, Name: subject.Name}
	r.mu.Lock()
	first := !r.attempts[key].noticed
	if first {
		if r.attempts == nil {
			r.attempts = map[types.NamespacedName]attempt{}
		}
		last := r.attempts[key]
		last.noticed = true
		r.attempts[key] = last
	}
	r.mu.Unlock()
	if first {
		r.Wakes.Wake(key)
	}
}

// enter takes a place for a discovery, if the namespace may have one.
func (r *Reconciler) enter(namespace string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running == nil {
		r.running = map[string]int{}
	}
	if r.running[namespace] == perNamespace {
		return false
	}
	r.running[namespace]++
	return true
}

// leave gives the place of a discovery back.
func (r *Reconciler) leave(namespace string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running[namespace]--
	if r.running[namespace] == 0 {
		delete(r.running, namespace)
	}
}

// Start implements manager.Runnable: it waits for the end of the manager, then ends the connections to servers.
func (r *Reconciler) Start(ctx context.Context) error {
	<-ctx.Done()
	r.Discoverer.Listeners.Close()
	r.Clients.Close()
	return nil
}

// SetupWithManager registers the reconciler. It runs for an MCPServer that changes.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	own := builder.WithPredicates(predicate.Or(status.SpecChanged(), status.ReadyFlipped()))
	err := ctrl.NewControllerManagedBy(mgr).Named("mcpserver").For(&v1alpha1.MCPServer{}, own).
		WatchesRawSource(r.Wakes).WithOptions(pacing.Options(workers)).Complete(r)
	if err = errors.Join(err, mgr.Add(r)); err != nil {
		return fmt.Errorf("setting up the MCPServer controller: %w", err)
	}
	return nil
}
