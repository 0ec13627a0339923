package builtin

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/sessiondb"
)

const (
	// databaseSchema is the schema of the name of a database.
	databaseSchema = `{
      "type": "string",
      "minLength": 1,
      "maxLength": 63,
      "description": "Name of the database: lower-case letters, digits, - and _."
    }`
	// statementSchema is that of SQL with parameters.
	statementSchema = `"sql": {"type": "string", "minLength": 1, "maxLength": 65536},
    "params": {
      "type": "array",
      "maxItems": 100,
      "items": {"type": ["null", "boolean", "number", "string"]},
      "description": "Values of the parameters ?, in order."
    }`
	// databaseClass makes the calls of a step that use databases run one after the other, in the order of the response.
	databaseClass = "session_databases"
	// defaultRows is the number of rows that sql_query returns at most, unless it is asked for another one.
	defaultRows = 100
)

// namedDatabase is the schema of arguments that name a database and nothing else.
const namedDatabase = `{
  "type": "object",
  "required": ["database"],
  "properties": {"database": ` + databaseSchema + `},
  "additionalProperties": false
}`

// sessionSQLDatabase gives the model SQL databases of the Session (SVC-05). The tools that change databases are
// Idempotent: a change is recorded under its call, and a repeated call returns the first result.
var sessionSQLDatabase = Capability{
	Name:        "session_sql_database",
	Description: "Gives the model SQL databases (SQLite) of the Session.",
	Tools: []Tool{
		{
			Name: "sql_query",
			Description: "Runs one SELECT statement (SQLite) on a database of this session and returns its rows. It changes " +
				"nothing. truncated tells that there are more rows or longer values than were returned: aggregate, or use " +
				"LIMIT and OFFSET.",
			InputSchema: `{
  "type": "object",
  "required": ["database", "sql"],
  "properties": {
    "database": ` + databaseSchema + `,
    ` + statementSchema + `,
    "max_rows": {"type": "integer", "minimum": 1, "maximum": 1000, "description": "Default: 100."}
  },
  "additionalProperties": false
}`,
			ConcurrencyClass: databaseClass,
			Run:              withDatabases(sqlQuery),
		},
		{
			Name: "sql_execute",
			Description: "Runs one or more SQL statements (SQLite) that change a database of this session, in one " +
				"transaction: if one fails, nothing is changed. The database is created if it does not exist. It returns no " +
				"rows, also not those of RETURNING.",
			SideEffect: v1alpha1.SideEffectIdempotent,
			InputSchema: `{
  "type": "object",
  "required": ["database", "sql"],
  "properties": {
    "database": ` + databaseSchema + `,
    ` + statementSchema + `
  },
  "additionalProperties": false
}`,
			ConcurrencyClass: databaseClass,
			Run:              withDatabases(sqlExecute),
		},
		{
			Name: "sql_schema",
			Description: "Returns the tables, views, indexes and triggers of a database of this session, with the SQL that " +
				"has created them.",
			InputSchema:      namedDatabase,
			ConcurrencyClass: databaseClass,
			Run: withDatabases(func(ctx context.Context, _ Call, databases Databases, a sqlArguments) (any, error) {
				return databases.Schema(ctx, a.Database)
			}),
		},
		{
			Name:             "sql_list_databases",
			Description:      "Lists the SQL databases of this session with their sizes.",
			InputSchema:      `{"type": "object", "properties": {}, "additionalProperties": false}`,
			ConcurrencyClass: databaseClass,
			Run: withDatabases(func(ctx context.Context, _ Call, databases Databases, _ sqlArguments) (any, error) {
				all, err := databases.List(ctx)
				return map[string][]sessiondb.Info{"databases": all}, err
			}),
		},
		{
			Name:             "sql_create_database",
			Description:      "Creates an empty SQL database of this session. It is an error if it exists.",
			SideEffect:       v1alpha1.SideEffectIdempotent,
			InputSchema:      namedDatabase,
			ConcurrencyClass: databaseClass,
			Run: withDatabases(func(ctx context.Context, call Call, databases Databases, a sqlArguments) (any, error) {
				_, err := databases.Create(ctx, call.Cause, a.Database)
				return map[string]string{"created": a.Database}, err
			}),
		},
		{
			Name:             "sql_delete_database",
			Description:      "Deletes a SQL database of this session with all its data.",
			SideEffect:       v1alpha1.SideEffectIdempotent,
			InputSchema:      namedDatabase,
			ConcurrencyClass: databaseClass,
			Run: withDatabases(func(ctx context.Context, call Call, databases Databases, a sqlArguments) (any, error) {
				return map[string]string{"deleted": a.Database}, databases.Delete(ctx, call.Cause, a.Database)
			}),
		},
	},
}

// sqlArguments are the arguments of all tools for databases.
type sqlArguments struct {
	Database string            `json:"database"`
	SQL      string            `json:"sql"`
	Params   []json.RawMessage `json:"params"`
	MaxRows  int               `json:"max_rows"`
}

// withDatabases returns the Run of a tool for databases. The model is shown what is wrong with its SQL, and no error of
// the store or of the process.
func withDatabases(
	run func(ctx context.Context, call Call, databases Databases, a sqlArguments) (any, error),
) func(context.Context, Call) (any, error) {
	return using("databases", func(s Services) Databases { return s.Databases },
		func(ctx context.Context, call Call, databases Databases, a sqlArguments) (any, error) {
			result, err := run(ctx, call, databases, a)
			var about *sessiondb.Error
			if errors.As(err, &about) {
				return nil, Errorf("%s", about.Error())
			}
			return result, err
		})
}

// rowsRead is what sql_query returns.
type rowsRead struct {
	*sessiondb.Rows
	Count int `json:"row_count"`
}

func sqlQuery(ctx context.Context, _ Call, databases Databases, a sqlArguments) (any, error) {
	if a.MaxRows == 0 {
		a.MaxRows = defaultRows
	}
	rows, err := databases.Query(ctx, a.Database, sessiondb.Statement{SQL: a.SQL, Params: a.Params}, a.MaxRows)
	if err != nil {
		return nil, err
	}
	return rowsRead{Rows: rows, Count: len(rows.Rows)}, nil
}

func sqlExecute(ctx context.Context, call Call, databases Databases, a sqlArguments) (any, error) {
	return databases.Execute(ctx, call.Cause, a.Database, sessiondb.Statement{SQL: a.SQL, Params: a.Params})
}
