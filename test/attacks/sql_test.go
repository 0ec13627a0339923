package attacks_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/record/memory"
	"github.com/capstan-dev/capstan/internal/runtime/runner"
	"github.com/capstan-dev/capstan/internal/runtime/sessiondb"
	"github.com/capstan-dev/capstan/internal/runtime/tool/builtin"
)

// queries are calls of the tools for SQL databases, with statements that a model has written.
func queries(t *testing.T) subject {
	secret := filepath.Join(t.TempDir(), "secret.db")
	must(t, os.WriteFile(secret, []byte(hostSecret), 0o600))
	pool := runner.NewPool(runner.Options{Command: []string{"/proc/self/exe", argument}})
	t.Cleanup(pool.Close)
	service := &sessiondb.Service{
		Records: record.New(memory.New(), record.Options{}), Processes: sessiondb.Confined{Pool: pool},
		Writes: sessiondb.NewWrites(),
	}
	var calls atomic.Int64
	call := func(ctx context.Context, namespace, session, name string, arguments map[string]any) string {
		text, err := json.Marshal(arguments)
		must(t, err)
		return builtinCall(ctx, t, "session_sql_database", name, builtin.Call{
			Arguments: string(text),
			Services: builtin.Services{Databases: service.Of(sessiondb.Session{
				Namespace: namespace, Name: session, UID: types.UID(namespace + session),
			})},
			Cause: record.Cause{Step: calls.Add(1), Key: "turn/1-0"},
		})
	}
	execute := func(namespace, session, database, sql string) string {
		return call(t.Context(), namespace, session, "sql_execute", map[string]any{"database": database, "sql": sql})
	}
	execute(bystander, "s", "db", "CREATE TABLE t (a); INSERT INTO t VALUES ('"+tokenSecret+"')")
	execute(attacker, "other", "db", "CREATE TABLE t (a); INSERT INTO t VALUES ('"+tokenSecret+"')")
	execute(attacker, "s", "own", "CREATE TABLE t (a); INSERT INTO t VALUES (1)")
	path := strings.NewReplacer("SECRET", secret)
	in := func(name, tool, database, sql string) attempt {
		return attempt{name: name, run: func(ctx context.Context) string {
			return call(ctx, attacker, "s", tool, map[string]any{"database": database, "sql": path.Replace(sql)})
		}}
	}
	query := func(name, sql string) attempt { return in(name, "sql_query", "own", sql) }
	change := func(name, sql string) attempt { return in(name, "sql_execute", "own", sql) }
	const all = "SELECT * FROM t"
	return subject{
		name: "SQL databases of a Session", runs: true,
		classes: []class{
			{name: "a database of another Session or tenant", refused: true, attempts: []attempt{
				in("by its name", "sql_query", "db", all), in("by a path", "sql_query", "../"+bystander+"/s/db", all),
				in("by a UID", "sql_query", bystander+"s/databases/db", all), in("by a file", "sql_query", "file:db", all),
				in("by a pattern", "sql_query", "*", all),
			}},
			{name: "other files", refused: true, attempts: []attempt{
				change("attached", "ATTACH 'SECRET' AS s"), change("attached by a URI", "ATTACH 'file:SECRET?mode=ro' AS s"),
				change("written", "VACUUM INTO 'SECRET'"), query("read", "SELECT readfile('SECRET')"),
				query("loaded", "SELECT load_extension('SECRET')"),
			}},
			{name: "settings of the engine", refused: true, attempts: []attempt{
				change("the schema", "PRAGMA writable_schema = 1"), change("memory", "PRAGMA cache_size = 100000000"),
				change("a directory", "PRAGMA temp_store_directory = '/tmp'"),
				change("a virtual table", "CREATE VIRTUAL TABLE v USING fts5(a)"),
				change("the table of the schema", "UPDATE sqlite_schema SET sql = 'x'"),
			}},
			{name: "statements without an end", refused: true, longest: longest, attempts: []attempt{
				query("a recursion", "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT max(n) FROM r"),
				query("a large value", "SELECT hex(zeroblob(900000000))"),
				query("a product", "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r LIMIT 10000) "+
					"SELECT count(*) FROM r a, r b, r c"),
				change("a table that grows", "CREATE TABLE g AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) "+
					"SELECT n, randomblob(10000) FROM r"),
				query("a long pattern", "SELECT replace(hex(zeroblob(400000)), '00', hex(zeroblob(400)))"),
			}},
		},
		other: func(ctx context.Context) error {
			seen := call(ctx, bystander, "s", "sql_query", map[string]any{"database": "db", "sql": all})
			if !strings.Contains(seen, tokenSecret) {
				return errors.New(seen)
			}
			return nil
		},
		after: func(t *testing.T) {
			if content, err := os.ReadFile(secret); err != nil || string(content) != hostSecret {
				t.Errorf("the file of the host is %q, %v", content, err)
			}
		},
	}
}
