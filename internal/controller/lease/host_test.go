package lease

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/lease"
)

var (
	vm   = lease.Identity{Provider: "p", Type: "vm", ExternalID: "vm-1"}
	demo = lease.Owner{Namespace: "ns", Name: "demo", UID: "1"}
	// starting is a call that creates a resource.
	starting = lease.Request{
		Owner: demo, Identity: lease.Identity{Provider: "p", Type: "vm"}, Duration: time.Hour,
		Turn: "demo-2", Tool: "start", Call: "1-0", User: "ann",
		Cleanup: v1alpha1.LeaseCleanup{ToolRef: v1alpha1.LocalReference{Name: "clean"}},
	}
)

// named is the lease on vm, under its own name.
func named(change ...func(*v1alpha1.LeasedResource)) *v1alpha1.LeasedResource {
	return expired(append(change, func(l *v1alpha1.LeasedResource) { l.Name = lease.Name("ns", vm) })...)
}

// readVM returns the lease on vm.
func (w *world) readVM() *v1alpha1.LeasedResource {
	w.t.Helper()
	l := &v1alpha1.LeasedResource{}
	if err := w.Client.Get(w.t.Context(), client.ObjectKeyFromObject(named()), l); err != nil {
		w.t.Fatal(err)
	}
	return l
}

func (w *world) keep(turn string) error {
	request := starting
	request.Identity, request.Turn = vm, turn
	return w.Keep(w.t.Context(), request)
}

// Rules: LEASE-01.
func TestARepeatedUseKeepsOneLease(t *testing.T) {
	w := newWorld(t)
	if err := errors.Join(w.keep("demo-1"), w.keep("demo-2")); err != nil {
		t.Fatal(err)
	}
	l := w.readVM()
	if l.Spec.Turn != "demo-1" || !l.Status.ExpiresAt.Time.Equal(w.now.Add(time.Hour)) || len(l.Finalizers) != 1 ||
		l.Labels[v1alpha1.LabelSessionUID] != "1" {
		t.Errorf("the lease is %+v", l)
	}
}

// Rules: LEASE-01, LEASE-04.
func TestAUseWins(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.LeasedResource){
		"over a claim": func(l *v1alpha1.LeasedResource) {
			l.Status = lease.Begun(l, time.Minute, noon.Add(2*time.Hour))
		},
		"over a failure": func(l *v1alpha1.LeasedResource) { l.Status = lease.Failed(l, "why", noon.Add(2*time.Hour)) },
		"over a release": func(l *v1alpha1.LeasedResource) {
			l.Spec.DesiredState = v1alpha1.LeaseDesiredStateReleased
		},
		"over what was cleaned up": func(l *v1alpha1.LeasedResource) {
			l.Status = lease.Ended(l, v1alpha1.LeaseStateReleased, noon)
		},
	} {
		w := newWorld(t, named(change))
		if err := w.keep("demo-2"); err != nil {
			t.Fatal(err)
		}
		l := w.readVM()
		if l.Spec.DesiredState != v1alpha1.LeaseDesiredStateActive || lease.Finished(l) ||
			l.Status.CleanupStartedAt != nil || l.Status.LastError != "" {
			t.Errorf("%s: the lease is %+v, %+v", name, l.Spec, l.Status)
		}
	}
}

// Rules: LEASE-01.
func TestALeaseThatEndsIsNotExtended(t *testing.T) {
	w := newWorld(t, named(func(l *v1alpha1.LeasedResource) {
		l.Spec.DesiredState = v1alpha1.LeaseDesiredStateAbandoned
	}))
	deleted := newWorld(t, named())
	if err := deleted.Client.Delete(t.Context(), named()); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{"abandoned": w.keep("demo-2"), "deleted": deleted.keep("demo-2")} {
		if !errors.As(err, new(*lease.RefusedError)) {
			t.Errorf("one that is %s: %v", name, err)
		}
	}
}

// Rules: LEASE-01, LEASE-02.
func TestASessionExtendsAndReleasesItsOwnLeases(t *testing.T) {
	w := newWorld(t, named())
	other := lease.Owner{Namespace: "ns", Name: "demo", UID: "2"}
	if found, err := w.Extend(t.Context(), other, vm, time.Hour); found || err != nil {
		t.Errorf("another Session extends it: %v, %v", found, err)
	}
	if state, err := w.Release(t.Context(), other, vm); state != "" || err != nil {
		t.Errorf("another Session releases it: %v, %v", state, err)
	}
	if found, err := w.Extend(t.Context(), demo, vm, time.Hour); !found || err != nil {
		t.Errorf("its Session extends it: %v, %v", found, err)
	}
	if l := w.readVM(); !l.Status.ExpiresAt.Time.Equal(w.now.Add(time.Hour)) {
		t.Errorf("the lease is %+v", l.Status)
	}
	for range 2 {
		if state, err := w.Release(t.Context(), demo, vm); state != v1alpha1.LeaseStateCleaning || err != nil {
			t.Errorf("its Session releases it: %v, %v", state, err)
		}
	}
	if l := w.readVM(); l.Spec.DesiredState != v1alpha1.LeaseDesiredStateReleased {
		t.Errorf("the lease is %+v", l.Spec)
	}
	none := lease.Identity{Provider: "p", Type: "vm", ExternalID: "vm-2"}
	if found, err := w.Extend(t.Context(), demo, none, time.Hour); found || err != nil {
		t.Errorf("a lease that does not exist is extended: %v, %v", found, err)
	}
}

// Rules: LEASE-03.
func TestTheOldestFinishedLeasesAreDeletedEarly(t *testing.T) {
	var objects []client.Object
	for n := range lease.MaxFinished + 2 {
		objects = append(objects, expired(func(l *v1alpha1.LeasedResource) {
			l.Name, l.UID, l.Finalizers = fmt.Sprintf("lease-%04d", n), types.UID(fmt.Sprint(n)), nil
			l.Status = lease.Ended(l, v1alpha1.LeaseStateReleased, noon.Add(-time.Duration(n)*time.Second))
		}))
	}
	w := newWorld(t, objects...)
	if err := w.keep("demo-1"); err != nil {
		t.Fatal(err)
	}
	var list v1alpha1.LeasedResourceList
	if err := w.Client.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	for _, l := range list.Items {
		if l.Name == "lease-1000" || l.Name == "lease-1001" {
			t.Errorf("%s, which is among the oldest, is kept", l.Name)
		}
	}
	if len(list.Items) != lease.MaxFinished+1 {
		t.Errorf("%d leases are kept", len(list.Items))
	}
}

// Rules: LEASE-01.
func TestAQuotaRefusesALeaseBeforeTheRequest(t *testing.T) {
	w := newWorld(t, cleaner())
	var dry []string
	w.Reconciler.Client = interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, options ...client.CreateOption) error {
			dry = append(dry, (&client.CreateOptions{}).ApplyOptions(options).DryRun...)
			return apierrors.NewForbidden(schema.GroupResource{Resource: "leasedresources"}, o.GetName(), errors.New("a quota"))
		},
	})
	if _, err := w.Cleaner(t.Context(), starting); !errors.As(err, new(*lease.RefusedError)) || len(dry) != 1 {
		t.Errorf("it is prepared with %v, after the dry runs %v", err, dry)
	}
}

// Rules: LEASE-01.
func TestACallIsNotRefusedBecauseOfItsOwnLease(t *testing.T) {
	objects := []client.Object{cleaner()}
	for n := range lease.MaxPerSession - 1 {
		objects = append(objects, expired(func(l *v1alpha1.LeasedResource) {
			l.Name, l.UID = fmt.Sprint("lease-", n), types.UID(fmt.Sprint(n))
		}))
	}
	w := newWorld(t, objects...)
	if err := w.keep(starting.Turn); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Cleaner(t.Context(), starting); err != nil {
		t.Errorf("the call is repeated: %v", err)
	}
	another := starting
	another.Call = "1-1"
	if _, err := w.Cleaner(t.Context(), another); !errors.As(err, new(*lease.RefusedError)) {
		t.Errorf("another call of the Turn: %v", err)
	}
	if err := w.Client.Delete(t.Context(), cleaner()); err != nil {
		t.Fatal(err)
	}
	var refused *lease.RefusedError
	if _, err := w.Cleaner(t.Context(), starting); !errors.As(err, &refused) || !refused.Repeated {
		t.Errorf("the call is repeated without a Tool that cleans up: %v", err)
	}
}

// Rules: LEASE-01.
func TestACallDoesNotTakeTheLeaseOfAnotherSession(t *testing.T) {
	w := newWorld(t, named(func(l *v1alpha1.LeasedResource) { l.Spec.SessionRef.UID = "2" }))
	var refused *lease.RefusedError
	if err := w.keep("demo-1"); !errors.As(err, &refused) || !refused.Foreign {
		t.Errorf("it is kept: %v", err)
	}
	if l := w.readVM(); !l.Status.ExpiresAt.Time.Equal(noon.Add(time.Hour)) {
		t.Errorf("the lease is %+v", l.Status)
	}
}

// Rules: LEASE-01.
func TestAFinishedLeaseThatAFinalizerHoldsIsNotReplaced(t *testing.T) {
	w := newWorld(t, named(func(l *v1alpha1.LeasedResource) {
		l.Status = lease.Ended(l, v1alpha1.LeaseStateReleased, noon)
		l.Finalizers = append(l.Finalizers, "example.com/held")
	}))
	if err := w.keep("demo-1"); !errors.As(err, new(*lease.RefusedError)) {
		t.Errorf("it is kept: %v", err)
	}
}
