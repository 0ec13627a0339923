package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/runner"
	"github.com/capstan-dev/capstan/internal/runtime/sessiondb/sqlcall"
)

// argument is the argument with which this test is a process for SQL.
const argument = "run-one-call"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == argument {
		os.Exit(runner.Main(os.Stdin, os.Stdout, Program))
	}
	os.Exit(m.Run())
}

// stored is a database file that keeps what calls change.
type stored struct {
	content []byte
	reads   int
}

// Read implements sqlcall.Source.
func (s *stored) Read(_ context.Context, chunk int) ([]byte, error) {
	s.reads++
	return s.content[chunk*sqlcall.ChunkBytes:][:sqlcall.ChunkSize(int64(len(s.content)), chunk)], nil
}

// apply writes what a call has changed.
func (s *stored) apply(size int64, chunks []sqlcall.Chunk) {
	content := make([]byte, size)
	copy(content, s.content)
	for _, chunk := range chunks {
		copy(content[chunk.Number*sqlcall.ChunkBytes:], chunk.Content)
	}
	s.content = content
}

// runs runs a call.
type runs func(ctx context.Context, r sqlcall.Request, file sqlcall.Source) (*sqlcall.Result, []sqlcall.Chunk, error)

// confined runs calls in processes.
func confined(t testing.TB) runs {
	pool := runner.NewPool(runner.Options{Command: []string{"/proc/self/exe", argument}})
	t.Cleanup(pool.Close)
	return func(ctx context.Context, r sqlcall.Request, file sqlcall.Source) (*sqlcall.Result, []sqlcall.Chunk, error) {
		var result *sqlcall.Result
		var chunks []sqlcall.Chunk
		err := pool.Run(ctx, "ns", time.Duration(r.TimeoutMillis)*time.Millisecond, sqlcall.ProgramName,
			func(ctx context.Context, c runner.Conn) error {
				var err error
				result, chunks, err = sqlcall.Talk(ctx, c, r, file)
				return err
			})
		return result, chunks, err
	}
}

func params(values ...any) []json.RawMessage {
	all := make([]json.RawMessage, len(values))
	for i, value := range values {
		all[i], _ = json.Marshal(value)
	}
	return all
}

// write runs statements and keeps what they change.
func write(t testing.TB, run runs, s *stored, sql string, values ...any) (*sqlcall.Result, error) {
	t.Helper()
	result, chunks, err := run(t.Context(), sqlcall.Request{
		Mode: sqlcall.Execute, SQL: sql, Params: params(values...), Size: int64(len(s.content)), TimeoutMillis: 2000,
	}, s)
	if err == nil {
		s.apply(result.Size, chunks)
	}
	return result, err
}

// rows runs a query and returns its rows as JSON.
func rows(t testing.TB, run runs, s *stored, sql string, values ...any) string {
	t.Helper()
	result, _, err := run(t.Context(), sqlcall.Request{
		Mode: sqlcall.Query, SQL: sql, Params: params(values...), Size: int64(len(s.content)), TimeoutMillis: 2000, Rows: 10,
	}, s)
	if err != nil {
		return err.Error()
	}
	var all strings.Builder
	for _, row := range result.Rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = string(cell)
		}
		fmt.Fprintf(&all, "[%s]", strings.Join(cells, ","))
	}
	if result.Truncated {
		all.WriteString("...")
	}
	return all.String()
}

func TestACallReadsAndWritesTheFile(t *testing.T) {
	for name, run := range map[string]runs{"in a process": confined(t), "here": Run} {
		t.Run(name, func(t *testing.T) {
			s := &stored{}
			if got := rows(t, run, s, "SELECT 1 + 1, 'a', NULL, 1.5, x'0aff', 1e999, 9007199254740993"); got !=
				`[2,"a",null,1.5,"x'0aff'","Inf",9007199254740993]` {
				t.Errorf("an empty database yields %s", got)
			}
			result, err := write(t, run, s, `CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
				INSERT INTO t (name) VALUES ('one'), ('two'); -- the end`)
			if err != nil || result.RowsAffected != 2 || result.LastInsertRowID != 2 || len(s.content) == 0 {
				t.Fatalf("it yields %+v, %v", result, err)
			}
			if _, err := write(
				t,
				run,
				s,
				"INSERT INTO t (id, name) VALUES (?, :name)",
				int64(9007199254740993),
				"<ü>",
			); err != nil {
				t.Fatal(err)
			}
			if got := rows(
				t,
				run,
				s,
				"SELECT * FROM t WHERE id > ? ORDER BY id",
				1,
			); got != `[2,"two"][9007199254740993,"<ü>"]` {
				t.Errorf("the rows are %s", got)
			}
			before := slices.Clone(s.content)
			for _, sql := range []string{
				"INSERT INTO t (name) VALUES ('three'); INSERT INTO t (name) VALUES ('one')",
				"DELETE FROM t; SELECT 1", "DELETE FROM t; DROP TABLE none", "DELETE FROM t; ATTACH ':memory:' AS x",
			} {
				if _, err := write(t, run, s, sql); err == nil || !slices.Equal(before, s.content) {
					t.Errorf("%s: %v", sql, err)
				}
			}
			schema, _, err := run(t.Context(), sqlcall.Request{
				Mode: sqlcall.Schema, Size: int64(len(s.content)),
				TimeoutMillis: 1000,
			}, s)
			if err != nil || len(schema.Objects) != 1 || !strings.HasPrefix(schema.Objects[0].SQL, "CREATE TABLE t") {
				t.Errorf("the schema is %+v, %v", schema, err)
			}
		})
	}
}

func TestOnlyThePartsOfAFileThatChangeAreWritten(t *testing.T) {
	run := confined(t)
	s := &stored{}
	if _, err := write(t, run, s, `CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT);
		WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 8000)
		INSERT INTO t SELECT i, hex(randomblob(50)) FROM n`); err != nil {
		t.Fatal(err)
	}
	s.reads = 0
	if got := rows(t, run, s, "SELECT length(v) FROM t WHERE id = 4000"); got != "[100]" || s.reads > 4 {
		t.Errorf("it yields %s with %d reads of %d parts", got, s.reads, sqlcall.Chunks(int64(len(s.content))))
	}
	result, err := write(t, run, s, "INSERT INTO t (v) VALUES ('x')")
	if err != nil || len(result.Changed) > 3 {
		t.Errorf("one row changes %d of %d parts, %v", len(result.Changed), sqlcall.Chunks(result.Size), err)
	}
	full := len(s.content)
	if _, err := write(t, run, s, "DELETE FROM t WHERE id > 10"); err != nil || len(s.content) > full/20 {
		t.Errorf("after a deletion the file has %d of %d bytes, %v", len(s.content), full, err)
	}
	if got := rows(t, run, s, "PRAGMA integrity_check"); got != `["ok"]` {
		t.Errorf("the check yields %s", got)
	}
}

// Rules: SVC-05.
func TestTheProblemsOfACall(t *testing.T) {
	run := confined(t)
	s := &stored{}
	if _, err := write(t, run, s, "CREATE TABLE t (a, b CHECK (b < 10)); INSERT INTO t VALUES (1, 2)"); err != nil {
		t.Fatal(err)
	}
	const numbers = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
	for name, test := range map[string]struct {
		sql   string
		write bool
		kind  sqlcall.Kind
		text  string
	}{
		"no SQL":                     {"-- nothing", false, sqlcall.KindQuery, "no statement"},
		"no SQL to execute":          {" ; ; ", true, sqlcall.KindQuery, "no statement"},
		"a syntax error":             {"SELEC 1", false, sqlcall.KindQuery, "syntax error"},
		"a table that is missing":    {"SELECT * FROM none", false, sqlcall.KindQuery, "no such table: none"},
		"a constraint":               {"INSERT INTO t VALUES (1, 11)", true, sqlcall.KindQuery, "CHECK constraint failed"},
		"two queries":                {"SELECT 1; SELECT 2", false, sqlcall.KindQuery, "one statement"},
		"a query that is executed":   {"SELECT 1", true, sqlcall.KindQuery, "use sql_query"},
		"a write that is queried":    {"DELETE FROM t", false, sqlcall.KindBlocked, "use sql_execute"},
		"a write behind a CTE":       {"WITH x AS (SELECT 1) DELETE FROM t", false, sqlcall.KindBlocked, "use sql_execute"},
		"a write after a query":      {"SELECT 1; DELETE FROM t", false, sqlcall.KindQuery, "one statement"},
		"a missing parameter":        {"SELECT ?", false, sqlcall.KindQuery, "1 parameters"},
		"ATTACH":                     {"ATTACH '/etc/passwd' AS p", true, sqlcall.KindBlocked, "ATTACH"},
		"DETACH":                     {"DETACH main", true, sqlcall.KindBlocked, "DETACH"},
		"VACUUM":                     {"VACUUM", true, sqlcall.KindQuery, "VACUUM"},
		"VACUUM INTO":                {"VACUUM INTO '/tmp/x'", true, sqlcall.KindQuery, "VACUUM"},
		"load_extension":             {"SELECT load_extension('x')", false, sqlcall.KindQuery, "no such function"},
		"readfile":                   {"SELECT readfile('/etc/passwd')", false, sqlcall.KindQuery, "no such function"},
		"a pragma that reaches file": {"PRAGMA temp_store_directory = '/tmp'", true, sqlcall.KindBlocked, "PRAGMA"},
		"journal_mode":               {"PRAGMA journal_mode = WAL", true, sqlcall.KindBlocked, "journal_mode"},
		"max_page_count":             {"PRAGMA max_page_count = 1000000", true, sqlcall.KindBlocked, "max_page_count"},
		"database_list":              {"SELECT * FROM pragma_database_list", false, sqlcall.KindBlocked, "database_list"},
		"writable_schema":            {"PRAGMA writable_schema = ON", true, sqlcall.KindBlocked, "writable_schema"},
		"the schema table":           {"UPDATE sqlite_schema SET sql = ''", true, sqlcall.KindQuery, "may not be modified"},
		"a transaction":              {"COMMIT", true, sqlcall.KindBlocked, "one transaction"},
		"a savepoint":                {"SAVEPOINT a", true, sqlcall.KindBlocked, "one transaction"},
		"a temporary table":          {"CREATE TEMP TABLE x (a)", true, sqlcall.KindBlocked, "temporary"},
		"a virtual table":            {"CREATE VIRTUAL TABLE x USING fts5 (a)", true, sqlcall.KindBlocked, "virtual"},
		"an endless query":           {numbers + "SELECT count(*) FROM n", false, sqlcall.KindTimeout, "2s"},
		"endless writes": {
			numbers + "INSERT INTO t SELECT i, 1 FROM n", true, sqlcall.KindTooLarge, "4194304 bytes",
		},
		"a large blob":         {"SELECT length(hex(zeroblob(100000000)))", false, sqlcall.KindTooLarge, "1048576"},
		"a wide text":          {"SELECT length(printf('%.*c', 100000000, 'x'))", false, sqlcall.KindTooLarge, ""},
		"a sort of everything": {numbers + "SELECT i FROM n ORDER BY -i", false, sqlcall.KindLimit, "16 MiB"},
		"a large row": {
			"SELECT " + strings.Repeat("hex(zeroblob(4000)), ", 7) + "1", false, sqlcall.KindTooLarge,
			"first row",
		},
		"a deep expression": {
			"SELECT " + strings.Repeat("(", 5000) + "1" + strings.Repeat(")", 5000), false, sqlcall.KindQuery,
			"",
		},
		"many arms": {"SELECT 1" + strings.Repeat(" UNION ALL SELECT 1", 200), false, sqlcall.KindQuery, "compound"},
		"a trigger that calls itself": {`CREATE TABLE r (a); PRAGMA user_version = 1;
			CREATE TRIGGER tr AFTER INSERT ON r BEGIN INSERT INTO r VALUES (NEW.a + 1); END;
			INSERT INTO r VALUES (1); DROP TABLE none`, true, sqlcall.KindQuery, "no such table"},
	} {
		t.Run(name, func(t *testing.T) {
			mode := sqlcall.Query
			if test.write {
				mode = sqlcall.Execute
			}
			// What ends by another limit than the time must not be slower than the time on a busy machine.
			timeout := int64(60_000)
			if test.kind == sqlcall.KindTimeout {
				timeout = 2000
			}
			_, _, err := run(t.Context(), sqlcall.Request{
				Mode: mode, SQL: test.sql, Size: int64(len(s.content)), TimeoutMillis: timeout, Rows: 10,
			}, s)
			var problem *sqlcall.Problem
			if !errors.As(err, &problem) || problem.Kind != test.kind || !strings.Contains(problem.Text, test.text) {
				t.Errorf("it yields %v, want %s: %s", err, test.kind, test.text)
			}
		})
	}
	if got := rows(t, run, s, "SELECT * FROM t"); got != "[1,2]" {
		t.Errorf("the rows are %s", got)
	}
}

func TestResultsAreBounded(t *testing.T) {
	run := confined(t)
	s := &stored{}
	const numbers = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
	if got := rows(t, run, s, numbers+"SELECT i FROM n"); got != "[1][2][3][4][5][6][7][8][9][10]..." {
		t.Errorf("an endless query yields %s", got)
	}
	result, _, err := run(t.Context(), sqlcall.Request{
		Mode: sqlcall.Query, SQL: numbers + "SELECT i, hex(zeroblob(500)) FROM n", TimeoutMillis: 2000, Rows: 1000,
	}, s)
	encoded, _ := json.Marshal(result)
	if err != nil || !result.Truncated || len(result.Rows) < 20 || len(encoded) > sqlcall.MaxResultBytes+1024 {
		t.Errorf("%d rows have %d bytes, %v", len(result.Rows), len(encoded), err)
	}
	got := rows(t, run, s, "SELECT hex(zeroblob(100000)), zeroblob(100000)")
	if len(got) > 2*sqlcall.MaxCellBytes+200 || !strings.Contains(got, "(200000 bytes)") ||
		!strings.Contains(got, "(100000 bytes)") || !strings.HasSuffix(got, "...") {
		t.Errorf("large values are %d bytes: %.100s", len(got), got)
	}
	if got := rows(t, run, s, "SELECT CAST(x'ff41' AS TEXT)"); got != "[\"\uFFFDA\"]" {
		t.Errorf("invalid text is %s", got)
	}
}

func TestTheTimeZoneIsUTC(t *testing.T) {
	if got := rows(
		t,
		confined(t),
		&stored{},
		"SELECT datetime(0, 'unixepoch', 'localtime')",
	); got != `["1970-01-01 00:00:00"]` {
		t.Errorf("it yields %s", got)
	}
}

// A file that SQLite did not write is an error, whatever is in it. None can come in, and the engine does not rely on
// that.
func FuzzAFile(f *testing.F) {
	s := &stored{}
	if _, err := write(f, Run, s, "CREATE TABLE t (a, b UNIQUE); INSERT INTO t VALUES (1, 2), (3, 4)"); err != nil {
		f.Fatal(err)
	}
	f.Add(s.content, 100, byte(7))
	f.Add([]byte("not a database"), 0, byte(0))
	f.Fuzz(func(t *testing.T, content []byte, at int, value byte) {
		if len(content) > 1<<16 {
			return
		}
		damaged := &stored{content: slices.Clone(content)}
		if at >= 0 && at < len(damaged.content) {
			damaged.content[at] = value
		}
		for _, mode := range []sqlcall.Mode{sqlcall.Schema, sqlcall.Query, sqlcall.Execute} {
			sql := "SELECT * FROM t WHERE b > 1 ORDER BY a"
			if mode == sqlcall.Execute {
				sql = "INSERT INTO t VALUES (5, 6)"
			}
			result, chunks, err := Run(t.Context(), sqlcall.Request{
				Mode: mode, SQL: sql, Size: int64(len(damaged.content)), TimeoutMillis: 1000, Rows: 10,
			}, damaged)
			if err == nil {
				check(t, result, chunks)
			}
		}
	})
}

// FuzzSQL runs any SQL. It ends with a result within the bounds, or a problem.
func FuzzSQL(f *testing.F) {
	for _, sql := range []string{
		"SELECT 1", "INSERT INTO t VALUES (1, 2)", "CREATE VIEW v AS SELECT * FROM t", "PRAGMA table_info(t)", "VACUUM",
		"ATTACH 'x' AS y", "SELECT json_extract('[1]', '$[0]')", "ALTER TABLE t RENAME TO u", "WITH x AS (SELECT 1) SELECT *",
		"CREATE TABLE g (a, b AS (a + 1))", "SELECT printf('%*d', 1000, 1)", "EXPLAIN SELECT 1", "REINDEX; ANALYZE",
	} {
		f.Add(sql, true)
		f.Add(sql, false)
	}
	s := &stored{}
	if _, err := write(f, Run, s, "CREATE TABLE t (a, b UNIQUE); INSERT INTO t VALUES (1, 2), (3, 4)"); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, sql string, write bool) {
		mode := sqlcall.Query
		if write {
			mode = sqlcall.Execute
		}
		if len(sql) > sqlcall.MaxSQLBytes {
			return
		}
		result, chunks, err := Run(t.Context(), sqlcall.Request{
			Mode: mode, SQL: sql, Size: int64(len(s.content)), TimeoutMillis: 200, Rows: 10,
		}, s)
		var problem *sqlcall.Problem
		switch {
		case err == nil:
			check(t, result, chunks)
		case !errors.As(err, &problem):
			t.Errorf("%q yields %v", sql, err)
		}
	})
}

// check checks the bounds of a result.
func check(t *testing.T, result *sqlcall.Result, chunks []sqlcall.Chunk) {
	t.Helper()
	encoded, err := json.Marshal(result)
	if err != nil || len(encoded) > 2*sqlcall.MaxResultBytes || result.Size > sqlcall.MaxFileBytes ||
		len(chunks) > sqlcall.MaxChunks || len(chunks) != len(result.Changed) {
		t.Errorf("a result has %d bytes and %d parts, a file %d: %v", len(encoded), len(chunks), result.Size, err)
	}
	for _, chunk := range chunks {
		if len(chunk.Content) != sqlcall.ChunkSize(result.Size, chunk.Number) {
			t.Errorf("part %d has %d bytes of a file of %d", chunk.Number, len(chunk.Content), result.Size)
		}
	}
}

func BenchmarkQuery(b *testing.B) {
	run := confined(b)
	s := &stored{}
	if _, err := write(b, run, s, "CREATE TABLE t (a); INSERT INTO t VALUES (1)"); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if got := rows(b, run, s, "SELECT a FROM t"); got != "[1]" {
			b.Fatal(fmt.Sprint(got))
		}
	}
}
