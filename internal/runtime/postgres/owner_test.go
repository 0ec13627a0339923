package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	journalpostgres "github.com/capstan-dev/capstan/internal/runtime/journal/postgres"
	"github.com/capstan-dev/capstan/internal/runtime/postgres"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	recordpostgres "github.com/capstan-dev/capstan/internal/runtime/record/postgres"
)

func sessionOf(namespace, name string) journal.Session {
	return journal.Session{Namespace: namespace, Name: name, UID: types.UID(name + "-uid")}
}

func scopeOf(s journal.Session) record.Scope {
	return record.Scope{Namespace: s.Namespace, Session: s.Name, UID: s.UID, Store: "files"}
}

func entry(ordinal int64) *v1alpha1.JournalEntrySpec {
	return &v1alpha1.JournalEntrySpec{
		Session: "demo", Ordinal: ordinal, Time: metav1.NewMicroTime(time.Unix(1, 0)), Format: 2, Step: 1,
		Turn: &v1alpha1.JournalTurn{Name: "demo-1", UID: "turn-uid"},
	}
}

// fill writes entries and records of a Session.
func fill(t *testing.T, db *postgres.DB, s journal.Session, entries int64) {
	t.Helper()
	for ordinal := range entries {
		if err := journalpostgres.New(db).Create(t.Context(), s, entry(ordinal+1)); err != nil {
			t.Fatal(err)
		}
	}
	_, err := record.New(recordpostgres.New(db), record.Options{}).Apply(t.Context(), scopeOf(s), record.Operation{
		Cause: record.Cause{Step: 1, Key: "fill"},
		Put:   []record.Put{{Key: "/small", Value: []byte("x")}, {Key: "/large", Value: make([]byte, 10_000)}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

const countRows = `SELECT (SELECT count(*) FROM capstan.journal_entries) || ' ' ||
	(SELECT count(*) FROM capstan.record_indexes) || ' ' || (SELECT count(*) FROM capstan.record_blobs) || ' ' ||
	(SELECT count(*) FROM capstan.owners)`

// A Session that was deleted has no rows, takes none, and is forgotten later; others keep theirs.
func TestADeletedSessionHasNoRows(t *testing.T) {
	db, name := migrated(t)
	gone, kept := sessionOf("default", "gone"), sessionOf("default", "kept")
	fill(t, db, gone, 3)
	fill(t, db, kept, 2)
	server.Exec(t, name, `INSERT INTO capstan.journal_entries (owner, ordinal, envelope, packed)
		SELECT o.id, n, '{}', false FROM capstan.owners o, generate_series(4, 2503) n WHERE o.uid = 'gone-uid'`)
	if deleted, err := db.Delete(t.Context(), gone.Namespace, gone.UID); err != nil || deleted != 2505 {
		t.Fatalf("%d rows were deleted, %v", deleted, err)
	}
	if rows := server.QueryText(t, name, countRows); rows != "2 1 1 2" {
		t.Fatalf("the rows are %s", rows)
	}
	if err := journalpostgres.New(db).Create(t.Context(), gone, entry(1)); !errors.Is(err, journal.ErrRefused) ||
		!errors.Is(err, postgres.ErrDeleted) {
		t.Fatalf("a late entry: %v", err)
	}
	err := recordpostgres.New(db).CreateBlob(t.Context(), scopeOf(gone), "late", []byte("x"))
	if !errors.Is(err, record.ErrRefused) {
		t.Fatalf("a late blob: %v", err)
	}
	owners, err := db.Owners(t.Context(), time.Now().Add(time.Hour), postgres.Owner{}, 10)
	if err != nil || len(owners) != 1 || owners[0].UID != kept.UID || owners[0].Name != "kept" {
		t.Fatalf("the owners are %+v, %v", owners, err)
	}
	deleted, err := db.Deleted(t.Context(), time.Now().Add(time.Hour), 10)
	if err != nil || len(deleted) != 1 || deleted[0].UID != gone.UID {
		t.Fatalf("those deleted are %+v, %v", deleted, err)
	}
	if err := db.Forget(t.Context(), gone.Namespace, gone.UID); err != nil {
		t.Fatal(err)
	}
	if rows := server.QueryText(t, name, countRows); rows != "2 1 1 1" {
		t.Fatalf("the rows are %s", rows)
	}
}

// A sweep reads its pages from indexes, however many Sessions there are, and the pages have every owner once.
func TestOwnersAreListedInPagesFromAnIndex(t *testing.T) {
	db, name := migrated(t)
	server.Exec(t, name, `INSERT INTO capstan.owners (namespace, uid, kind, name, created_at, deleted_at)
		SELECT 'ns-' || n % 7, md5(n::text), 'Session', 'demo', now() - interval '2 days',
			CASE WHEN n % 10 = 0 THEN now() - n * interval '1 second' END
		FROM generate_series(1, 20000) n`, "ANALYZE capstan.owners")
	seen, behind := map[types.UID]bool{}, postgres.Owner{}
	for {
		page, err := db.Owners(t.Context(), time.Now(), behind, 700)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range page {
			seen[o.UID] = true
			behind = o
		}
		if len(page) < 700 {
			break
		}
	}
	if len(seen) != 18000 {
		t.Errorf("%d of 18000 owners were listed", len(seen))
	}
	for what, statement := range map[string]string{
		"owners": strings.NewReplacer("$1", "now()", "$2", "'ns-3'", "$3", "'8'", "$4", "500").
			Replace(postgres.ListOwners),
		"deleted": strings.NewReplacer("$1", "now()", "$2", "500").Replace(postgres.ListDeleted),
	} {
		plan := server.QueryText(t, name, "EXPLAIN (FORMAT JSON) "+statement)
		if !strings.Contains(plan, "Index Scan") || strings.Contains(plan, "Seq Scan") || strings.Contains(plan, `"Sort"`) {
			t.Errorf("the plan for %s is %s", what, plan)
		}
	}
}

// The UID of a foreign Session, or its name, reaches nothing from another namespace, and texts that look like
// statements are values.
func TestAForeignNamespaceReachesNothing(t *testing.T) {
	db, name := migrated(t)
	victim := sessionOf("victim", "demo")
	fill(t, db, victim, 2)
	before := server.QueryText(t, name, countRows)
	foreign := []journal.Session{
		{Namespace: "attacker", Name: victim.Name, UID: victim.UID},
		{Namespace: "victim", Name: victim.Name, UID: "other-uid"},
		{Namespace: "", Name: victim.Name, UID: victim.UID},
		{Namespace: "victim' OR '1'='1", Name: victim.Name, UID: victim.UID},
		{Namespace: "attacker", Name: victim.Name, UID: "x' OR 'demo-uid'='demo-uid"},
		{Namespace: "attacker", Name: victim.Name, UID: "demo-uid'; DELETE FROM capstan.owners; --"},
		{Namespace: "victim", Name: victim.Name, UID: "demo-ui%"},
		{Namespace: "VICTIM", Name: victim.Name, UID: victim.UID},
	}
	ctx, entries, records := t.Context(), journalpostgres.New(db), recordpostgres.New(db)
	index, err := records.ReadIndex(ctx, scopeOf(victim))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range foreign {
		if e, err := entries.Get(ctx, s, 1); !errors.Is(err, journal.ErrNotFound) {
			t.Errorf("%+v reads an entry: %+v, %v", s, e, err)
		}
		if err := entries.Create(ctx, s, entry(3)); !errors.Is(err, journal.ErrRefused) {
			t.Errorf("%+v appends: %v", s, err)
		}
		if x, err := records.ReadIndex(ctx, scopeOf(s)); !errors.Is(err, record.ErrNotFound) {
			t.Errorf("%+v reads an index: %+v, %v", s, x, err)
		}
		if err := records.WriteIndex(ctx, scopeOf(s), index); err == nil {
			t.Errorf("%+v replaces an index", s)
		}
		if _, err := records.ReadBlob(ctx, scopeOf(s), "x"); !errors.Is(err, record.ErrNotFound) {
			t.Errorf("%+v reads a blob: %v", s, err)
		}
		if _, err := db.Delete(ctx, s.Namespace, s.UID); err != nil {
			t.Errorf("%+v deletes: %v", s, err)
		}
	}
	server.Exec(t, name, "DELETE FROM capstan.owners WHERE uid <> 'demo-uid' OR namespace <> 'victim'")
	if after := server.QueryText(t, name, countRows); after != before {
		t.Fatalf("the rows are %s, and were %s", after, before)
	}
	if _, err := entries.Get(ctx, victim, 2); err != nil {
		t.Fatal(err)
	}
}

// What the schema does not accept is invalid, and what the server cannot store is refused; both have written nothing.
func TestRefusalsAreToldFromFailures(t *testing.T) {
	db, name := migrated(t)
	long := sessionOf("default", "demo")
	long.Name = fmt.Sprintf("%0254d", 1)
	if err := journalpostgres.New(db).Create(t.Context(), long, entry(1)); !errors.Is(err, journal.ErrInvalid) ||
		!errors.Is(err, journal.ErrRefused) {
		t.Errorf("a name that is too long: %v", err)
	}
	role := "reader_" + name
	server.Exec(t, name, "CREATE ROLE "+role+" LOGIN", "GRANT USAGE ON SCHEMA capstan TO "+role,
		"GRANT SELECT ON ALL TABLES IN SCHEMA capstan TO "+role)
	reader := open(t, postgres.Config{Connection: server.Connection(role, name)})
	s := sessionOf("default", "demo")
	if err := journalpostgres.New(reader).Create(t.Context(), s, entry(1)); !errors.Is(err, journal.ErrRefused) ||
		errors.Is(err, journal.ErrInvalid) {
		t.Errorf("without permission: %v", err)
	}
	if err := journalpostgres.New(db).DryRun(t.Context(), s, entry(1)); err != nil {
		t.Errorf("a dry run: %v", err)
	}
	if err := journalpostgres.New(reader).DryRun(t.Context(), s, entry(1)); !errors.Is(err, journal.ErrRefused) {
		t.Errorf("a dry run without permission: %v", err)
	}
	if _, err := journalpostgres.New(db).Get(t.Context(), s, 1); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("something was written: %v", err)
	}
}

// Texts of the server name accounts, databases, tables and values. Errors have none of them.
func TestErrorsNameNothingOfTheDatabase(t *testing.T) {
	db, name := migrated(t)
	role := "s3cret_" + name
	server.Exec(t, name, "CREATE ROLE "+role+" LOGIN")
	stranger := open(t, postgres.Config{Connection: server.Connection(role, name)})
	elsewhere := open(t, postgres.Config{Connection: server.Connection(role, "s3cret_database")})
	nobody := open(t, postgres.Config{Connection: server.Connection("s3cret_account", name)})
	for what, test := range map[string]struct {
		db        *postgres.DB
		statement string
		code      string
	}{
		"no permission":     {stranger, "SELECT 1 FROM capstan.owners", "42501"},
		"a missing table":   {db, "SELECT 1 FROM s3cret", "42P01"},
		"a value of a type": {db, "SELECT 's3cret'::integer", "22P02"},
		"a value of a row": {
			db, "INSERT INTO capstan.owners (namespace, uid, kind, name) VALUES ('s3cret', 'u', 'x', 'n')", "23514",
		},
		"a text of a statement": {db, `DO $$ BEGIN RAISE EXCEPTION 's3cret' USING ERRCODE = 'ZZ001'; END $$`, "ZZ001"},
		"a missing database":    {elsewhere, "SELECT 1", "3D000"},
		"a missing account":     {nobody, "SELECT 1", "28000"},
	} {
		err := test.db.Write(t.Context(), "default", func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, test.statement)
			return err
		})
		var known *postgres.Error
		if !errors.As(err, &known) || known.Code != test.code || !strings.Contains(err.Error(), test.code) ||
			strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "owners") || len(err.Error()) > 120 {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// documented returns the statements of the block of docs/postgres.md that has a text.
func documented(t *testing.T, text string) []string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/postgres.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range strings.Split(string(page), "```sql\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		if strings.Contains(block, text) {
			return slices.DeleteFunc(strings.SplitAfter(block, ";\n"), func(s string) bool { return strings.TrimSpace(s) == "" })
		}
	}
	t.Fatalf("docs/postgres.md has no block of SQL with %q", text)
	return nil
}

// The account for streams, as the documentation creates it, reads journals: with connections that are not read-only
// either, it changes nothing and sees no records.
func TestTheAccountForStreamsReadsJournalsOnly(t *testing.T) {
	db, name := migrated(t)
	s := sessionOf("default", "demo")
	fill(t, db, s, 2)
	for _, statement := range documented(t, "capstan_reader") {
		server.Exec(t, name, strings.Replace(statement, "DATABASE capstan ", "DATABASE "+name+" ", 1))
	}
	server.Exec(t, "postgres", "REVOKE ALL ON DATABASE "+name+" FROM PUBLIC")
	c := postgres.Config{Connection: server.Connection("capstan_reader", name), ReadOnly: true}
	if e, err := journalpostgres.New(open(t, c)).Get(t.Context(), s, 2); err != nil || e.Ordinal != 2 {
		t.Fatalf("reading an entry: %+v, %v", e, err)
	}
	c.ReadOnly = false
	reader := open(t, c)
	var known *postgres.Error
	for what, statement := range map[string]string{
		"an owner":           "INSERT INTO capstan.owners (namespace, uid, kind, name) VALUES ('a', 'b', 'Session', 'c')",
		"a deletion mark":    "UPDATE capstan.owners SET deleted_at = now()",
		"an entry":           "INSERT INTO capstan.journal_entries VALUES (1, 3, '{}', false, NULL)",
		"a change of one":    "UPDATE capstan.journal_entries SET envelope = '{}'",
		"a deletion of one":  "DELETE FROM capstan.journal_entries",
		"no entries":         "TRUNCATE capstan.journal_entries",
		"a lock":             "SELECT FROM capstan.owners FOR SHARE",
		"indexes of records": "SELECT FROM capstan.record_indexes",
		"blobs":              "SELECT FROM capstan.record_blobs",
		"a table":            "CREATE TABLE capstan.mine ()",
		"a table elsewhere":  "CREATE TABLE public.mine ()",
		"a temporary table":  "CREATE TEMPORARY TABLE mine ()",
		"a role":             "CREATE ROLE mine",
	} {
		err := reader.Write(t.Context(), "default", func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, statement)
			return err
		})
		if !errors.As(err, &known) || known.Code != "42501" {
			t.Errorf("%s: %v", what, err)
		}
	}
	if rows := server.QueryText(t, name, countRows); rows != "2 1 1 1" {
		t.Errorf("the rows are %s", rows)
	}
}
