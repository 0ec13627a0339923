package sqlcall

import (
	"context"
	"encoding/json"
	"fmt"
)

// The bounds of a call.
const (
	// ChunkBytes is the size of a part of a database file. The last part may be shorter.
	ChunkBytes = 32 << 10
	// MaxFileBytes is the maximum size of a database file.
	MaxFileBytes = 4 << 20
	// MaxChunks is the maximum number of parts of a file.
	MaxChunks = MaxFileBytes / ChunkBytes
	// MaxSQLBytes is the maximum length of the SQL of a call.
	MaxSQLBytes = 64 << 10
	// MaxParams is the maximum number of parameters of a statement, and MaxParamBytes that of their bytes as JSON.
	MaxParams     = 100
	MaxParamBytes = 64 << 10
	// MaxRows is the maximum number of rows of a result, and MaxResultBytes that of their bytes as JSON.
	MaxRows        = 1000
	MaxResultBytes = 48 << 10
	// MaxCellBytes is the length from which on a text or a blob is shortened in a result.
	MaxCellBytes = 8 << 10
	// MaxValueBytes is the maximum length of a text, a blob or a row that a statement makes.
	MaxValueBytes = 1 << 20
	// MaxMemoryBytes is the maximum memory of the engine for one call.
	MaxMemoryBytes = 16 << 20
)

// Mode is what a call does.
type Mode string

// The modes of a call.
const (
	// Query reads the rows of one statement.
	Query Mode = "query"
	// Execute runs statements in one transaction.
	Execute Mode = "execute"
	// Schema reads the tables, views, indexes and triggers.
	Schema Mode = "schema"
)

// Kind is what is wrong with a call (SVC-05).
type Kind string

// The kinds of problems that the engine finds.
const (
	// KindQuery is SQL that cannot be run, or that has failed.
	KindQuery Kind = "query"
	// KindLimit is SQL that exceeds a limit other than the ones below.
	KindLimit Kind = "limit"
	// KindTimeout is SQL that did not end in time.
	KindTimeout Kind = "timeout"
	// KindTooLarge is a database or a value that would become too large.
	KindTooLarge Kind = "too large"
	// KindBlocked is a statement that is not permitted.
	KindBlocked Kind = "blocked"
)

// Problem is an error of the SQL, for its author.
type Problem struct {
	// Kind of the problem.
	Kind Kind `json:"kind"`
	// Text describes it.
	Text string `json:"text"`
}

// Error implements error.
func (p *Problem) Error() string { return string(p.Kind) + ": " + p.Text }

// Problemf returns a Problem.
func Problemf(kind Kind, format string, args ...any) *Problem {
	return &Problem{Kind: kind, Text: fmt.Sprintf(format, args...)}
}

// Request is a call.
type Request struct {
	// Mode of the call.
	Mode Mode `json:"mode"`
	// SQL has one statement to query, and one or more to execute.
	SQL string `json:"sql,omitempty"`
	// Params are the values of the parameters, as JSON: null, booleans, numbers and strings. SQL with several statements
	// has none.
	Params []json.RawMessage `json:"params,omitempty"`
	// Rows is the maximum number of rows of the result, up to MaxRows.
	Rows int `json:"rows,omitempty"`
	// Size of the database file in bytes, 0 for a new one.
	Size int64 `json:"size"`
	// TimeoutMillis is how long the call may run.
	TimeoutMillis int64 `json:"timeoutMillis"`
}

// Result is the result of a call.
type Result struct {
	// Columns are the names of the columns of a query, and Rows their values: null, numbers and strings.
	Columns []string            `json:"columns,omitempty"`
	Rows    [][]json.RawMessage `json:"rows,omitempty"`
	// Objects are those of the schema.
	Objects []Object `json:"objects,omitempty"`
	// Truncated reports whether there are more rows, objects or bytes than the result has.
	Truncated bool `json:"truncated,omitempty"`
	// RowsAffected is the number of rows that the statements have inserted, changed or deleted, without those that
	// triggers have. LastInsertRowID is the id of the last row that was inserted; 0 for none.
	RowsAffected    int64 `json:"rowsAffected,omitempty"`
	LastInsertRowID int64 `json:"lastInsertRowID,omitempty"`
	// Size of the database file after the call.
	Size int64 `json:"size"`
	// Changed are the parts of the file that the call has changed, ascending. Their content follows the result.
	Changed []int `json:"changed,omitempty"`
}

// Object is a table, a view, an index or a trigger.
type Object struct {
	// Type is table, view, index or trigger.
	Type string `json:"type"`
	// Name of the object, and of the Table that it belongs to.
	Name  string `json:"name"`
	Table string `json:"table,omitempty"`
	// SQL that has created it; empty for an index that belongs to a constraint.
	SQL string `json:"sql,omitempty"`
}

// Chunk is a part of a database file.
type Chunk struct {
	// Number of the part, from 0.
	Number int
	// Content of ChunkBytes, or less for the last part.
	Content []byte
}

// Source has a database file.
type Source interface {
	// Read returns a part of the file.
	Read(ctx context.Context, chunk int) ([]byte, error)
}

// Chunks returns the number of parts of a file.
func Chunks(size int64) int {
	return int((size + ChunkBytes - 1) / ChunkBytes)
}

// ChunkSize returns the length of a part of a file of a size.
func ChunkSize(size int64, chunk int) int {
	return int(max(0, min(ChunkBytes, size-int64(chunk)*ChunkBytes)))
}

// Check returns why a request is too large to be sent; nil if it is not.
func (r Request) Check() error {
	size := 0
	for _, param := range r.Params {
		size += len(param)
	}
	switch {
	case len(r.SQL) > MaxSQLBytes:
		return Problemf(KindTooLarge, "the SQL has %d bytes; the maximum is %d", len(r.SQL), MaxSQLBytes)
	case len(r.Params) > MaxParams:
		return Problemf(KindLimit, "there are %d parameters; the maximum is %d", len(r.Params), MaxParams)
	case size > MaxParamBytes:
		return Problemf(KindTooLarge, "the parameters have %d bytes; the maximum is %d", size, MaxParamBytes)
	default:
		return nil
	}
}
