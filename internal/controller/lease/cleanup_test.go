package lease

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/policies"
	"github.com/capstan-dev/capstan/internal/runtime/lease"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/resource"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// Rules: LEASE-04.
func TestALeaseThatIsDeletedWaitsForNoRequestWithoutAnEnd(t *testing.T) {
	w := newWorld(t, expired(), cleaner())
	w.hang = make(chan struct{})
	defer close(w.hang)
	if l, _ := w.pass(); l.Status.State != v1alpha1.LeaseStateCleaning {
		t.Fatalf("the lease is %+v", l.Status)
	}
	l := expired()
	if err := w.Client.Delete(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	w.now = time.Now() // The fake API server deletes at the time of the machine.
	if l, result := w.pass(); l.Status.State != v1alpha1.LeaseStateCleaning || result.RequeueAfter < time.Minute {
		t.Errorf("the lease is %+v after %+v", l.Status, result)
	}
	w.now = w.now.AddDate(10, 0, 0)
	if l, _ := w.pass(); l.Status.State != v1alpha1.LeaseStateAbandoned {
		t.Errorf("the lease is %+v", l.Status)
	}
}

// Rules: LEASE-03, LEASE-04.
func TestAReleaseAfterAFailureIsNotPutOff(t *testing.T) {
	w := newWorld(t, expired(func(l *v1alpha1.LeasedResource) {
		l.Generation, l.Spec.DesiredState = 2, v1alpha1.LeaseDesiredStateReleased
		l.Status = lease.Failed(l, "no", noon.Add(2*time.Hour))
		l.Status.ObservedGeneration = 1
	}), cleaner())
	w.outcome = tool.Outcome{State: v1alpha1.ToolCallStateFailed, Status: 500}
	if l := w.clean(); l.Status.CleanupFailures != 2 || l.Status.ObservedGeneration != 2 {
		t.Fatalf("the lease is %+v", l.Status)
	}
	if l, result := w.pass(); l.Status.State != v1alpha1.LeaseStateCleanupFailed || result.RequeueAfter <= 0 {
		t.Errorf("it is cleaned up again at once: %+v", l.Status)
	}

	w = newWorld(t, expired(func(l *v1alpha1.LeasedResource) {
		l.Generation, l.Finalizers = 2, nil
		l.Status = lease.Ended(l, v1alpha1.LeaseStateReleased, noon)
	}))
	if l, _ := w.pass(); l.Status.State != v1alpha1.LeaseStateReleased || l.Status.ObservedGeneration != 2 {
		t.Errorf("the lease is %+v", l.Status)
	}
}

// Rules: LEASE-04.
func TestANamespaceHasFewCleanUpsAtATime(t *testing.T) {
	var objects []client.Object
	for n := range 2 * maxClaims {
		objects = append(objects, expired(func(l *v1alpha1.LeasedResource) {
			l.Name, l.UID = fmt.Sprint("lease-", n), types.UID(fmt.Sprint(n))
		}))
	}
	w := newWorld(t, append(objects, cleaner())...)
	w.hang = make(chan struct{})
	defer close(w.hang)
	cleaning := func() (number int) {
		var list v1alpha1.LeasedResourceList
		if err := w.Client.List(t.Context(), &list); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			if list.Items[i].Status.State == v1alpha1.LeaseStateCleaning {
				number++
			}
		}
		return number
	}
	for n, l := range objects {
		result, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(l)})
		if err != nil || n >= maxClaims && result.RequeueAfter != placePause {
			t.Errorf("lease %d: %+v, %v", n, result, err)
		}
	}
	if got := cleaning(); got != maxClaims {
		t.Errorf("%d clean-ups at a time", got)
	}
	// A lease that is gone frees its place.
	first := expired(func(l *v1alpha1.LeasedResource) { l.Name, l.Finalizers = "lease-0", nil })
	if err := w.Client.Patch(t.Context(), first, client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`))); err != nil {
		t.Fatal(err)
	}
	if err := w.Client.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	for _, l := range []client.Object{first, objects[len(objects)-1]} {
		if _, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(l)}); err != nil {
			t.Fatal(err)
		}
	}
	if got := cleaning(); got != maxClaims {
		t.Errorf("%d clean-ups at a time after one is gone", got)
	}
}

// Rules: LEASE-04.
func TestTheToolIsReadWhenTheRequestHasItsPlace(t *testing.T) {
	w := newWorld(t, expired(), cleaner())
	fn := w.request(expired(), "cleanup-1")
	if err := w.Client.Delete(t.Context(), cleaner()); err != nil {
		t.Fatal(err)
	}
	value, err := fn(t.Context())
	if outcome, _ := value.(tool.Outcome); err != nil || !strings.Contains(shown(outcome), "does not exist") ||
		len(w.calls) != 0 {
		t.Errorf("%+v, %v after %d requests", value, err, len(w.calls))
	}
}

// Rules: LEASE-04.
func TestCleanUpsWithASecretAwaitThePolicies(t *testing.T) {
	secret := cleaner(func(c *v1alpha1.Tool) {
		c.Spec.HTTP.Headers = []v1alpha1.HTTPHeader{{
			Name: "Authorization", SecretKeyRef: &v1alpha1.SecretKeyReference{Name: "s", Key: "k"},
		}}
	})
	w := newWorld(t, expired(), secret)
	w.Policies = &policies.Verifier{} // It has not looked yet.
	l, result := w.pass()
	if l.Status.State != v1alpha1.LeaseStateActive || l.Status.CleanupFailures != 0 ||
		result.RequeueAfter != policiesPause {
		t.Errorf("the lease is %+v after %+v", l.Status, result)
	}
	w.Policies = nil
	w.outcome = tool.Outcome{State: v1alpha1.ToolCallStateSucceeded}
	if l := w.clean(); l.Status.State != v1alpha1.LeaseStateReleased || len(w.calls) != 1 {
		t.Errorf("the lease is %+v after %d requests", l.Status, len(w.calls))
	}
}

// Rules: LEASE-04.
func TestTheEndOfARequestIsKeptUntilItIsWritten(t *testing.T) {
	w := newWorld(t, expired(), cleaner())
	w.outcome = tool.Outcome{State: v1alpha1.ToolCallStateSucceeded}
	if l, _ := w.pass(); l.Status.State != v1alpha1.LeaseStateCleaning {
		t.Fatalf("the lease is %+v", l.Status)
	}
	<-w.woken
	whole, watches := w.Client.(client.WithWatch)
	if !watches {
		t.Fatalf("the client is a %T", w.Client)
	}
	w.Client = interceptor.NewClient(whole, interceptor.Funcs{
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch,
			...client.SubResourcePatchOption,
		) error {
			return apierrors.NewConflict(schema.GroupResource{}, key.Name, nil)
		},
	})
	if l, result := w.pass(); l.Status.State != v1alpha1.LeaseStateCleaning || result.RequeueAfter != staleRetry {
		t.Fatalf("the lease is %+v after %+v", l.Status, result)
	}
	w.Client = whole
	if l, _ := w.pass(); l.Status.State != v1alpha1.LeaseStateReleased || len(w.calls) != 1 {
		t.Errorf("the lease is %+v after %d requests", l.Status, len(w.calls))
	}
	if len(w.claims) != 0 {
		t.Errorf("%d claims are left", len(w.claims))
	}
}

// Rules: LEASE-04.
func TestAReleasedLeaseShowsAResponseThatCountsAsSuccess(t *testing.T) {
	w := newWorld(t, expired(), cleaner())
	w.outcome = tool.Outcome{State: v1alpha1.ToolCallStateFailed, Status: 404, Error: "hunter2"}
	message := func(l *v1alpha1.LeasedResource) string {
		return meta.FindStatusCondition(l.Status.Conditions, v1alpha1.ConditionReady).Message
	}
	const want = "status 404 Not Found"
	l := w.clean()
	if got := message(l); l.Status.State != v1alpha1.LeaseStateReleased || !strings.Contains(got, want) {
		t.Fatalf("the lease is %+v", l.Status)
	}
	l.Generation = 2
	if err := w.Client.Update(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	w.pass() // The finalizer.
	if l, _ = w.pass(); l.Status.ObservedGeneration != l.Generation || !strings.Contains(message(l), want) {
		t.Errorf("a later write leaves %+v", l.Status)
	}
}

// fullStore is a store whose namespace has no room.
type fullStore struct {
	record.Store
	full bool
}

// Update implements record.Store.
func (s *fullStore) Update(
	ctx context.Context, of record.Scope, cause record.Cause, decide record.Decide,
) (record.Outcome, error) {
	if s.full {
		return record.Outcome{}, record.ErrNamespaceFull
	}
	return s.Store.Update(ctx, of, cause, decide)
}

// registered returns the status of the lease in the registry of its Session.
func (w *world) registered() resource.Status {
	w.t.Helper()
	of := record.Session{Namespace: "ns", Name: "demo", UID: "1"}
	list, err := resource.Of(w.Records, of).List(w.t.Context(), resource.Filter{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, entry := range list {
		if entry.ID == key.Name {
			return entry.Status
		}
	}
	return ""
}

// Rules: LEASE-04, RES-01.
func TestAFullRegistryHoldsUpNoCleanUp(t *testing.T) {
	session := &v1alpha1.Session{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo", UID: "1"}}
	fresh := func(l *v1alpha1.LeasedResource) { l.Status = v1alpha1.LeasedResourceStatus{} }
	w := newWorld(t, expired(fresh), cleaner(), session)
	store := &fullStore{Store: w.Records, full: true}
	w.Records = store
	w.outcome = tool.Outcome{State: v1alpha1.ToolCallStateSucceeded}
	if l, result := w.pass(); l.Status.State != v1alpha1.LeaseStateActive || result.RequeueAfter <= 0 {
		t.Fatalf("the lease is %+v after %+v", l.Status, result)
	}
	if l := w.clean(); l.Status.State != v1alpha1.LeaseStateReleased {
		t.Fatalf("the lease is %+v", l.Status)
	}
	store.full = false
	for range 3 {
		w.now = w.now.Add(time.Hour)
		w.pass()
	}
	if got := w.registered(); got != resource.Released || len(w.calls) != 1 {
		t.Errorf("the registry has it as %q after %d requests", got, len(w.calls))
	}

	w = newWorld(t, expired(func(l *v1alpha1.LeasedResource) {
		l.Spec.DesiredState = v1alpha1.LeaseDesiredStateAbandoned
	}), session)
	w.Records = &fullStore{Store: w.Records, full: true}
	if l, _ := w.pass(); l.Status.State != v1alpha1.LeaseStateAbandoned {
		t.Errorf("the lease is %+v", l.Status)
	}
}
