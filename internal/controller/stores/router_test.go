package stores_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/stores"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	journalmemory "github.com/capstan-dev/capstan/internal/runtime/journal/memory"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	recordmemory "github.com/capstan-dev/capstan/internal/runtime/record/memory"
)

const (
	kubernetes = v1alpha1.SessionStoreKubernetes
	postgres   = v1alpha1.SessionStorePostgres
)

func sessionIn(store v1alpha1.SessionStore, phase v1alpha1.SessionPhase) *v1alpha1.Session {
	return &v1alpha1.Session{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo", UID: "s1"},
		Status:     v1alpha1.SessionStatus{Store: store, Phase: phase},
	}
}

func newClient(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

var (
	demo  = journal.Session{Namespace: "ns", Name: "demo", UID: "s1"}
	scope = record.Scope{Namespace: "ns", Session: "demo", UID: "s1", Store: "files"}
)

// both is a router with two backends in memory, which counts what the database is asked.
type both struct {
	*stores.Router
	queries int
}

func newBoth(t *testing.T, owned bool, objects ...client.Object) *both {
	t.Helper()
	b := &both{}
	b.Router = &stores.Router{
		Sessions: newClient(t, objects...),
		Backends: map[v1alpha1.SessionStore]stores.Backend{
			kubernetes: {Journal: journalmemory.New(), Records: recordmemory.New()},
			postgres:   {Journal: journalmemory.New(), Records: recordmemory.New()},
		},
		Owned: func(context.Context, string, types.UID) (bool, error) {
			b.queries++
			return owned, nil
		},
	}
	return b
}

// holder returns the stores that have the first entry, and a blob.
func (b *both) holder(t *testing.T) string {
	t.Helper()
	found := ""
	for _, name := range []v1alpha1.SessionStore{kubernetes, postgres} {
		if _, found := b.Backends[name]; !found {
			continue
		}
		if _, err := b.Backends[name].Journal.Get(t.Context(), demo, 1); err == nil {
			found += string(name) + " entry, "
		}
		if _, err := b.Backends[name].Records.ReadBlob(t.Context(), scope, "b"); err == nil {
			found += string(name) + " blob, "
		}
	}
	return found
}

func (b *both) write(t *testing.T) error {
	t.Helper()
	return errors.Join(
		b.Journal().Create(t.Context(), demo, &v1alpha1.JournalEntrySpec{Session: "demo", Ordinal: 1}),
		b.Records().CreateBlob(t.Context(), scope, "b", []byte("x")))
}

// Rules: STORE-01.
func TestTheStoreOfASession(t *testing.T) {
	started := sessionIn("", "")
	started.Status.Journal.Head = 1
	for name, test := range map[string]struct {
		session *v1alpha1.Session
		want    v1alpha1.SessionStore
	}{
		"new":                            {sessionIn("", ""), ""},
		"of an earlier version":          {sessionIn("", v1alpha1.SessionPhaseIdle), kubernetes},
		"of an earlier version, pending": {sessionIn("", v1alpha1.SessionPhasePending), kubernetes},
		"with a journal":                 {started, kubernetes},
		"in Kubernetes":                  {sessionIn(kubernetes, v1alpha1.SessionPhaseIdle), kubernetes},
		"in PostgreSQL":                  {sessionIn(postgres, v1alpha1.SessionPhaseIdle), postgres},
	} {
		if got := stores.Of(test.session); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestWritesGoToTheStoreOfTheSession(t *testing.T) {
	for _, store := range []v1alpha1.SessionStore{kubernetes, postgres} {
		b := newBoth(t, false, sessionIn(store, v1alpha1.SessionPhaseIdle))
		if err := b.write(t); err != nil {
			t.Fatal(err)
		}
		if got, want := b.holder(t), fmt.Sprintf("%s entry, %s blob, ", store, store); got != want {
			t.Errorf("%s: %q, want %q", store, got, want)
		}
		if _, err := b.Journal().Get(t.Context(), demo, 1); err != nil {
			t.Error(err)
		}
		if got, err := b.Records().ReadBlob(t.Context(), scope, "b"); err != nil || string(got) != "x" {
			t.Errorf("%q, %v", got, err)
		}
		if b.queries != 0 {
			t.Errorf("%s: the database was asked %d times", store, b.queries)
		}
	}
}

// Nothing is written before the first status: it names the store.
func TestNothingIsWrittenBeforeTheStoreIsDecided(t *testing.T) {
	b := newBoth(t, false, sessionIn("", ""))
	if err := b.write(t); err == nil {
		t.Error("it was written")
	}
	if got := b.holder(t); got != "" {
		t.Error(got)
	}
	if _, err := b.Journal().Get(t.Context(), demo, 1); !errors.Is(err, journal.ErrNotFound) {
		t.Error(err)
	}
	if _, err := b.Records().ReadIndex(t.Context(), scope); !errors.Is(err, record.ErrNotFound) {
		t.Error(err)
	}
}

func TestABackendThatTheManagerLacksIsAnObstacle(t *testing.T) {
	b := newBoth(t, false, sessionIn(postgres, v1alpha1.SessionPhaseIdle))
	delete(b.Backends, postgres)
	_, err := b.Journal().Get(t.Context(), demo, 1)
	for what, err := range map[string]error{"a read": err, "a write": b.write(t)} {
		o := journal.ObstacleOf(err, "demo")
		if o == nil || o.Reason != v1alpha1.ReasonStoreUnavailable {
			t.Errorf("%s: %+v: %v", what, o, err)
		}
	}
	if got := b.holder(t); got != "" {
		t.Error(got)
	}
}

// Late calls for a Session of Kubernetes that is gone ask no database. Only one that the manager has never seen does.
func TestTheStoreOfASessionThatIsGone(t *testing.T) {
	for name, test := range map[string]struct {
		seen    v1alpha1.SessionStore
		owned   bool
		want    v1alpha1.SessionStore
		queries int
	}{
		"seen in Kubernetes":      {kubernetes, false, kubernetes, 0},
		"seen in PostgreSQL":      {postgres, true, postgres, 0},
		"not seen, without rows":  {"", false, kubernetes, 1},
		"not seen, but with rows": {"", true, postgres, 1},
	} {
		b := newBoth(t, test.owned)
		if test.seen != "" {
			b.Observe(sessionIn(test.seen, v1alpha1.SessionPhaseIdle))
		}
		if got := b.Forget("s1"); got != test.seen {
			t.Errorf("%s: the store was %q", name, got)
		}
		if err := b.Records().CreateBlob(t.Context(), scope, "b", []byte("x")); err != nil {
			t.Fatal(err)
		}
		if got := b.holder(t); got != string(test.want)+" blob, " || b.queries != test.queries {
			t.Errorf("%s: %q with %d queries", name, got, b.queries)
		}
	}
}

// What is known of Sessions that are gone is bounded.
func TestSessionsThatAreGoneAreForgotten(t *testing.T) {
	b := newBoth(t, false)
	for i := range 1100 {
		s := sessionIn(kubernetes, v1alpha1.SessionPhaseIdle)
		s.UID = types.UID(fmt.Sprint("gone-", i))
		b.Observe(s)
		b.Forget(s.UID)
	}
	for uid, want := range map[types.UID]v1alpha1.SessionStore{"gone-0": "", "gone-1099": kubernetes} {
		if got := b.Forget(uid); got != want {
			t.Errorf("%s: %q", uid, got)
		}
	}
}

func TestRecordsOfMCPServersAndWalletsAreInKubernetes(t *testing.T) {
	for _, of := range []record.Scope{
		{Namespace: "ns", MCPServer: "docs", UID: "m1", Store: "tools"},
		{Namespace: "ns", Secret: "wallet", UID: "w1", Store: "payments"},
	} {
		b := newBoth(t, true)
		if err := b.Records().CreateBlob(t.Context(), of, "b", []byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Backends[kubernetes].Records.ReadBlob(t.Context(), of, "b"); err != nil || b.queries != 0 {
			t.Errorf("%s: %v, %d queries", of.Owner(), err, b.queries)
		}
	}
}

func TestAWriteWaitsUntilTheStoreIsDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoth(t, false, sessionIn("", ""))
		key := types.NamespacedName{Namespace: "ns", Name: "demo"}
		ended := make(chan error, 1)
		go func() { ended <- b.Await(t.Context(), key, "s1") }()
		other := sessionIn(kubernetes, "")
		other.UID = "s2"
		b.Observe(other)
		synctest.Wait()
		select {
		case err := <-ended:
			t.Fatalf("it did not wait: %v", err)
		default:
		}
		b.Observe(sessionIn(postgres, ""))
		if err := <-ended; err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := newBoth(t, false, sessionIn("", "")).Await(ctx, key, "s1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a Session that gets no status: %v", err)
		}
	})
}

// refusing is a journal that cannot be read.
type refusing struct{ journal.Store }

func (refusing) Get(context.Context, journal.Session, int64) (*v1alpha1.JournalEntrySpec, error) {
	return nil, errors.New("read by the store of Turns")
}

// Those who follow the journal of a Session read it with the account for readers, if its store has one.
func TestFollowersReadFromTheirOwnReader(t *testing.T) {
	entry := &v1alpha1.JournalEntrySpec{Ordinal: 1}
	for name, test := range map[string]struct {
		session *v1alpha1.Session
		found   bool
	}{
		"in the database":     {sessionIn(postgres, v1alpha1.SessionPhaseIdle), true},
		"in Kubernetes":       {sessionIn(kubernetes, v1alpha1.SessionPhaseIdle), false},
		"not taken up so far": {sessionIn("", ""), false},
	} {
		t.Run(name, func(t *testing.T) {
			reader := journalmemory.New()
			if err := reader.Create(t.Context(), demo, entry); err != nil {
				t.Fatal(err)
			}
			router := &stores.Router{Sessions: newClient(t, test.session), Backends: map[v1alpha1.SessionStore]stores.Backend{
				kubernetes: {Journal: journalmemory.New()},
				postgres:   {Journal: refusing{}, Follow: reader},
			}}
			got, err := router.Follow().Get(t.Context(), demo, 1)
			if test.found && (err != nil || got.Ordinal != 1) || !test.found && !errors.Is(err, journal.ErrNotFound) {
				t.Errorf("read %v, %v", got, err)
			}
		})
	}
}
