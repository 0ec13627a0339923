package stores_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/stores"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	journalpostgres "github.com/capstan-dev/capstan/internal/runtime/journal/postgres"
	database "github.com/capstan-dev/capstan/internal/runtime/postgres"
	testserver "github.com/capstan-dev/capstan/internal/testing/postgres"
)

// counted returns the value of a counter of the manager, of all its labels or of one value of label result.
func counted(t *testing.T, name, result string) float64 {
	t.Helper()
	families, err := metrics.Registry.(prometheus.Gatherer).Gather()
	if err != nil {
		t.Fatal(err)
	}
	var sum float64
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			labels := metric.GetLabel()
			if family.GetName() == name && (result == "" || labels[0].GetValue() == result) {
				sum += metric.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// Rules: STORE-02.
//
// A Session whose deletion no manager has seen, and whose name another Session has now: its rows go, those of the other
// one stay. It is remembered for the retention time, and a late write is refused meanwhile.
func TestTheRowsOfAnEarlierSessionOfTheSameName(t *testing.T) {
	server := testserver.Started(t, testserver.Options{})
	connection, name := server.Database(t)
	db, err := database.Open(t.Context(), database.Config{Connection: connection, TLS: database.TLSDisabled})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Migrate(t.Context(), "test-cluster"); err != nil {
		t.Fatal(err)
	}
	journals := journalpostgres.New(db)
	write := func(uid types.UID, ordinal int64) error {
		return journals.Create(t.Context(), journal.Session{Namespace: "ns", Name: "demo", UID: uid},
			&v1alpha1.JournalEntrySpec{
				Session: "demo", Ordinal: ordinal, Time: metav1.NewMicroTime(time.Unix(1, 0)), Format: 2, Step: 1,
				Turn: &v1alpha1.JournalTurn{Name: "demo-1", UID: "turn-uid"},
			})
	}
	for ordinal := range int64(250) {
		if err := errors.Join(write("s0", ordinal+1), write("s1", ordinal+1)); err != nil {
			t.Fatal(err)
		}
	}
	server.Exec(t, name, "UPDATE capstan.owners SET created_at = now() - interval '25 hours'")
	c := stores.NewCollector(stores.Collector{
		Database: db, Cached: newClient(t, sessionIn(postgres, v1alpha1.SessionPhaseIdle)), Serves: serve, Clock: time.Now,
		Live: newClient(t, sessionIn(postgres, v1alpha1.SessionPhaseIdle)),
	})
	rowsBefore, deletionsBefore := counted(t, "capstan_database_deleted_rows_total", ""),
		counted(t, "capstan_database_session_deletions_total", "deleted")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- c.Start(ctx) }()
	const left = `SELECT string_agg(uid || ' ' || (deleted_at IS NULL)::text || ' ' ||
		(SELECT count(*) FROM capstan.journal_entries WHERE owner = id), ', ' ORDER BY uid) FROM capstan.owners`
	server.WaitFor(t, name, left, "s0 false 0, s1 true 250")
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := write("s0", 1); !errors.Is(err, database.ErrDeleted) {
		t.Errorf("a late write: %v", err)
	}
	if err := write("s1", 251); err != nil {
		t.Errorf("a write of the Session that has the name: %v", err)
	}
	if rows := counted(t, "capstan_database_deleted_rows_total", "") - rowsBefore; rows != 250 {
		t.Errorf("%v rows were counted", rows)
	}
	if n := counted(t, "capstan_database_session_deletions_total", "deleted") - deletionsBefore; n != 1 {
		t.Errorf("%v deletions were counted", n)
	}
	for _, sweep := range []struct{ since, want string }{
		{"23 hours", "s0 false 0, s1 true 251"}, {"25 hours", "s1 true 251"},
	} {
		server.Exec(t, name,
			"UPDATE capstan.owners SET deleted_at = now() - interval '"+sweep.since+"' WHERE deleted_at IS NOT NULL")
		if err := c.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := server.QueryText(t, name, left); got != sweep.want {
			t.Errorf("%s after the deletion there is %s, want %s", sweep.since, got, sweep.want)
		}
	}
}

// absent is a database that cannot be reached at first.
type absent struct {
	*rows
	failures int
	asked    []time.Time
}

func (a *absent) Owners(ctx context.Context, before time.Time, behind database.Owner, n int) ([]database.Owner, error) {
	a.asked = append(a.asked, time.Now())
	if len(a.asked) <= a.failures {
		return nil, errors.New("unreachable")
	}
	return a.rows.Owners(ctx, before, behind, n)
}

// A sweep that has failed is begun again within an hour, and the next one after a success in a day.
func TestASweepThatFailsIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &absent{rows: &rows{changed: make(chan types.UID, 1)}, failures: 9}
		c := stores.NewCollector(stores.Collector{
			Database: a, Cached: newClient(t), Live: newClient(t), Serves: serve, Clock: time.Now,
		})
		ctx, cancel := context.WithTimeout(t.Context(), 48*time.Hour)
		defer cancel()
		if err := c.Start(ctx); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(a.asked) != 11 {
			t.Fatalf("there were %d sweeps", len(a.asked))
		}
		for i, at := range a.asked[1:] {
			pause := at.Sub(a.asked[i])
			if i < a.failures && pause > time.Hour || i >= a.failures && pause != 24*time.Hour {
				t.Errorf("sweep %d begins %s after the one before", i+2, pause)
			}
		}
	})
}

// failing is a database that cannot delete at first.
type failing struct {
	*rows
	failures, tries int
}

func (f *failing) Delete(ctx context.Context, namespace string, uid types.UID) (int64, error) {
	f.tries++
	if f.tries <= f.failures {
		return 0, errors.New("unreachable")
	}
	return f.rows.Delete(ctx, namespace, uid)
}

// A deletion that fails is counted, and tried again until it succeeds.
func TestADeletionThatFailsIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &failing{rows: &rows{changed: make(chan types.UID, 1)}, failures: 3}
		c := stores.NewCollector(stores.Collector{
			Database: f, Cached: newClient(t), Live: newClient(t), Serves: serve, Clock: time.Now,
		})
		before := counted(t, "capstan_database_session_deletions_total", "failed")
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		c.Gone(types.NamespacedName{Namespace: "ns", Name: "demo"}, "s1")
		if err := c.Start(ctx); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if f.tries != 4 || len(f.gone) != 1 || f.gone[0] != "s1" {
			t.Errorf("after %d tries the rows of %v were deleted", f.tries, f.gone)
		}
		if n := counted(t, "capstan_database_session_deletions_total", "failed") - before; n != 3 {
			t.Errorf("%v failures were counted", n)
		}
	})
}
