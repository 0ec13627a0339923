package kubernetes_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
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
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/journaltest"
	"github.com/capstan-dev/capstan/internal/runtime/journal/kubernetes"
	"github.com/capstan-dev/capstan/internal/testing/apiserver"
)

var config *rest.Config

func TestMain(m *testing.M) {
	os.Exit(apiserver.Run(m, func(c *rest.Config) { config = c }))
}

func newStore(t *testing.T) journal.Store {
	t.Helper()
	store, err := kubernetes.ForConfig(config, nil)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func TestKubernetesIsALog(t *testing.T) {
	journaltest.Run(t, newStore)
}

func entry(ordinal int64) *v1alpha1.JournalEntrySpec {
	return &v1alpha1.JournalEntrySpec{
		Session: "demo", Ordinal: ordinal, Time: metav1.NewMicroTime(time.Unix(1, 0)),
		Turn: &v1alpha1.JournalTurn{Name: "demo-1", UID: "turn-uid"}, Step: 1,
	}
}

func TestAnEntryIsOwnedByItsSessionAndNamedByItsOrdinal(t *testing.T) {
	s := journal.Session{Namespace: "default", Name: "demo", UID: "owner-uid"}
	if err := newStore(t).Create(t.Context(), s, entry(7)); err != nil {
		t.Fatal(err)
	}
	name := kubernetes.EntryName(s.UID, 7)
	if !strings.HasSuffix(name, "-00000007") || len(name) != 29 {
		t.Fatalf("the name is %q", name)
	}
	var got v1alpha1.JournalEntry
	key := client.ObjectKey{Namespace: "default", Name: name}
	if err := apiserver.NewClient(t, config).Get(t.Context(), key, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.OwnerReferences) != 1 || len(got.Labels) != 0 || len(got.Finalizers) != 0 {
		t.Fatalf("the metadata is %+v", got.ObjectMeta)
	}
	owner := got.OwnerReferences[0]
	if owner.Kind != "Session" || owner.APIVersion != "capstan.dev/v1alpha1" || owner.Name != "demo" ||
		owner.UID != "owner-uid" ||
		*owner.Controller ||
		*owner.BlockOwnerDeletion {
		t.Fatalf("the owner is %+v", owner)
	}
}

func TestNamesOfSessionsDoNotMeet(t *testing.T) {
	if a, b := kubernetes.EntryName("a", 1), kubernetes.EntryName("b", 1); a == b {
		t.Fatalf("two Sessions share the name %s", a)
	}
}

func TestWhatTheAPIServerRefusesIsARefusal(t *testing.T) {
	c := apiserver.NewClient(t, config)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "ends-"}}
	if err := c.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	// No namespace controller runs here: the namespace stays as it is when its deletion has begun.
	if err := c.Delete(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	invalid := entry(1)
	invalid.Turn.UID = types.UID(strings.Repeat("x", 65))
	for name, test := range map[string]struct {
		namespace string
		entry     *v1alpha1.JournalEntrySpec
		is        func(error) bool
	}{
		"namespace being deleted": {namespace.Name, entry(1), func(err error) bool {
			return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
		}},
		"namespace gone":  {"never-there", entry(1), apierrors.IsNotFound},
		"schema violated": {"default", invalid, apierrors.IsInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			s := journal.Session{Namespace: test.namespace, Name: "demo", UID: types.UID("refused " + name)}
			err := newStore(t).Create(t.Context(), s, test.entry)
			if !errors.Is(err, journal.ErrRefused) || !test.is(err) {
				t.Fatalf("creating returned %v", err)
			}
			if _, err := newStore(t).Get(t.Context(), s, 1); !errors.Is(err, journal.ErrNotFound) {
				t.Fatalf("reading returned %v", err)
			}
		})
	}
}

func TestADryRunFindsAQuotaAndWritesNothing(t *testing.T) {
	c := apiserver.NewClient(t, config)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "quota-"}}
	if err := c.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	store, s := newStore(t), journal.Session{Namespace: namespace.Name, Name: "demo", UID: "quota"}
	dry, ok := store.(journal.DryRunner)
	if !ok {
		t.Fatal("the store cannot check an entry without writing it")
	}
	if err := dry.DryRun(t.Context(), s, entry(1)); err != nil {
		t.Fatalf("without a quota: %v", err)
	}
	if _, err := store.Get(t.Context(), s, 1); !errors.Is(err, journal.ErrNotFound) {
		t.Fatalf("the entry was written: %v", err)
	}
	none := corev1.ResourceList{"count/journalentries.capstan.dev": resource.MustParse("0")}
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "few"},
		Spec:       corev1.ResourceQuotaSpec{Hard: none},
	}
	if err := c.Create(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	// No quota controller runs here.
	quota.Status = corev1.ResourceQuotaStatus{Hard: none, Used: none}
	if err := c.Status().Update(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; {
		err := dry.DryRun(t.Context(), s, entry(1))
		if errors.Is(err, journal.ErrRefused) && !errors.Is(err, journal.ErrInvalid) &&
			strings.Contains(err.Error(), "exceeded quota: few") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("with a quota: %v", err)
		}
		<-time.After(50 * time.Millisecond)
	}
}

func TestAKindThatIsNotServedIsNoEmptyLog(t *testing.T) {
	served := rest.CopyConfig(config)
	served.WrapTransport = func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			r = r.Clone(r.Context())
			r.URL.Path = strings.Replace(r.URL.Path, "/journalentries/", "/neverserved/", 1)
			return next.RoundTrip(r)
		})
	}
	store, err := kubernetes.ForConfig(served, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = store.Get(t.Context(), journal.Session{Namespace: "default", Name: "demo", UID: "missing"}, 1)
	if err == nil || errors.Is(err, journal.ErrNotFound) {
		t.Fatalf("reading a kind that is not served returned %v", err)
	}
}

func TestALostConnectionIsNoRefusal(t *testing.T) {
	lost := rest.CopyConfig(config)
	lost.WrapTransport = func(http.RoundTripper) http.RoundTripper {
		return roundTripper(func(*http.Request) (*http.Response, error) { return nil, errors.New("connection lost") })
	}
	store, err := kubernetes.ForConfig(lost, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := journal.Session{Namespace: "default", Name: "demo", UID: "lost"}
	if err := store.Create(
		t.Context(),
		s,
		entry(1),
	); err == nil || errors.Is(err, journal.ErrRefused) ||
		errors.Is(err, journal.ErrExists) {
		t.Fatalf("creating returned %v", err)
	}
	if _, err := store.Get(t.Context(), s, 1); err == nil || errors.Is(err, journal.ErrNotFound) {
		t.Fatalf("reading returned %v", err)
	}
}

func TestACallEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := journal.Session{Namespace: "default", Name: "demo", UID: "ended"}
	if err := newStore(t).Create(ctx, s, entry(1)); !errors.Is(err, context.Canceled) {
		t.Fatalf("creating returned %v", err)
	}
	if _, err := newStore(t).Get(ctx, s, 1); !errors.Is(err, context.Canceled) {
		t.Fatalf("reading returned %v", err)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
