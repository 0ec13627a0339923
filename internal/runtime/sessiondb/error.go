package sessiondb

import (
	"errors"
	"fmt"

	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/runner"
	"github.com/capstan-dev/capstan/internal/runtime/sessiondb/sqlcall"
)

// The kinds of errors that this package adds to those of the engine (SVC-05).
const (
	// KindNotFound is a database that does not exist, KindExists one that does, and KindName a name that none can have.
	KindNotFound sqlcall.Kind = "not found"
	KindExists   sqlcall.Kind = "exists"
	KindName     sqlcall.Kind = "bad name"
)

// Error is an error whose text the model may be shown: it is about the SQL or the databases. All other errors are not.
type Error = sqlcall.Problem

func errorf(kind sqlcall.Kind, format string, args ...any) error {
	return sqlcall.Problemf(kind, format, args...)
}

// shown returns an error with an Error in its chain, if it has a text that may be shown to the caller.
func shown(err error) error {
	var about error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, record.ErrNamespaceFull):
		about = errorf(
			sqlcall.KindLimit,
			"the data of all sessions is full together: delete rows, or ask for sessions to be "+
				"deleted",
		)
	case errors.Is(err, record.ErrFull):
		about = errorf(sqlcall.KindLimit, "the databases of a session have at most %d bytes together: delete rows or "+
			"databases", record.MaxStoreBytes)
	case errors.Is(err, record.ErrRefused):
		about = errorf(sqlcall.KindLimit, "the server refuses the change: a quota of the namespace may be used up, or the "+
			"namespace is being deleted")
	case errors.Is(err, runner.ErrNoPlace):
		about = errorf(sqlcall.KindTimeout, "no process for SQL became free in time: nothing was run, call again later")
	case errors.Is(err, runner.ErrTimeout):
		about = errorf(sqlcall.KindTimeout, "the call did not end within %v", Timeout)
	case errors.Is(err, runner.ErrEnded):
		about = errorf(sqlcall.KindLimit, "the process of the call has ended: it exceeded its limits of memory or time")
	default:
		return err
	}
	return fmt.Errorf("%w (%w)", about, err)
}
