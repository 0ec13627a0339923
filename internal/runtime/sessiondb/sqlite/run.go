package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/capstan-dev/capstan/internal/runtime/sessiondb/sqlcall"
)

// pageBytes is the size of a page of a database.
const pageBytes = 4096

// setupError is an error that is not about the SQL.
type setupError struct{ error }

// Unwrap returns the error.
func (e *setupError) Unwrap() error { return e.error }

// errMemory reports a call that needs more memory than the engine has.
var errMemory = errors.New("out of memory")

// Run runs a call on a file. The error is a *sqlcall.Problem, or about the file or the engine. Nothing counts after an
// error.
func Run(ctx context.Context, r sqlcall.Request, source sqlcall.Source) (*sqlcall.Result, []sqlcall.Chunk, error) {
	if r.Size < 0 || r.Size > sqlcall.MaxFileBytes {
		return nil, nil, fmt.Errorf("a database file has %d bytes", r.Size)
	}
	timeout := time.Duration(r.TimeoutMillis) * time.Millisecond
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	f := &file{
		ctx: ctx, source: source, size: r.Size, stored: r.Size, chunks: map[int][]byte{}, changed: map[int]bool{},
	}
	g := &guard{writes: r.Mode == sqlcall.Execute}
	result, err := run(limited, r, f, g)
	switch {
	case f.broken != nil:
		return nil, nil, f.broken
	case err != nil && limited.Err() != nil && ctx.Err() == nil:
		return nil, nil, sqlcall.Problemf(sqlcall.KindTimeout, "the call did not end within %v", timeout)
	case err != nil:
		return nil, nil, g.shown(err)
	}
	result.Size = f.size
	changes := f.changes()
	for _, chunk := range changes {
		result.Changed = append(result.Changed, chunk.Number)
	}
	return result, changes, nil
}

// run opens the database and runs a call. The engine reports a lack of memory by a panic.
func run(ctx context.Context, r sqlcall.Request, f *file, g *guard) (result *sqlcall.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			if cause, ok := p.(error); ok && strings.Contains(cause.Error(), "out of memory") {
				result, err = nil, errMemory
				return
			}
			panic(p)
		}
	}()
	address, unregister := f.register()
	defer unregister()
	c, err := sqlite3.OpenContext(sqlite3.WithMaxMemory(ctx, sqlcall.MaxMemoryBytes), address)
	if err != nil {
		return nil, &setupError{fmt.Errorf("opening the database: %w", err)}
	}
	// The connection ends with its memory: statements that are open do no harm.
	defer func() { _ = c.Close() }()
	c.SetInterrupt(ctx)
	if err := prepare(c, f, g); err != nil {
		return nil, &setupError{err}
	}
	switch r.Mode {
	case sqlcall.Query:
		return query(c, r)
	case sqlcall.Schema:
		return schema(c)
	case sqlcall.Execute:
		return execute(c, g, r)
	default:
		return nil, fmt.Errorf("unknown mode %q", r.Mode)
	}
}

// prepare sets up a connection.
func prepare(c *sqlite3.Conn, f *file, g *guard) error {
	if f.size == 0 && g.writes {
		// What is deleted makes the file smaller at the end of the transaction.
		if err := c.Exec("PRAGMA auto_vacuum = FULL"); err != nil {
			return fmt.Errorf("setting up the database: %w", err)
		}
	}
	return g.confine(c)
}

// own runs a statement of this package.
func (g *guard) own(c *sqlite3.Conn, sql string) error {
	g.off = true
	defer func() { g.off = false }()
	return c.Exec(sql)
}

// execute runs statements in one transaction.
func execute(c *sqlite3.Conn, g *guard, r sqlcall.Request) (*sqlcall.Result, error) {
	if err := g.own(c, "BEGIN IMMEDIATE"); err != nil {
		return nil, err
	}
	ran := 0
	before := c.TotalChanges()
	result := &sqlcall.Result{}
	for rest := r.SQL; rest != ""; {
		s, tail, err := c.Prepare(rest)
		if err != nil {
			return nil, err
		}
		rest = tail
		if s == nil {
			continue
		}
		ran++
		if err := one(s, r, ran, rest); err != nil {
			return nil, err
		}
	}
	if ran == 0 {
		return nil, sqlcall.Problemf(sqlcall.KindQuery, "there is no statement to run")
	}
	result.RowsAffected, result.LastInsertRowID = c.TotalChanges()-before, c.LastInsertRowID()
	return result, g.own(c, "COMMIT")
}

// one runs one statement of several.
func one(s *sqlite3.Stmt, r sqlcall.Request, number int, rest string) error {
	if s.ReadOnly() && s.ColumnCount() > 0 {
		return sqlcall.Problemf(sqlcall.KindQuery, "sql_execute returns no rows: use sql_query to read")
	}
	if len(r.Params) > 0 && (number > 1 || strings.TrimSpace(rest) != "") {
		return sqlcall.Problemf(sqlcall.KindQuery, "only SQL of one statement has parameters")
	}
	if err := bind(s, r.Params); err != nil {
		return err
	}
	for s.Step() {
		// The rows of RETURNING are not read.
		continue
	}
	return errors.Join(s.Err(), s.Close())
}

// shown returns the Problem of an error, or an error that only the other side's log has.
func (g *guard) shown(err error) error {
	var setup *setupError
	var problem *sqlcall.Problem
	var engine *sqlite3.Error
	var code sqlite3.ErrorCode
	switch {
	case errors.As(err, &setup):
		return err
	case errors.As(err, &problem):
		return problem
	case errors.Is(err, errMemory):
		return sqlcall.Problemf(sqlcall.KindLimit,
			"the call needs more than %d MiB of memory: sort, group or join fewer rows", sqlcall.MaxMemoryBytes>>20)
	case errors.As(err, &engine):
		code = engine.Code()
	case !errors.As(err, &code):
		return err
	}
	switch code {
	case sqlite3.AUTH:
		if g.refused == "" {
			return sqlcall.Problemf(sqlcall.KindBlocked, "%s", text(err))
		}
		return sqlcall.Problemf(sqlcall.KindBlocked, "%s", g.refused)
	case sqlite3.FULL:
		return sqlcall.Problemf(sqlcall.KindTooLarge, "the database would have more than %d bytes: delete rows or tables",
			sqlcall.MaxFileBytes)
	case sqlite3.TOOBIG:
		return sqlcall.Problemf(sqlcall.KindTooLarge,
			"a text, a blob, a row or the statement is too long: a value has at most %d bytes", sqlcall.MaxValueBytes)
	default:
		return sqlcall.Problemf(sqlcall.KindQuery, "%s", text(err))
	}
}

// maxTextBytes is the maximum length of a message of the engine, which may quote the SQL.
const maxTextBytes = 1 << 10

// text is the message of an error of the engine.
func text(err error) string {
	message := strings.ToValidUTF8(strings.TrimPrefix(err.Error(), "sqlite3: "), "\uFFFD")
	if len(message) > maxTextBytes {
		message = strings.ToValidUTF8(message[:maxTextBytes], "") + "…"
	}
	return message
}
