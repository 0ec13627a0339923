package session

import (
	"context"
	"testing"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/status"
	"github.com/capstan-dev/capstan/internal/controller/stores"
)

// storing gives the bench a store for new Sessions, and the backends that it has.
func (b *bench) storing(fresh v1alpha1.SessionStore, has ...v1alpha1.SessionStore) *bench {
	b.NewStore = fresh
	b.Stores = &stores.Router{Sessions: b.Client, Backends: map[v1alpha1.SessionStore]stores.Backend{}}
	for _, store := range has {
		b.Stores.Backends[store] = stores.Backend{}
	}
	return b
}

const (
	kubernetes = v1alpha1.SessionStoreKubernetes
	postgres   = v1alpha1.SessionStorePostgres
)

// Rules: STORE-01.
func TestTheStoreIsSetOnce(t *testing.T) {
	earlier := newSession()
	earlier.Status.Phase = v1alpha1.SessionPhaseIdle
	for name, test := range map[string]struct {
		session *v1alpha1.Session
		want    v1alpha1.SessionStore
	}{
		"a new Session":                   {newSession(), postgres},
		"a Session of an earlier version": {earlier, ""},
	} {
		b := newBench(t, test.session).storing(postgres, kubernetes, postgres)
		b.pass()
		if got := b.session().Status.Store; got != test.want {
			t.Errorf("%s: %q", name, got)
		}
		b.storing(kubernetes, kubernetes, postgres)
		b.pass()
		if got := b.session().Status.Store; got != test.want {
			t.Errorf("%s: %q after another manager", name, got)
		}
	}
}

// Two managers with different defaults decide at once: the second write loses, and its manager takes over what the
// first one has decided.
func TestTheFirstDecisionAboutTheStoreStays(t *testing.T) {
	b := newBench(t, newSession()).storing(postgres, kubernetes, postgres)
	s, err := b.open(t.Context(), demoKey)
	if err != nil {
		t.Fatal(err)
	}
	if !b.hasStore(s) || s.session.Status.Store != postgres {
		t.Fatalf("it decides on %q", s.session.Status.Store)
	}
	other := b.session()
	base := other.DeepCopy()
	other.Status.Store = kubernetes
	if _, err := status.Patch(t.Context(), b.Client, base, other); err != nil {
		t.Fatal(err)
	}
	if err := b.write(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if got := b.session().Status.Store; got != kubernetes || s.requeue != lagRetry {
		t.Errorf("%q, again after %s", got, s.requeue)
	}
	b.pass()
	if got := b.session().Status.Store; got != kubernetes {
		t.Errorf("%q after a pass", got)
	}
}

// A manager without the store of a Session reports that and admits nothing; with the store, the Session goes on.
func TestNothingRunsWithoutTheStoreOfTheSession(t *testing.T) {
	session := newSession()
	session.Status.Store, session.Status.Phase = postgres, v1alpha1.SessionPhaseStarted
	b := newBench(t, session, inDemo("demo-1", nil)).storing(kubernetes, kubernetes)
	b.pass()
	got := b.session()
	ready := apimeta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Reason != v1alpha1.ReasonStoreUnavailable || got.Status.ActiveTurn != nil ||
		got.Status.Phase != v1alpha1.SessionPhasePending || got.Status.Store != postgres {
		t.Fatalf("%+v", got.Status)
	}
	version := got.ResourceVersion
	for range 3 {
		if result := b.pass(); result.RequeueAfter != 0 {
			t.Errorf("again after %s", result.RequeueAfter)
		}
	}
	if got := b.session().ResourceVersion; got != version {
		t.Error("it is written again and again")
	}
	b.storing(kubernetes, kubernetes, postgres)
	b.pass()
	if active := b.session().Status.ActiveTurn; active == nil || active.Name != "demo-1" {
		t.Errorf("%+v is active", active)
	}
}

// The end of a Session of Kubernetes causes no query.
func TestOnlyRowsOfSessionsThatHaveSomeAreDeleted(t *testing.T) {
	for store, want := range map[v1alpha1.SessionStore]int{kubernetes: 0, postgres: 1} {
		session := newSession()
		session.Status.Store, session.Status.Phase = store, v1alpha1.SessionPhaseIdle
		b := newBench(t, session).storing(store, kubernetes, postgres)
		gone := 0
		b.Gone = func(key types.NamespacedName, uid types.UID) {
			gone++
			if key != demoKey || uid != "s1" {
				t.Errorf("%s with UID %s is gone", key, uid)
			}
		}
		b.pass()
		if err := b.Client.Delete(context.Background(), b.session()); err != nil {
			t.Fatal(err)
		}
		b.pass()
		if gone != want {
			t.Errorf("%s: %d", store, gone)
		}
	}
}
