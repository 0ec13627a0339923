package lease

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/executor"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	invocation "github.com/capstan-dev/capstan/internal/runtime/invocation/executor"
	"github.com/capstan-dev/capstan/internal/runtime/lease"
	"github.com/capstan-dev/capstan/internal/runtime/ratelimit"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/record/memory"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

var (
	noon = time.Date(2031, 5, 4, 12, 0, 0, 0, time.UTC)
	key  = types.NamespacedName{Namespace: "ns", Name: "lease-1"}
)

// world is an API server with a manager.
type world struct {
	*Reconciler
	t     *testing.T
	now   time.Time
	woken chan types.NamespacedName
	calls []invocation.Call
	// outcome and err are what the next requests end with.
	outcome tool.Outcome
	err     error
	// hang makes requests wait until it is closed; nil for not at all.
	hang chan struct{}
}

// Alone implements Caller.
func (w *world) Alone(_ context.Context, c invocation.Call) (tool.Outcome, error) {
	if w.hang != nil {
		<-w.hang
		return tool.Outcome{}, errors.New("hung")
	}
	w.calls = append(w.calls, c)
	return w.outcome, w.err
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}})
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.LeasedResource{}).Build()
	w := &world{t: t, now: noon.Add(2 * time.Hour), woken: make(chan types.NamespacedName, 10)}
	clock := func() time.Time { return w.now }
	pool := func() *fairshare.Pool {
		return fairshare.NewPool(fairshare.Options{Total: fairshare.Amount{Places: 4, Bytes: 1 << 20}})
	}
	w.Reconciler = &Reconciler{
		Client: c, Live: c, Records: record.New(memory.New(), record.Options{}), Caller: w, Clock: clock,
		Limits: &ratelimit.Calls{Counter: ratelimit.NewMemory(clock)},
		Activities: executor.NewExecutor(executor.Pools{Models: pool(), Tools: pool()},
			func(key types.NamespacedName) { w.woken <- key }),
	}
	return w
}

// pass reconciles the lease, and returns it; nil if it is gone.
func (w *world) pass() (*v1alpha1.LeasedResource, ctrl.Result) {
	w.t.Helper()
	result, err := w.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: key})
	if err != nil {
		w.t.Fatal(err)
	}
	l := &v1alpha1.LeasedResource{}
	if err := w.Client.Get(w.t.Context(), key, l); err != nil {
		return nil, result
	}
	return l, result
}

// clean passes until the request of a clean-up has ended.
func (w *world) clean() *v1alpha1.LeasedResource {
	w.t.Helper()
	if l, _ := w.pass(); l.Status.State != v1alpha1.LeaseStateCleaning {
		w.t.Fatalf("the lease is %+v", l.Status)
	}
	<-w.woken
	l, _ := w.pass()
	return l
}

// expired is a lease of ann that has expired.
func expired(change ...func(*v1alpha1.LeasedResource)) *v1alpha1.LeasedResource {
	l := &v1alpha1.LeasedResource{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name, UID: "lease-uid", Finalizers: []string{v1alpha1.FinalizerLease},
			CreationTimestamp: metav1.NewTime(noon),
		},
		Spec: v1alpha1.LeasedResourceSpec{
			DesiredState: v1alpha1.LeaseDesiredStateActive, Provider: "p", Type: "vm", ExternalID: "vm-1",
			Duration: metav1.Duration{Duration: time.Hour}, SessionRef: v1alpha1.ObjectIdentity{Name: "demo", UID: "1"},
			Turn: "demo-1", Tool: "start", User: "ann",
			Cleanup: v1alpha1.LeaseCleanup{ToolRef: v1alpha1.LocalReference{Name: "clean"}},
		},
	}
	l.Status = lease.First(l)
	for _, c := range change {
		c(l)
	}
	return l
}

// cleaner is the Tool that cleans up.
func cleaner(change ...func(*v1alpha1.Tool)) *v1alpha1.Tool {
	c := &v1alpha1.Tool{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "clean", UID: "clean-uid"},
		Spec: v1alpha1.ToolSpec{
			Description: "Cleans.", SideEffect: v1alpha1.SideEffectIdempotent,
			HTTP: &v1alpha1.HTTPTool{URL: "https://example.org/clean"},
		},
	}
	for _, f := range change {
		f(c)
	}
	return c
}

// Rules: LEASE-04.
func TestACleanUpActsAsTheOwner(t *testing.T) {
	w := newWorld(t, expired(), cleaner())
	w.outcome = tool.Outcome{State: v1alpha1.ToolCallStateSucceeded}
	l := w.clean()
	if l.Status.State != v1alpha1.LeaseStateReleased || l.Status.FinishedAt == nil {
		t.Errorf("the lease is %+v", l.Status)
	}
	if len(w.calls) != 1 {
		t.Fatalf("%d requests", len(w.calls))
	}
	c := w.calls[0]
	if c.User != "ann" || c.Users != "" || !c.Confined || c.Turn.UID != "lease-uid" || c.Session.Namespace != "ns" ||
		c.Definition.Name != "clean" || !c.Definition.Holds(c.Call) ||
		c.Arguments != `{"externalID":"vm-1","provider":"p","type":"vm"}` {
		t.Errorf("the call is %+v", c)
	}
	if l, _ = w.pass(); len(l.Finalizers) != 0 {
		t.Errorf("the finalizers are %v", l.Finalizers)
	}
	w.now = w.now.Add(lease.Retention + time.Second)
	if l, _ = w.pass(); l != nil {
		t.Errorf("the lease is kept: %+v", l)
	}
}

// Rules: LEASE-04.
func TestHowACleanUpEnds(t *testing.T) {
	failed := func(status int, text string) tool.Outcome {
		return tool.Outcome{State: v1alpha1.ToolCallStateFailed, Status: status, Error: text}
	}
	for name, test := range map[string]struct {
		outcome tool.Outcome
		err     error
		want    string
	}{
		"gone already": {outcome: failed(404, "no such vm")},
		"gone":         {outcome: failed(410, "")},
		"an error of the server": {
			outcome: failed(500, "The server responded with status 500. The start of the response:\nhunter2"),
			want:    "The server responded with status 500 Internal Server Error.",
		},
		"no connection to the server": {
			outcome: failed(0, "The tool was not executed.\nhunter2"), want: "The tool was not executed.",
		},
		"no connection of the user": {outcome: tool.Outcome{Asked: &tool.Input{}}, want: "connection of the user"},
		"a defect":                  {err: errors.New("hunter2"), want: "could not be prepared"},
		"a long error":              {outcome: failed(0, strings.Repeat("x", 5000)), want: "xxx"},
	} {
		w := newWorld(t, expired(), cleaner())
		w.outcome, w.err = test.outcome, test.err
		l := w.clean()
		state := v1alpha1.LeaseStateReleased
		if test.want != "" {
			state = v1alpha1.LeaseStateCleanupFailed
		}
		if e := l.Status.LastError; l.Status.State != state || !strings.Contains(e, test.want) || len(e) > 1024 ||
			strings.Contains(fmt.Sprint(l.Status), "hunter2") {
			t.Errorf("%s: the lease is %+v", name, l.Status)
		}
	}
}

// Rules: LEASE-04.
func TestAToolThatCannotCleanUpIsNotCalled(t *testing.T) {
	confined := func(l *v1alpha1.LeasedResource) { l.Spec.Cleanup.ConfinedTo = "https://example.org:443" }
	for name, test := range map[string]struct {
		lease *v1alpha1.LeasedResource
		tools []client.Object
		want  string
	}{
		"one that is gone": {expired(), nil, "does not exist"},
		"one with approval": {expired(), []client.Object{cleaner(func(c *v1alpha1.Tool) {
			c.Spec.Policy = v1alpha1.ToolPolicyRequiresApproval
		})}, "require approval"},
		"one for another place": {expired(confined), []client.Object{cleaner(func(c *v1alpha1.Tool) {
			c.Spec.HTTP.URL = "https://attacker.example/clean"
		})}, "another place than https://example.org:443"},
	} {
		w := newWorld(t, append(test.tools, test.lease)...)
		l, _ := w.pass()
		if l.Status.State != v1alpha1.LeaseStateCleanupFailed || !strings.Contains(l.Status.LastError, test.want) ||
			len(w.calls) != 0 {
			t.Errorf("%s: the lease is %+v after %d requests", name, l.Status, len(w.calls))
		}
	}
	w := newWorld(t, expired(confined), cleaner())
	w.outcome = tool.Outcome{State: v1alpha1.ToolCallStateSucceeded}
	if l := w.clean(); l.Status.State != v1alpha1.LeaseStateReleased {
		t.Errorf("the permitted place is not reached: %+v", l.Status)
	}
}

// Rules: LEASE-04.
func TestALeaseHoldsUpNoNamespace(t *testing.T) {
	w := newWorld(t, expired())
	namespace := &corev1.Namespace{}
	if err := w.Client.Get(t.Context(), types.NamespacedName{Name: "ns"}, namespace); err != nil {
		t.Fatal(err)
	}
	namespace.Finalizers = []string{"kubernetes"}
	l := expired()
	err := errors.Join(w.Client.Update(t.Context(), namespace), w.Client.Delete(t.Context(), namespace),
		w.Client.Delete(t.Context(), l))
	if err != nil {
		t.Fatal(err)
	}
	if l, _ = w.pass(); l.Status.State != v1alpha1.LeaseStateAbandoned {
		t.Errorf("the lease is %+v", l.Status)
	}
	if l, _ = w.pass(); l != nil {
		t.Errorf("the lease is kept: %+v", l)
	}
}

// Rules: LEASE-04.
func TestCleanUpsCountForTheRateLimitOfTheirTool(t *testing.T) {
	w := newWorld(t, expired(), cleaner(func(c *v1alpha1.Tool) { c.Spec.CallsPerMinute = ptr.To[int32](1) }))
	w.Limits.Allow(t.Context(), ratelimit.Tool{Namespace: "ns", Kind: "Tool", Name: "clean", UID: "clean-uid"}, 1)
	if l, result := w.pass(); l.Status.State != v1alpha1.LeaseStateActive || result.RequeueAfter < time.Second {
		t.Errorf("the lease is %+v, %+v", l.Status, result)
	}
	w.now = w.now.Add(2 * time.Minute)
	if l, _ := w.pass(); l.Status.State != v1alpha1.LeaseStateCleaning {
		t.Errorf("the lease is %+v", l.Status)
	}
	<-w.woken
}

// Rules: LEASE-01.
func TestResourcesThatAreNotCleanedUpAreBounded(t *testing.T) {
	fill := func(number int, session types.UID) []client.Object {
		objects := []client.Object{cleaner()}
		for n := range number {
			objects = append(objects, expired(func(l *v1alpha1.LeasedResource) {
				l.Name, l.UID, l.Spec.SessionRef.UID = fmt.Sprint("lease-", n), types.UID(fmt.Sprint(n)), session
			}))
		}
		return objects
	}
	for name, test := range map[string]struct {
		number  int
		session types.UID
		refused bool
	}{
		"room for one more of the session":     {lease.MaxPerSession - 1, "1", false},
		"no room in the session":               {lease.MaxPerSession, "1", true},
		"room beside another session":          {lease.MaxPerSession, "2", false},
		"room for one more of the namespace":   {lease.MaxPerNamespace - 1, "2", false},
		"no room in the namespace for another": {lease.MaxPerNamespace, "2", true},
	} {
		_, err := newWorld(t, fill(test.number, test.session)...).Cleaner(t.Context(), starting)
		if refused := errors.As(err, new(*lease.RefusedError)); refused != test.refused || err != nil && !refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}
