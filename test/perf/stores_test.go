package perf_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/journaltest"
	journalkubernetes "github.com/capstan-dev/capstan/internal/runtime/journal/kubernetes"
	journalmemory "github.com/capstan-dev/capstan/internal/runtime/journal/memory"
	journalpostgres "github.com/capstan-dev/capstan/internal/runtime/journal/postgres"
	"github.com/capstan-dev/capstan/internal/runtime/postgres"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	recordkubernetes "github.com/capstan-dev/capstan/internal/runtime/record/kubernetes"
	recordmemory "github.com/capstan-dev/capstan/internal/runtime/record/memory"
	recordpostgres "github.com/capstan-dev/capstan/internal/runtime/record/postgres"
	"github.com/capstan-dev/capstan/internal/runtime/sessionfs"
	testserver "github.com/capstan-dev/capstan/internal/testing/postgres"
)

const (
	// storeRounds are how often each operation is measured on each store, in turns.
	storeRounds = 200
	// storeWarmUp are further rounds before.
	storeWarmUp = 20
	// largeFile is the size of a file with a blob of its own.
	largeFile = 100_000
)

// backend is one store of journals and records, with what is counted and measured of it.
type backend struct {
	name    string
	journal *journaltest.Store
	records *countedObjects
	log     *journal.Log
	session journal.Session
	files   files
	opened  int64
	// took are the times of an operation, by its name, and counts its reads and writes.
	took   map[string][]time.Duration
	counts map[string][2]int
}

// countedObjects counts the reads and writes of records.
type countedObjects struct {
	record.Objects
	reads, writes atomic.Int64
}

// ReadIndex implements record.Objects.
func (c *countedObjects) ReadIndex(ctx context.Context, scope record.Scope) (record.Stored, error) {
	c.reads.Add(1)
	return c.Objects.ReadIndex(ctx, scope)
}

// ReadBlob implements record.Objects.
func (c *countedObjects) ReadBlob(ctx context.Context, scope record.Scope, name string) ([]byte, error) {
	c.reads.Add(1)
	return c.Objects.ReadBlob(ctx, scope, name)
}

// WriteIndex implements record.Objects.
func (c *countedObjects) WriteIndex(ctx context.Context, scope record.Scope, index record.Stored) error {
	c.writes.Add(1)
	return c.Objects.WriteIndex(ctx, scope, index)
}

// CreateBlob implements record.Objects.
func (c *countedObjects) CreateBlob(ctx context.Context, scope record.Scope, name string, payload []byte) error {
	c.writes.Add(1)
	return c.Objects.CreateBlob(ctx, scope, name, payload)
}

// DeleteBlob implements record.Objects.
func (c *countedObjects) DeleteBlob(ctx context.Context, scope record.Scope, name string) error {
	c.writes.Add(1)
	return c.Objects.DeleteBlob(ctx, scope, name)
}

func newBackend(name string, entries journal.Store, records record.Objects) *backend {
	counted, objects := journaltest.Wrap(entries), &countedObjects{Objects: records}
	uid := types.UID(uuid.NewString())
	of := sessionfs.Session{Namespace: "default", Name: "stores", UID: uid}
	return &backend{
		name: name, journal: counted, records: objects, opened: 1, log: journal.New(counted, journal.Options{}),
		session: journal.Session{Namespace: "default", Name: "stores", UID: uid},
		files:   files{sessionfs.New(record.New(objects, record.Options{KeptBytes: 16 << 20}), of, nil), of},
		took:    map[string][]time.Duration{}, counts: map[string][2]int{},
	}
}

// measure carries out an operation, and notes its time, reads and writes if it counts.
func (k *backend) measure(b *testing.B, counts bool, name string, do func() error) {
	b.Helper()
	k.journal.Reset()
	reads, writes := k.records.reads.Load(), k.records.writes.Load()
	began := time.Now()
	if err := do(); err != nil {
		b.Fatalf("%s in %s: %v", name, k.name, err)
	}
	if counts {
		k.took[name] = append(k.took[name], time.Since(began))
		k.counts[name] = [2]int{
			k.journal.Reads() + int(k.records.reads.Load()-reads), k.journal.Creates() + int(k.records.writes.Load()-writes),
		}
	}
}

// median is the time of an operation that half of them took.
func (k *backend) median(name string) time.Duration {
	sorted := slices.Sorted(slices.Values(k.took[name]))
	return sorted[len(sorted)/2]
}

// step is a step of a Turn whose response is a text.
func (k *backend) step(n int, text string) journal.Record {
	turn := journal.Turn{Name: fmt.Sprintf("turn-%d", n), UID: types.UID(fmt.Sprintf("turn-%d", n))}
	of := event.NewFactory(event.Identity{Turn: turn.UID}, nil).Step(1, 1)
	return journal.Record{
		Turn: turn, Step: 1, OpenedAt: k.opened, Digest: "digest", Events: []event.Event{
			of.OutputMessageCompleted(event.OutputMessageCompleted{Message: event.NewAssistantMessage(text, nil)}),
		},
	}
}

// operations are those of a round, in order.
var operations = []string{"append", "load", "write", "write-large", "read-large", "list", "delete"}

// round measures each operation once: an append to a journal that the process knows, its first read in a process that
// does not, and those of files, in a process that keeps what it has read.
func (k *backend) round(b *testing.B, n int, counts bool) {
	b.Helper()
	ctx, next := b.Context(), k.step(n, words())
	k.measure(b, counts, "append", func() error {
		closed, err := k.log.Append(ctx, k.session, next)
		if err == nil {
			k.opened = closed.Ordinal + 1
		}
		return err
	})
	k.measure(b, counts, "load", func() error {
		_, err := journal.New(k.journal, journal.Options{}).View(ctx, k.session, k.opened-1)
		return err
	})
	write := func(name, path string, content []byte) {
		k.measure(b, counts, name, func() error {
			_, err := k.files.WriteBytes(ctx, record.Cause{Step: int64(n), Key: name}, path, content)
			return err
		})
	}
	write("write", "/small.txt", []byte(words()))
	write("write-large", "/large.txt", []byte(strings.Repeat(words(), largeFile/storedText)))
	k.measure(b, counts, "read-large", func() error {
		unread := sessionfs.New(record.New(k.records, record.Options{}), k.files.session, nil)
		_, err := unread.Read(ctx, "/large.txt")
		return err
	})
	k.measure(b, counts, "list", func() error { _, err := k.files.List(ctx, "/"); return err })
	k.measure(b, counts, "delete", func() error {
		_, err := k.files.Delete(ctx, record.Cause{Step: int64(n), Key: "delete"}, "/large.txt", false)
		return err
	})
}

// files are those of a Session.
type files struct {
	*sessionfs.FS
	session sessionfs.Session
}

// BenchmarkStores compares the stores of journals and records in one run: in memory, in the API server, and in
// PostgreSQL, each of which writes to the disk before it answers. It reports the reads and writes of an operation, its
// median time, and that as a ratio to the API server.
//
// Run it with the assets of the suites: go test ./test/perf -run '^$' -bench 'Stores$' -benchtime 1x
func BenchmarkStores(b *testing.B) {
	s := newDurableServer(b)
	if err := capstantest.Install(b.Context(), s.config); err != nil {
		b.Fatal(err)
	}
	entries, err := journalkubernetes.ForConfig(s.config, s.http)
	if err != nil {
		b.Fatal(err)
	}
	records, err := recordkubernetes.ForConfig(s.config, s.http)
	if err != nil {
		b.Fatal(err)
	}
	db := openDatabase(b)
	for b.Loop() {
		api := newBackend("kubernetes", entries, records)
		backends := []*backend{
			newBackend("memory", journalmemory.New(), recordmemory.New()), api,
			newBackend("postgres", journalpostgres.New(db), recordpostgres.New(db)),
		}
		for n := range storeWarmUp + storeRounds {
			for _, k := range backends {
				k.round(b, n+1, n >= storeWarmUp)
			}
		}
		b.ReportMetric(0, "ns/op") // That of all together is of no use.
		for _, name := range operations {
			b.ReportMetric(float64(api.counts[name][0]), name+"-reads")
			b.ReportMetric(float64(api.counts[name][1]), name+"-writes")
			for _, k := range backends {
				if k.counts[name] != api.counts[name] {
					b.Errorf("%s has %v reads and writes in %s, and %v in the API server", name, k.counts[name], k.name,
						api.counts[name])
				}
				b.ReportMetric(float64(k.median(name).Microseconds()), name+"-"+k.name+"-us")
				b.ReportMetric(float64(k.median(name))/float64(api.median(name)), name+"-"+k.name+"-ratio")
			}
		}
	}
}

// newDurableServer starts an API server whose etcd writes to the disk, as in a cluster. Those of other tests do not.
func newDurableServer(b *testing.B) *benchServer {
	b.Helper()
	etcd := &envtest.Etcd{}
	etcd.Configure().Disable("unsafe-no-fsync")
	return newBenchServerOn(b, &envtest.Environment{ControlPlane: envtest.ControlPlane{Etcd: etcd}})
}

// openDatabase returns a database of a server that writes to the disk.
func openDatabase(b *testing.B) *postgres.DB {
	b.Helper()
	connection, _ := testserver.Started(b, testserver.Options{Durable: true}).Database(b)
	db, err := postgres.Open(b.Context(), postgres.Config{Connection: connection, TLS: postgres.TLSDisabled})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(db.Close)
	if err := db.Migrate(b.Context(), "perf"); err != nil {
		b.Fatal(err)
	}
	return db
}

// BenchmarkStoredTurns reports what plain Turns, as those of BenchmarkStorage, take with their journals in the API
// server and in PostgreSQL: "file" is by how much the file of etcd grew, "heap" by how much the memory of the API
// server, "tables" by how much the tables and indexes, and "wal" what was written ahead to the log of PostgreSQL.
//
// Run it with the assets of the suites: go test ./test/perf -run '^$' -bench StoredTurns -benchtime 1x
func BenchmarkStoredTurns(b *testing.B) {
	for b.Loop() {
		s := newBenchServer(b)
		s.recordTurn(b) // warms the API server up
		server := testserver.Started(b, testserver.Options{})
		connection, name := server.Database(b)
		number := func(statement string) float64 {
			value, err := strconv.ParseFloat(server.QueryText(b, name, statement), 64)
			if err != nil {
				b.Fatal(err)
			}
			return value
		}
		inDatabase := func() storage {
			return storage{
				"tables": number(`SELECT sum(pg_total_relation_size(c.oid))::text FROM pg_class c
					WHERE c.relnamespace = to_regnamespace('capstan') AND c.relkind = 'r'`),
				"wal": number(`SELECT (pg_current_wal_lsn() - '0/0')::text`),
			}
		}
		s.stage(b)
		for _, store := range []string{"kubernetes", "postgres"} {
			o := capstantest.Options{}
			if store == "postgres" {
				o.Postgres = connection
			}
			kit, err := capstantest.Start(b.Context(), s.config, o)
			if err != nil {
				b.Fatal(err)
			}
			s.sessions(b, store, "plain", storedSessions)
			var before storage
			if store == "postgres" {
				before = inDatabase()
			}
			used := s.stored(b, func() { s.converse(b, store, plainTurns) })
			if store == "postgres" {
				for place, bytes := range inDatabase().minus(before) {
					used[place] = bytes
				}
			}
			used.report(b, store+"-turn", storedSessions*plainTurns)
			if err := kit.Stop(); err != nil {
				b.Fatal(err)
			}
		}
	}
}
