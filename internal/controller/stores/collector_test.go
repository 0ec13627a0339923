package stores_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/stores"
	database "github.com/capstan-dev/capstan/internal/runtime/postgres"
)

// rows are the owners of a database, and what became of them.
type rows struct {
	owners, deleted []database.Owner

	mu      sync.Mutex
	gone    []types.UID
	forgot  []types.UID
	before  time.Time
	changed chan types.UID
}

func (r *rows) Delete(_ context.Context, _ string, uid types.UID) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone = append(r.gone, uid)
	r.changed <- uid
	return 1, nil
}

func (r *rows) Forget(_ context.Context, _ string, uid types.UID) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgot = append(r.forgot, uid)
	r.deleted = slices.DeleteFunc(r.deleted, func(o database.Owner) bool { return o.UID == uid })
	return nil
}

func (r *rows) Owners(_ context.Context, before time.Time, behind database.Owner, limit int) ([]database.Owner, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before = before
	var page []database.Owner
	for _, o := range r.owners {
		if o.UID > behind.UID && len(page) < limit {
			page = append(page, o)
		}
	}
	return page, nil
}

func (r *rows) Deleted(_ context.Context, _ time.Time, limit int) ([]database.Owner, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.deleted[:min(limit, len(r.deleted))]), nil
}

func ownerOf(namespace, name string, uid types.UID) database.Owner {
	return database.Owner{Namespace: namespace, Name: name, UID: uid, Kind: database.OwnerSession}
}

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func serve(namespace string) bool { return namespace == "ns" }

// Rules: STORE-02.
//
// A sweep deletes the rows of Sessions that do not exist, at the API server either, and only in namespaces that the
// manager serves. Those that were deleted long ago are forgotten.
func TestASweep(t *testing.T) {
	r := &rows{
		owners: []database.Owner{
			ownerOf("ns", "demo", "s0"), // the name has another Session now
			ownerOf("ns", "demo", "s1"),
			ownerOf("ns", "live", "s2"), // the cache does not have it yet
			ownerOf("ns", "gone", "s3"),
			ownerOf("other", "gone", "s4"),
		},
		deleted: []database.Owner{ownerOf("ns", "old", "d1")},
		changed: make(chan types.UID, 8),
	}
	kept := sessionIn(postgres, v1alpha1.SessionPhaseIdle)
	live := sessionIn(postgres, v1alpha1.SessionPhaseIdle)
	live.Name, live.UID = "live", "s2"
	c := stores.NewCollector(stores.Collector{
		Database: r, Cached: newClient(t, kept), Live: newClient(t, kept.DeepCopy(), live), Serves: serve,
		Clock: func() time.Time { return noon },
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- c.Start(ctx) }() // its first sweep is at once
	got := []types.UID{<-r.changed, <-r.changed}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.Sort(got)
	if !slices.Equal(got, []types.UID{"s0", "s3"}) || len(r.gone) != 2 {
		t.Errorf("the rows of %q were deleted", r.gone)
	}
	if want := noon.Add(-stores.DefaultRetention); !r.before.Equal(want) {
		t.Errorf("rows before %s were looked at, not before %s", r.before, want)
	}
}

func TestASweepForgetsWhatWasDeletedLongAgo(t *testing.T) {
	r := &rows{changed: make(chan types.UID, 1)}
	for i := range 501 {
		r.deleted = append(r.deleted, ownerOf("ns", "old", types.UID(rune('A'+i))))
	}
	c := stores.NewCollector(stores.Collector{
		Database: r, Cached: newClient(t), Live: newClient(t), Serves: serve, Clock: func() time.Time { return noon },
	})
	if err := c.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(r.forgot) != 501 || len(r.gone) != 0 {
		t.Errorf("%d were forgotten, %d deleted", len(r.forgot), len(r.gone))
	}
}

// The rows stay while Turns of the Session do: the end of each is recorded first.
func TestRowsStayWhileTurnsDo(t *testing.T) {
	turn := &v1alpha1.Turn{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo-1"}}
	turn.Status.SessionUID = "s1"
	r := &rows{changed: make(chan types.UID, 2)}
	c := stores.NewCollector(stores.Collector{
		Database: r, Cached: newClient(t, turn), Live: newClient(t), Serves: serve, Clock: func() time.Time { return noon },
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	c.Gone(types.NamespacedName{Namespace: "ns", Name: "demo"}, "s1")
	c.Gone(types.NamespacedName{Namespace: "ns", Name: "other"}, "s2")
	go func() { ended <- c.Start(ctx) }()
	if got := <-r.changed; got != "s2" {
		t.Errorf("the rows of %s were deleted", got)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
