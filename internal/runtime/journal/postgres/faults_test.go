package postgres_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	journalpostgres "github.com/capstan-dev/capstan/internal/runtime/journal/postgres"
	"github.com/capstan-dev/capstan/internal/runtime/postgres"
	testserver "github.com/capstan-dev/capstan/internal/testing/postgres"
)

// closing is a record that closes the first step of a Turn.
func closing(turn string, openedAt int64) journal.Record {
	return journal.Record{
		Turn: journal.Turn{Name: turn, UID: types.UID(turn + "-uid")}, Step: 1, OpenedAt: openedAt,
		Transition: v1alpha1.TurnProgress{Phase: v1alpha1.TurnPhaseSucceeded},
	}
}

func session(name string) journal.Session {
	return journal.Session{Namespace: "default", Name: name, UID: types.UID(name + "-uid")}
}

// entries returns the entries of a journal, which must have no gap.
func entries(t *testing.T, store journal.Store, s journal.Session) []*v1alpha1.JournalEntrySpec {
	t.Helper()
	var all []*v1alpha1.JournalEntrySpec
	for ordinal := int64(1); ; ordinal++ {
		e, err := store.Get(t.Context(), s, ordinal)
		if errors.Is(err, journal.ErrNotFound) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
}

// A connection that is cut at any byte of the request or of the response, with the commit before or after it, leaves
// one entry, and the writer recognizes it as its own.
func TestAnAppendSurvivesACutAnywhere(t *testing.T) {
	_, name := server.Database(t)
	proxy := server.Proxy(t)
	db := open(t, proxy.Connection("postgres", name))
	store := journalpostgres.New(db)
	// The first append adds the Session, the second one prepares the statements.
	at := func(s journal.Session, ordinal int64) *journal.Closed {
		closed, err := journal.New(store, journal.Options{}).
			Append(t.Context(), s, closing(fmt.Sprint("turn-", ordinal), ordinal))
		if err != nil {
			t.Fatal(err)
		}
		return closed
	}
	s := session("measured")
	at(s, 1)
	at(s, 2)
	proxy.Longest()
	log := journal.New(store, journal.Options{})
	if _, err := log.View(t.Context(), s, 0); err != nil {
		t.Fatal(err)
	}
	proxy.Longest()
	if _, err := log.Append(t.Context(), s, closing("turn-3", 3)); err != nil {
		t.Fatal(err)
	}
	request, response := proxy.Longest()
	if request < 200 || response < 40 {
		t.Fatalf("an append sends %d bytes and receives %d", request, response)
	}
	var cuts []testserver.Cut
	for n := 0; n < request; n += 41 {
		cuts = append(cuts, testserver.Cut{Bytes: n})
	}
	for n := range response {
		cuts = append(cuts, testserver.Cut{Response: true, Bytes: n})
	}
	for i, cut := range cuts {
		s := session(fmt.Sprint("cut-", i))
		at(s, 1)
		// This one has read the journal, so that the next request is the create.
		log := journal.New(store, journal.Options{})
		if _, err := log.View(t.Context(), s, 0); err != nil {
			t.Fatal(err)
		}
		before := proxy.Cuts()
		proxy.CutNext(cut)
		closed, err := log.Append(t.Context(), s, closing("turn-2", 2))
		if err != nil || closed.Adopted || closed.Ordinal != 2 || proxy.Cuts() != before+1 {
			t.Fatalf("%+v: closed %+v, %v, after %d cuts", cut, closed, err, proxy.Cuts()-before)
		}
		if all := entries(t, store, s); len(all) != 2 {
			t.Fatalf("%+v: there are %d entries", cut, len(all))
		}
	}
}

// A server that is killed while entries are appended has every entry that it has confirmed.
func TestNothingConfirmedIsLostWhenTheServerIsKilled(t *testing.T) {
	killed := testserver.Started(t, testserver.Options{Durable: true})
	connection, _ := killed.Database(t)
	db := open(t, connection)
	store := journalpostgres.New(db)
	const writers, kills = 4, 3
	var group sync.WaitGroup
	done := make(chan struct{})
	counts := make([]int64, writers)
	for i := range writers {
		group.Go(func() {
			s, log := session(fmt.Sprint("writer-", i)), journal.New(store, journal.Options{})
			for {
				select {
				case <-done:
					return
				default:
				}
				closed, err := log.Append(t.Context(), s, closing(fmt.Sprint("turn-", counts[i]+1), 1))
				if err == nil {
					counts[i]++
					if closed.Ordinal < counts[i] {
						t.Errorf("entry %d has the ordinal %d", counts[i], closed.Ordinal)
					}
				}
			}
		})
	}
	for range kills {
		<-time.After(300 * time.Millisecond)
		if err := killed.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := killed.Start(); err != nil {
			t.Fatal(err)
		}
	}
	<-time.After(300 * time.Millisecond)
	close(done)
	group.Wait()
	for i := range writers {
		s := session(fmt.Sprint("writer-", i))
		all := entries(t, store, s)
		final := int64(0)
		for _, e := range all {
			if e.Final {
				final++
			}
		}
		if counts[i] == 0 || final != counts[i] {
			t.Errorf("writer %d: %d entries were confirmed, and the journal has %d", i, counts[i], final)
		}
	}
}

// Transactions that the server aborts for each other are tried again.
func TestSerializationFailuresAreTriedAgain(t *testing.T) {
	connection, name := server.Database(t)
	server.Exec(t, name, "ALTER DATABASE "+name+" SET default_transaction_isolation = 'serializable'")
	store := journalpostgres.New(open(t, connection))
	// Whether writers meet depends on the machine.
	const rounds = 50
	for round := range rounds {
		contend(t, store, session(fmt.Sprint("contended-", round)))
		if strings.Contains(server.Log(), "could not serialize access") {
			return
		}
	}
	t.Fatalf("no transaction was aborted in %d rounds", rounds)
}

// contend appends from several writers at once, and checks that every entry is there.
func contend(t *testing.T, store *journalpostgres.Store, s journal.Session) {
	t.Helper()
	const writers, each = 8, 10
	var group sync.WaitGroup
	for i := range writers {
		group.Go(func() {
			log := journal.New(store, journal.Options{})
			for n := range each {
				if _, err := log.Append(t.Context(), s, closing(fmt.Sprintf("turn-%d-%d", i, n), 1)); err != nil {
					t.Errorf("appending: %v", err)
				}
			}
		})
	}
	group.Wait()
	final := 0
	for _, e := range entries(t, store, s) {
		if e.Final {
			final++
		}
	}
	if final != writers*each {
		t.Fatalf("%d of %d entries are there", final, writers*each)
	}
}

// A statement that waits for a lock ends with its time-out, and has written nothing.
func TestAStatementEndsWithItsTimeout(t *testing.T) {
	connection, name := server.Database(t)
	db, err := postgres.Open(t.Context(), postgres.Config{
		Connection: connection, TLS: postgres.TLSDisabled, StatementTimeout: 200 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	if err := db.Migrate(t.Context(), "test-cluster"); err != nil {
		t.Fatal(err)
	}
	store, s := journalpostgres.New(db), session("locked")
	unlock := server.Lock(t, name, "capstan.journal_entries")
	err = store.Create(t.Context(), s, entry(1))
	if err == nil || errors.Is(err, journal.ErrRefused) || postgres.OutcomeOf(err) != postgres.OutcomeAborted {
		t.Fatalf("creating behind a lock: %v", err)
	}
	unlock()
	if err := store.Create(t.Context(), s, entry(1)); err != nil {
		t.Fatalf("creating afterwards: %v", err)
	}
}

func entry(ordinal int64) *v1alpha1.JournalEntrySpec {
	return &v1alpha1.JournalEntrySpec{
		Session: "demo", Ordinal: ordinal, Time: metav1.NewMicroTime(time.Unix(1, 0)), Format: 2,
		Turn: &v1alpha1.JournalTurn{Name: "demo-1", UID: "turn-uid"}, Step: 1,
	}
}
