package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	journalpostgres "github.com/capstan-dev/capstan/internal/runtime/journal/postgres"
	"github.com/capstan-dev/capstan/internal/runtime/postgres"
	testserver "github.com/capstan-dev/capstan/internal/testing/postgres"
)

// pair is a server and its replica, with a database that connects to whichever of them accepts changes.
type pair struct {
	primary, replica *testserver.Server
	db               *postgres.DB
	name             string
}

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{primary: testserver.Started(t, testserver.Options{Durable: true})}
	_, p.name = p.primary.Database(t)
	p.replica = p.primary.Replica(t)
	host, port := func(s *testserver.Server) string { return strings.Split(s.Address(), ":")[0] },
		func(s *testserver.Server) string { return strings.Split(s.Address(), ":")[1] }
	p.db = open(t, fmt.Sprintf("host=%s,%s port=%s,%s user=postgres dbname=%s", host(p.primary), host(p.replica),
		port(p.primary), port(p.replica), p.name))
	return p
}

// caughtUp waits until the replica has all of the primary's changes.
func (p *pair) caughtUp(t *testing.T) {
	t.Helper()
	// A replica that has just connected has no position yet.
	p.primary.WaitFor(t, "postgres", "SELECT coalesce(bool_and(replay_lsn >= pg_current_wal_lsn()), false)::text "+
		"FROM pg_stat_replication WHERE application_name = 'replica' AND state = 'streaming'", "true")
}

// failover kills the primary and promotes the replica.
func (p *pair) failover(t *testing.T) {
	t.Helper()
	if err := p.primary.Kill(); err != nil {
		t.Fatal(err)
	}
	p.replica.Promote(t)
}

// A replica that lags has lost a confirmed entry when it is promoted. Neither a process that has read that entry nor
// one that knows of it from status writes other content in its place: both report a damaged journal.
func TestAPromotedReplicaThatLagsIsADamagedJournal(t *testing.T) {
	p := newPair(t)
	store, s := journalpostgres.New(p.db), session("lost")
	before := journal.New(store, journal.Options{})
	for n := range int64(3) {
		if n == 2 {
			p.caughtUp(t)
			if err := p.replica.Stop(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := before.Append(t.Context(), s, closing(fmt.Sprint("turn-", n+1), n+1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.primary.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := p.replica.Start(); err != nil {
		t.Fatal(err)
	}
	p.replica.Promote(t)
	for name, log := range map[string]*journal.Log{
		"a process that has read the entry": before, "a new process": journal.New(store, journal.Options{}),
	} {
		_, err := log.Append(t.Context(), s, closing("turn-4", 4))
		if !errors.Is(err, journal.ErrCorrupt) {
			t.Fatalf("%s: %v", name, err)
		}
		if o := journal.ObstacleOf(err, s.Name); o == nil || o.Reason != v1alpha1.ReasonJournalDamaged {
			t.Fatalf("%s: the obstacle is %+v", name, o)
		}
	}
	if all := entries(t, store, s); len(all) != 2 {
		t.Fatalf("the journal has %d entries", len(all))
	}
}

// With synchronous replication, every confirmed entry is in the replica, and the next append goes to it.
func TestNothingConfirmedIsLostInAFailover(t *testing.T) {
	p := newPair(t)
	// Set last: until the replica exists, no commit would be confirmed.
	p.primary.Exec(t, "postgres", "ALTER SYSTEM SET synchronous_standby_names = 'replica'", "SELECT pg_reload_conf()")
	p.primary.WaitFor(t, "postgres", "SELECT sync_state FROM pg_stat_replication", "sync")
	store, s := journalpostgres.New(p.db), session("kept")
	log := journal.New(store, journal.Options{})
	for n := range int64(20) {
		if _, err := log.Append(t.Context(), s, closing(fmt.Sprint("turn-", n+1), n+1)); err != nil {
			t.Fatal(err)
		}
	}
	p.failover(t)
	for deadline := time.Now().Add(time.Minute); ; {
		closed, err := log.Append(t.Context(), s, closing("turn-21", 21))
		if err == nil && !closed.Adopted && closed.Ordinal == 21 {
			break
		}
		if errors.Is(err, journal.ErrCorrupt) || time.Now().After(deadline) {
			t.Fatalf("appending to the promoted replica: %+v, %v", closed, err)
		}
	}
	if all := entries(t, store, s); len(all) != 21 {
		t.Fatalf("the journal has %d entries", len(all))
	}
}

// Sessions whose synchronous_commit is off get it turned on, whatever the server, the database or the account says.
func TestCommitsAreDurable(t *testing.T) {
	for setting, want := range map[string]string{
		"off": "on", "local": "on", "on": "on", "remote_write": "remote_write", "remote_apply": "remote_apply",
	} {
		connection, name := server.Database(t)
		server.Exec(t, name, "ALTER DATABASE "+name+" SET synchronous_commit = '"+setting+"'")
		db := open(t, connection)
		if got := settingOf(t, db, "synchronous_commit"); got != want {
			t.Errorf("%s becomes %s, not %s", setting, got, want)
		}
	}
}

// settingOf returns a setting of the connections of a database.
func settingOf(t *testing.T, db *postgres.DB, name string) string {
	t.Helper()
	var value string
	err := db.Read(t.Context(), "default", func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT current_setting($1)", name).Scan(&value)
	})
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// An account for readers does not read from a standby either, which may be behind; it does once that is promoted.
func TestAReaderRefusesAStandby(t *testing.T) {
	p := newPair(t)
	s := session("read")
	if err := journalpostgres.New(p.db).Create(t.Context(), s, entry(1)); err != nil {
		t.Fatal(err)
	}
	p.caughtUp(t)
	db, err := postgres.Open(t.Context(), postgres.Config{
		Connection: p.replica.Connection("postgres", p.name), TLS: postgres.TLSDisabled, ReadOnly: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	reader := journalpostgres.New(db)
	if e, err := reader.Get(t.Context(), s, 1); err == nil || errors.Is(err, journal.ErrNotFound) {
		t.Errorf("a standby was read: %+v, %v", e, err)
	}
	p.failover(t)
	if e, err := reader.Get(t.Context(), s, 1); err != nil || e.Ordinal != 1 {
		t.Errorf("reading from the promoted standby: %+v, %v", e, err)
	}
}
