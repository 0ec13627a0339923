package sessiondb_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/record/memory"
	"github.com/capstan-dev/capstan/internal/runtime/runner"
	"github.com/capstan-dev/capstan/internal/runtime/sessiondb"
	"github.com/capstan-dev/capstan/internal/runtime/sessiondb/sqlcall"
	"github.com/capstan-dev/capstan/internal/runtime/sessiondb/sqlite"
)

// argument is the argument with which this test is a process for SQL.
const argument = "run-one-call"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == argument {
		os.Exit(runner.Main(os.Stdin, os.Stdout, sqlite.Program))
	}
	os.Exit(m.Run())
}

// around runs before and after the call of a process.
type around struct {
	sessiondb.Processes
	before, after func()
	runs          int
	err           error
}

// Run implements sessiondb.Processes.
func (a *around) Run(
	ctx context.Context, namespace string, timeout time.Duration, r sqlcall.Request, file sqlcall.Source,
) (*sqlcall.Result, []sqlcall.Chunk, error) {
	a.runs++
	if a.before != nil {
		a.before()
	}
	result, chunks, err := a.Processes.Run(ctx, namespace, timeout, r, file)
	if a.after != nil {
		a.after()
	}
	if a.err != nil {
		return nil, nil, a.err
	}
	return result, chunks, err
}

func newService(t *testing.T) (*sessiondb.Service, *around) {
	t.Helper()
	pool := runner.NewPool(runner.Options{Command: []string{"/proc/self/exe", argument}})
	t.Cleanup(pool.Close)
	processes := &around{Processes: sessiondb.Confined{Pool: pool}}
	return &sessiondb.Service{
		Records: record.New(memory.New(), record.Options{}), Processes: processes, Writes: sessiondb.NewWrites(),
	}, processes
}

func of(service *sessiondb.Service) *sessiondb.Databases {
	return service.Of(sessiondb.Session{Namespace: "ns", Name: "s", UID: "s1"})
}

func cause(key string) record.Cause { return record.Cause{Step: 1, Key: key} }

func sql(text string) sessiondb.Statement { return sessiondb.Statement{SQL: text} }

// count returns the rows of a table of the database d.
func count(t *testing.T, d *sessiondb.Databases, table string) string {
	t.Helper()
	rows, err := d.Query(t.Context(), "d", sql("SELECT count(*) FROM "+table), 10)
	if err != nil {
		return err.Error()
	}
	return string(rows.Rows[0][0])
}

// kind returns the kind of an error; empty for one that the model is not shown.
func kind(err error) sqlcall.Kind {
	var about *sessiondb.Error
	if errors.As(err, &about) {
		return about.Kind
	}
	return ""
}

// Rules: SVC-05.
func TestDatabasesOfASession(t *testing.T) {
	service, _ := newService(t)
	d := of(service)
	if _, err := d.Execute(
		t.Context(),
		cause("1"),
		"d",
		sql("CREATE TABLE t (a); INSERT INTO t VALUES (1), (2)"),
	); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Create(t.Context(), cause("2"), "e"); err != nil {
		t.Fatal(err)
	}
	all, err := d.List(t.Context())
	if err != nil || len(all) != 2 || all[0].Name != "d" || all[0].Bytes == 0 || all[1].Name != "e" || all[1].Bytes != 0 {
		t.Errorf("the databases are %+v, %v", all, err)
	}
	tables, err := d.Schema(t.Context(), "d")
	if err != nil || len(tables.Objects) != 1 || tables.Objects[0].SQL != "CREATE TABLE t (a)" {
		t.Errorf("the schema is %+v, %v", tables, err)
	}
	if empty, err := d.Schema(t.Context(), "e"); err != nil || empty.Objects == nil || len(empty.Objects) != 0 {
		t.Errorf("the schema of an empty database is %+v, %v", empty, err)
	}
	other := service.Of(sessiondb.Session{Namespace: "ns", Name: "s", UID: "another"})
	for name, test := range map[string]struct {
		err  error
		want sqlcall.Kind
	}{
		"one that exists":        {second(d.Create(t.Context(), cause("3"), "d")), sessiondb.KindExists},
		"one that is missing":    {second(d.Query(t.Context(), "none", sql("SELECT 1"), 1)), sessiondb.KindNotFound},
		"one to delete":          {d.Delete(t.Context(), cause("4"), "none"), sessiondb.KindNotFound},
		"one of another Session": {second(other.Get(t.Context(), "d")), sessiondb.KindNotFound},
		"a bad name":             {second(d.Execute(t.Context(), cause("5"), "../d", sql("SELECT 1"))), sessiondb.KindName},
		"a part as a name":       {second(d.Get(t.Context(), "d/0000")), sessiondb.KindName},
		"long SQL": {
			second(d.Query(t.Context(), "d", sql(strings.Repeat(" ", 70_000)), 1)),
			sqlcall.KindTooLarge,
		},
		"many parameters": {second(d.Query(t.Context(), "d", sessiondb.Statement{
			SQL: "SELECT 1", Params: make([]json.RawMessage, 101),
		}, 1)), sqlcall.KindLimit},
	} {
		if kind(test.err) != test.want {
			t.Errorf("%s yields %v, want %s", name, test.err, test.want)
		}
	}
	for i := range sessiondb.MaxDatabases - 2 {
		if _, err := d.Create(t.Context(), cause(fmt.Sprint("c", i)), fmt.Sprint("c", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := second(d.Execute(t.Context(), cause("6"), "x", sql("CREATE TABLE t (a)"))); kind(err) != sqlcall.KindLimit {
		t.Errorf("one database too many yields %v", err)
	}
	if err := d.Delete(
		t.Context(),
		cause("7"),
		"d",
	); err != nil ||
		count(t, d, "t") != "not found: the database d does not exist" {
		t.Errorf("after the deletion: %v, %s", err, count(t, d, "t"))
	}
}

func second[T any](_ T, err error) error { return err }

// A manager that dies between the end of the process and the write of the record repeats the call, and so does one that
// dies after it: there is one effect.
// Rules: SVC-05, DUR-02.
func TestACallThatIsRepeatedHasOneEffect(t *testing.T) {
	service, processes := newService(t)
	d := of(service)
	if _, err := d.Execute(t.Context(), cause("0"), "d", sql("CREATE TABLE t (a)")); err != nil {
		t.Fatal(err)
	}
	const insert = "INSERT INTO t VALUES (random()), (2)"
	ctx, cancel := context.WithCancel(t.Context())
	processes.after = cancel
	if done, err := d.Execute(ctx, cause("1"), "d", sql(insert)); err == nil {
		t.Fatalf("a call that ends before its commit yields %+v", done)
	}
	processes.after = nil
	if got := count(t, d, "t"); got != "0" {
		t.Fatalf("there are %s rows before the commit", got)
	}
	first, err := d.Execute(t.Context(), cause("1"), "d", sql(insert))
	if err != nil {
		t.Fatal(err)
	}
	runs := processes.runs
	again, err := d.Execute(t.Context(), cause("1"), "d", sql(insert))
	if err != nil || *again != *first || processes.runs != runs || count(t, d, "t") != "2" {
		t.Errorf("the repeated call yields %+v after %+v, %v, and there are %s rows", again, first, err, count(t, d, "t"))
	}
	// A call that has changed no row is recorded as well: it must not change one later.
	const rename = "UPDATE t SET a = 'x' WHERE a = 3"
	for range 2 {
		done, err := d.Execute(t.Context(), cause("2"), "d", sql(rename))
		if err != nil || done.RowsAffected != 0 {
			t.Errorf("it yields %+v, %v", done, err)
		}
		if _, err := d.Execute(t.Context(), cause("3"), "d", sql("INSERT INTO t VALUES (3)")); err != nil {
			t.Fatal(err)
		}
	}
}

// A process that is killed changes nothing, and the call may be made again.
func TestAProcessThatDiesChangesNothing(t *testing.T) {
	service, processes := newService(t)
	d := of(service)
	if _, err := d.Execute(t.Context(), cause("0"), "d", sql("CREATE TABLE t (a)")); err != nil {
		t.Fatal(err)
	}
	processes.err = fmt.Errorf("%w (EOF)", runner.ErrEnded)
	_, err := d.Execute(t.Context(), cause("1"), "d", sql("INSERT INTO t VALUES (1)"))
	if kind(err) != sqlcall.KindLimit {
		t.Errorf("it yields %v", err)
	}
	processes.err = nil
	if got := count(t, d, "t"); got != "0" {
		t.Errorf("there are %s rows", got)
	}
	if _, err := d.Execute(
		t.Context(),
		cause("1"),
		"d",
		sql("INSERT INTO t VALUES (1)"),
	); err != nil ||
		count(t, d, "t") != "1" {
		t.Errorf("the next call yields %v, and there are %s rows", err, count(t, d, "t"))
	}
}

func TestACallRunsAgainWhenAnotherOneWasFaster(t *testing.T) {
	service, processes := newService(t)
	d := of(service)
	if _, err := d.Execute(t.Context(), cause("0"), "d", sql("CREATE TABLE t (a)")); err != nil {
		t.Fatal(err)
	}
	faster := &sessiondb.Service{Records: service.Records, Processes: sqlite.InProcess{}}
	processes.before = func() {
		if processes.runs > 2 {
			return
		}
		if _, err := of(faster).Execute(t.Context(), cause("other"), "d", sql("INSERT INTO t VALUES (1)")); err != nil {
			t.Error(err)
		}
	}
	done, err := d.Execute(t.Context(), cause("1"), "d", sql("INSERT INTO t SELECT count(*) + 10 FROM t"))
	if err != nil || done.RowsAffected != 1 || processes.runs != 3 {
		t.Errorf("it yields %+v after %d runs, %v", done, processes.runs, err)
	}
	rows, err := d.Query(t.Context(), "d", sql("SELECT a FROM t ORDER BY a"), 10)
	if err != nil || fmt.Sprintf("%s", rows.Rows) != "[[1] [11]]" {
		t.Errorf("the rows are %+v, %v", rows, err)
	}
	runs := processes.runs
	processes.before = func() {
		if _, err := of(faster).Execute(t.Context(), cause(fmt.Sprint("again", processes.runs)), "d",
			sql("INSERT INTO t VALUES (1)")); err != nil {
			t.Error(err)
		}
	}
	if _, err := d.Execute(t.Context(), cause("2"), "d", sql("DELETE FROM t")); kind(err) != sqlcall.KindTimeout {
		t.Errorf("a call that is never fast enough yields %v", err)
	}
	if tries := processes.runs - runs; tries != 4 {
		t.Errorf("it ran %d times", tries)
	}
}
