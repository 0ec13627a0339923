package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/memory/memorytest"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/record/kubernetes"
	"github.com/capstan-dev/capstan/internal/runtime/record/recordtest"
	"github.com/capstan-dev/capstan/internal/runtime/sessionimage/imagetest"
	"github.com/capstan-dev/capstan/internal/testing/apiserver"
)

var config *rest.Config

func TestMain(m *testing.M) {
	os.Exit(apiserver.Run(m, func(c *rest.Config) { config = c }))
}

func newObjects(t *testing.T) record.Objects {
	t.Helper()
	return objectsOn(t, config)
}

func objectsOn(t *testing.T, config *rest.Config) record.Objects {
	t.Helper()
	objects, err := kubernetes.ForConfig(config, nil)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func newNamespace(t *testing.T, c client.Client) *corev1.Namespace {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "records-"}}
	if err := c.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	return namespace
}

func scopeIn(namespace, session string) record.Scope {
	return record.Scope{Namespace: namespace, Session: session, UID: types.UID(session + "-uid"), Store: "files"}
}

// writing is an operation that writes a small value and a blob.
func writing(key string) record.Operation {
	return record.Operation{Cause: record.Cause{Step: 1, Key: key}, Put: []record.Put{
		{Key: key + "-small", Value: []byte("small")}, {Key: key + "-large", Value: make([]byte, 10_000)},
	}}
}

func TestKubernetesIsAStore(t *testing.T) {
	recordtest.Run(t, newObjects)
}

// Rules: SVC-03.
func TestKubernetesKeepsMemories(t *testing.T) {
	memorytest.Run(t, newObjects)
}

// Rules: IMG-01.
func TestKubernetesKeepsImages(t *testing.T) {
	imagetest.Run(t, newObjects)
}

// The garbage collector of the cluster deletes Records when their owner is gone.
func TestEveryRecordIsOwnedByItsSession(t *testing.T) {
	c := apiserver.NewClient(t, config)
	scope := scopeIn(newNamespace(t, c).Name, "demo")
	if _, err := record.New(newObjects(t), record.Options{}).Apply(t.Context(), scope, writing("/a")); err != nil {
		t.Fatal(err)
	}
	var records v1alpha1.RecordList
	if err := c.List(t.Context(), &records, client.InNamespace(scope.Namespace)); err != nil || len(records.Items) != 2 {
		t.Fatalf("there are %d records, %v", len(records.Items), err)
	}
	kinds := map[v1alpha1.RecordType]int{}
	for _, r := range records.Items {
		kinds[r.Spec.Type]++
		if len(r.OwnerReferences) != 1 || len(r.Labels) != 0 || len(r.Finalizers) != 0 || len(r.Name) > 63 {
			t.Fatalf("the metadata is %+v", r.ObjectMeta)
		}
		owner := r.OwnerReferences[0]
		if owner.Kind != "Session" || owner.APIVersion != "capstan.dev/v1alpha1" || owner.Name != "demo" ||
			owner.UID != "demo-uid" || *owner.Controller || *owner.BlockOwnerDeletion {
			t.Fatalf("the owner is %+v", owner)
		}
		if r.Spec.Session != "demo" || r.Spec.Store != "files" {
			t.Fatalf("the spec is %s, %s", r.Spec.Session, r.Spec.Store)
		}
	}
	if kinds[v1alpha1.RecordTypeIndex] != 1 || kinds[v1alpha1.RecordTypeBlob] != 1 {
		t.Fatalf("the types are %v", kinds)
	}
}

// filling is an operation that writes so many small values from a number on.
func filling(first, count int) record.Operation {
	o := record.Operation{Cause: record.Cause{Step: 1, Key: fmt.Sprintf("fill-%d", first)}}
	for i := first; i < first+count; i++ {
		o.Put = append(o.Put, record.Put{Key: fmt.Sprintf("/%04d", i), Value: []byte("x")})
	}
	return o
}

// collectGarbage plays what the garbage collector does once a Session is gone, of which no process runs here.
func collectGarbage(t *testing.T, c client.Client, scope record.Scope) int {
	t.Helper()
	var records v1alpha1.RecordList
	if err := c.List(t.Context(), &records, client.InNamespace(scope.Namespace)); err != nil {
		t.Fatal(err)
	}
	count := 0
	for i := range records.Items {
		if owners := records.Items[i].OwnerReferences; len(owners) != 1 || owners[0].UID != scope.UID {
			continue
		}
		if err := c.Delete(t.Context(), &records.Items[i]); err != nil {
			t.Fatal(err)
		}
		count++
	}
	return count
}

// Nothing is left of the stores of a Session that is deleted: neither indexes, nor pages of them, nor values. A process
// that has read them before sees that they are gone, and what it writes late goes to the same owner.
func TestNothingIsLeftOfADeletedSession(t *testing.T) {
	c := apiserver.NewClient(t, config)
	gone := scopeIn(newNamespace(t, c).Name, "gone")
	kept := scopeIn(gone.Namespace, "kept")
	store := record.New(newObjects(t), record.Options{KeptBytes: 16 << 20})
	for _, o := range []record.Operation{filling(0, 1000), filling(1000, 100), writing("/a")} {
		if _, err := store.Apply(t.Context(), gone, o); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := store.Apply(t.Context(), kept, writing("/a")); err != nil {
		t.Fatal(err)
	}
	if count := collectGarbage(t, c, gone); count != 6 {
		t.Fatalf("%d Records were owned by the Session: not an index, 4 pages and a value", count)
	}
	if x, err := store.List(t.Context(), gone); err != nil || x.Revision != 0 || len(x.Items) != 0 {
		t.Fatalf("the store has revision %d and %d keys, %v", x.Revision, len(x.Items), err)
	}
	if _, _, err := store.Get(t.Context(), gone, "/a-large"); !errors.Is(err, record.ErrNotFound) {
		t.Fatalf("reading a value: %v", err)
	}
	if _, value, err := store.Get(t.Context(), kept, "/a-large"); err != nil || len(value) != 10_000 {
		t.Fatalf("another Session has %d bytes, %v", len(value), err)
	}
	if _, err := store.Apply(t.Context(), gone, writing("/late")); err != nil {
		t.Fatal(err)
	}
	if count := collectGarbage(t, c, gone); count != 2 {
		t.Fatalf("%d late Records are owned by the Session", count)
	}
	var left v1alpha1.RecordList
	if err := c.List(t.Context(), &left, client.InNamespace(gone.Namespace)); err != nil || len(left.Items) != 2 {
		t.Fatalf("%d Records are left, %v", len(left.Items), err)
	}
}

func TestNamesOfStoresDoNotMeet(t *testing.T) {
	a := scopeIn("default", "a")
	b, values := scopeIn("default", "b"), a
	values.Store = "values"
	if kubernetes.IndexName(a) == kubernetes.IndexName(b) || kubernetes.IndexName(a) == kubernetes.IndexName(values) {
		t.Fatalf("two stores share the name %s", kubernetes.IndexName(a))
	}
}

// deleted plays what the namespace controller does, of which no process runs here.
func deleted(ctx context.Context, c client.Client, namespace string) error {
	return c.DeleteAllOf(ctx, &v1alpha1.Record{}, client.InNamespace(namespace))
}

// Operations on a namespace that is being deleted end at once, and nothing is left of them.
func TestANamespaceIsDeletedUnderLoad(t *testing.T) {
	c := apiserver.NewClient(t, config)
	namespace := newNamespace(t, c)
	store := record.New(newObjects(t), record.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// One of the Sessions has so many keys that its index has pages.
	for _, o := range []record.Operation{filling(0, 1000), filling(1000, 100)} {
		if _, err := store.Apply(ctx, scopeIn(namespace.Name, "session-0"), o); err != nil {
			t.Fatal(err)
		}
	}
	var written, refused atomic.Int64
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			scope := scopeIn(namespace.Name, fmt.Sprintf("session-%d", i))
			for n := 0; ; n++ {
				_, err := store.Apply(ctx, scope, writing(fmt.Sprintf("/%d", n)))
				switch {
				case errors.Is(err, record.ErrRefused):
					refused.Add(1)
					return
				case err != nil:
					t.Errorf("operation %d of Session %d: %v", n, i, err)
					return
				}
				written.Add(1)
			}
		})
	}
	for written.Load() < 40 {
		if ctx.Err() != nil {
			t.Fatal("nothing is written")
		}
		<-time.After(5 * time.Millisecond)
	}
	if err := c.Delete(ctx, namespace); err != nil {
		t.Fatal(err)
	}
	if err := deleted(ctx, c, namespace.Name); err != nil {
		t.Fatal(err)
	}
	group.Wait()
	if refused.Load() != 8 {
		t.Fatalf("%d of 8 Sessions were refused, after %d operations", refused.Load(), written.Load())
	}
	if err := deleted(ctx, c, namespace.Name); err != nil {
		t.Fatal(err)
	}
	scope := scopeIn(namespace.Name, "session-0")
	if _, err := store.Apply(ctx, scope, writing("/late")); !errors.Is(err, record.ErrRefused) ||
		!apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		t.Fatalf("a late operation: %v", err)
	}
	var left v1alpha1.RecordList
	if err := c.List(ctx, &left, client.InNamespace(namespace.Name)); err != nil || len(left.Items) != 0 {
		t.Fatalf("%d records are left, %v", len(left.Items), err)
	}
}

func TestWhatTheAPIServerRefusesIsRefused(t *testing.T) {
	store := record.New(newObjects(t), record.Options{})
	for name, test := range map[string]struct {
		scope record.Scope
		is    func(error) bool
	}{
		"namespace gone":  {scopeIn("never-there", "demo"), apierrors.IsNotFound},
		"schema violated": {scopeIn("default", strings.Repeat("x", 254)), apierrors.IsInvalid},
	} {
		if _, err := store.Apply(t.Context(), test.scope, writing("/a")); !errors.Is(err, record.ErrRefused) ||
			!test.is(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAQuotaIsARefusal(t *testing.T) {
	c := apiserver.NewClient(t, config)
	namespace := newNamespace(t, c)
	most := corev1.ResourceList{"count/records.capstan.dev": resource.MustParse("0")}
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "few"},
		Spec:       corev1.ResourceQuotaSpec{Hard: most},
	}
	if err := c.Create(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	// No quota controller runs here.
	quota.Status = corev1.ResourceQuotaStatus{Hard: most, Used: most}
	if err := c.Status().Update(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	store := record.New(newObjects(t), record.Options{})
	for deadline := time.Now().Add(time.Minute); ; {
		_, err := store.Apply(t.Context(), scopeIn(namespace.Name, "demo"), writing("/a"))
		if errors.Is(err, record.ErrRefused) && strings.Contains(err.Error(), "exceeded quota: few") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("with a quota: %v", err)
		}
		<-time.After(50 * time.Millisecond)
	}
}

func TestAKindThatIsNotServedIsNoEmptyStore(t *testing.T) {
	served := rest.CopyConfig(config)
	served.WrapTransport = func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			r = r.Clone(r.Context())
			r.URL.Path = strings.Replace(r.URL.Path, "/records/", "/neverserved/", 1)
			return next.RoundTrip(r)
		})
	}
	store := record.New(objectsOn(t, served), record.Options{})
	if x, err := store.List(t.Context(), scopeIn("default", "unserved")); err == nil {
		t.Fatalf("listing a kind that is not served gives %+v", x)
	}
}

func TestALostConnectionIsNoRefusal(t *testing.T) {
	lost := rest.CopyConfig(config)
	lost.WrapTransport = func(http.RoundTripper) http.RoundTripper {
		return roundTripper(func(*http.Request) (*http.Response, error) { return nil, errors.New("connection lost") })
	}
	store := record.New(objectsOn(t, lost), record.Options{})
	if _, err := store.List(t.Context(), scopeIn("default", "lost")); err == nil || errors.Is(err, record.ErrNotFound) {
		t.Fatalf("listing: %v", err)
	}
	_, err := store.Apply(t.Context(), scopeIn("default", "lost"), writing("/a"))
	if err == nil || errors.Is(err, record.ErrRefused) {
		t.Fatalf("writing: %v", err)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
