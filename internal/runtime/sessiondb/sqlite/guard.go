package sqlite

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"github.com/capstan-dev/capstan/internal/runtime/sessiondb/sqlcall"
)

// limits are those of the engine: they keep a statement from a deep recursion, a long compilation or large values.
var limits = map[sqlite3.LimitCategory]int{
	sqlite3.LIMIT_LENGTH:              sqlcall.MaxValueBytes,
	sqlite3.LIMIT_SQL_LENGTH:          sqlcall.MaxSQLBytes,
	sqlite3.LIMIT_COLUMN:              200,
	sqlite3.LIMIT_EXPR_DEPTH:          100,
	sqlite3.LIMIT_PARSER_DEPTH:        200,
	sqlite3.LIMIT_COMPOUND_SELECT:     100,
	sqlite3.LIMIT_VDBE_OP:             50_000,
	sqlite3.LIMIT_FUNCTION_ARG:        32,
	sqlite3.LIMIT_ATTACHED:            0,
	sqlite3.LIMIT_LIKE_PATTERN_LENGTH: 256,
	sqlite3.LIMIT_VARIABLE_NUMBER:     sqlcall.MaxParams,
	sqlite3.LIMIT_TRIGGER_DEPTH:       16,
	sqlite3.LIMIT_WORKER_THREADS:      0,
}

// switches are the settings of a connection: none of them may be changed by SQL.
var switches = map[sqlite3.DBConfig]bool{
	sqlite3.DBCONFIG_DEFENSIVE:       true,
	sqlite3.DBCONFIG_WRITABLE_SCHEMA: false,
	sqlite3.DBCONFIG_TRUSTED_SCHEMA:  false,
	sqlite3.DBCONFIG_ENABLE_FKEY:     true,
	sqlite3.DBCONFIG_DQS_DDL:         false,
	sqlite3.DBCONFIG_DQS_DML:         false,
}

// pragmas are those that only read the database.
var pragmas = []string{
	"foreign_key_check", "foreign_key_list", "freelist_count", "index_info", "index_list", "index_xinfo",
	"integrity_check", "page_count", "quick_check", "table_info", "table_list", "table_xinfo", "user_version",
}

// reading are the actions of statements that change nothing, and writing those of all others that are permitted.
var (
	reading = []sqlite3.AuthorizerActionCode{
		sqlite3.AUTH_SELECT, sqlite3.AUTH_READ, sqlite3.AUTH_FUNCTION, sqlite3.AUTH_RECURSIVE,
	}
	writing = []sqlite3.AuthorizerActionCode{
		sqlite3.AUTH_CREATE_INDEX, sqlite3.AUTH_CREATE_TABLE, sqlite3.AUTH_CREATE_TRIGGER, sqlite3.AUTH_CREATE_VIEW,
		sqlite3.AUTH_DROP_INDEX, sqlite3.AUTH_DROP_TABLE, sqlite3.AUTH_DROP_TRIGGER, sqlite3.AUTH_DROP_VIEW,
		sqlite3.AUTH_INSERT, sqlite3.AUTH_UPDATE, sqlite3.AUTH_DELETE, sqlite3.AUTH_ALTER_TABLE, sqlite3.AUTH_REINDEX,
		sqlite3.AUTH_ANALYZE,
	}
)

// refusals are the reasons why actions are not permitted.
var refusals = map[sqlite3.AuthorizerActionCode]string{
	sqlite3.AUTH_ATTACH:              "a call uses one database: ATTACH, and VACUUM, are not permitted",
	sqlite3.AUTH_DETACH:              "DETACH is not permitted",
	sqlite3.AUTH_TRANSACTION:         "every call is one transaction: BEGIN, COMMIT and ROLLBACK are not permitted",
	sqlite3.AUTH_SAVEPOINT:           "every call is one transaction: SAVEPOINT is not permitted",
	sqlite3.AUTH_CREATE_VTABLE:       "virtual tables are not permitted",
	sqlite3.AUTH_DROP_VTABLE:         "virtual tables are not permitted",
	sqlite3.AUTH_CREATE_TEMP_INDEX:   temporary,
	sqlite3.AUTH_CREATE_TEMP_TABLE:   temporary,
	sqlite3.AUTH_CREATE_TEMP_TRIGGER: temporary,
	sqlite3.AUTH_CREATE_TEMP_VIEW:    temporary,
	sqlite3.AUTH_DROP_TEMP_INDEX:     temporary,
	sqlite3.AUTH_DROP_TEMP_TABLE:     temporary,
	sqlite3.AUTH_DROP_TEMP_TRIGGER:   temporary,
	sqlite3.AUTH_DROP_TEMP_VIEW:      temporary,
}

const temporary = "temporary tables, views, indexes and triggers would not outlive the call, and are not permitted"

// guard decides what SQL may do. Everything that it does not list is refused.
type guard struct {
	// writes reports whether the call may change the database.
	writes bool
	// off is set while this package runs statements of its own.
	off bool
	// refused is why the last statement was refused; empty if it was not.
	refused string
}

// authorize is the authorizer of the engine.
func (g *guard) authorize(
	action sqlite3.AuthorizerActionCode, third, fourth, _, _ string,
) sqlite3.AuthorizerReturnCode {
	if g.off || slices.Contains(reading, action) {
		return sqlite3.AUTH_OK
	}
	switch {
	case action == sqlite3.AUTH_PRAGMA:
		name := strings.ToLower(third)
		writes := name == "user_version" && fourth != ""
		if slices.Contains(pragmas, name) && (g.writes || !writes) {
			return sqlite3.AUTH_OK
		}
		g.refused = fmt.Sprintf("PRAGMA %.40s is not permitted", name)
	case slices.Contains(writing, action) && g.writes:
		return sqlite3.AUTH_OK
	case slices.Contains(writing, action):
		g.refused = "a query only reads: use sql_execute to change the database"
	case refusals[action] != "":
		g.refused = refusals[action]
	default:
		g.refused = fmt.Sprintf("action %d of a statement is not permitted", action)
	}
	return sqlite3.AUTH_DENY
}

// confine sets the limits of a connection. Nothing can change them afterwards.
func (g *guard) confine(c *sqlite3.Conn) error {
	for _, setting := range []string{
		// A statement that fails ends the call, and the file is not kept: nothing is ever rolled back.
		"PRAGMA journal_mode = OFF",
		"PRAGMA temp_store = MEMORY",
		fmt.Sprintf("PRAGMA max_page_count = %d", sqlcall.MaxFileBytes/pageBytes),
	} {
		if err := c.Exec(setting); err != nil {
			return fmt.Errorf("running %s: %w", setting, err)
		}
	}
	for category, value := range limits {
		c.Limit(category, value)
	}
	for name, on := range switches {
		if _, err := c.Config(name, on); err != nil {
			return fmt.Errorf("setting %d of the connection: %w", name, err)
		}
	}
	return c.SetAuthorizer(g.authorize)
}
