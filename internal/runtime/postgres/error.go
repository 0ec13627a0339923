package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Outcome is what is known of a statement that has failed.
type Outcome int

const (
	// OutcomeUnknown: the statement may have been carried out, or may be yet.
	OutcomeUnknown Outcome = iota
	// OutcomeAborted: nothing was changed, and the same statement may succeed later.
	OutcomeAborted
	// OutcomeRefused: nothing was changed, and the same statement would be refused again until a person removes the
	// cause: a missing permission, a missing table, a full disk.
	OutcomeRefused
	// OutcomeInvalid: nothing was changed, because of the values of the statement. Others may be accepted.
	OutcomeInvalid
)

// Error is a statement that has failed. Its text names no host, user, database or value of a row.
type Error struct {
	// Outcome of the statement.
	Outcome Outcome
	// Code is the SQLSTATE of the server, such as 40001; empty without a response.
	Code string
	err  error
}

// Error implements error.
func (e *Error) Error() string {
	var server *pgconn.PgError
	var connect *pgconn.ConnectError
	switch {
	case errors.As(e.err, &server):
		return "PostgreSQL: " + serverText(server.Code)
	case errors.As(e.err, &connect):
		return "PostgreSQL: connecting failed"
	case errors.Is(e.err, context.DeadlineExceeded), errors.Is(e.err, context.Canceled):
		return "PostgreSQL: " + contextText(e.err)
	default:
		return "PostgreSQL: the connection failed"
	}
}

// texts are the messages by the class of a SQLSTATE. Those of the server name accounts, databases, tables and values of
// rows; its log has them.
var texts = map[string]string{
	"08": "the connection failed",
	"22": "a value was refused",
	"23": "a constraint was violated",
	"25": "the transaction cannot write",
	"28": "the authentication failed",
	"3D": "the database does not exist",
	"3F": "the schema does not exist",
	"40": "the transaction was aborted",
	"42": "a permission or an object is missing",
	"53": "the server has not enough resources",
	"54": "a limit of the server was exceeded",
	"55": "an object is in use",
	"57": "the statement or the connection was ended",
	"58": "the server failed",
	"XX": "the server failed",
}

// serverText is the message of an error of the server, with the SQLSTATE if it is one.
func serverText(code string) string {
	if len(code) != 5 || strings.ContainsFunc(code, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z')
	}) {
		return "the statement failed"
	}
	text, known := texts[code[:2]]
	if !known {
		text = "the statement failed"
	}
	return fmt.Sprintf("%s (SQLSTATE %s)", text, code)
}

// contextText names the end of a context without the addresses that errors of the network have.
func contextText(err error) string {
	if errors.Is(err, context.Canceled) {
		return context.Canceled.Error()
	}
	return context.DeadlineExceeded.Error()
}

// Unwrap returns the cause, which may name hosts and users.
func (e *Error) Unwrap() error { return e.err }

// OutcomeOf returns what is known of a statement that has failed with an error of this package.
func OutcomeOf(err error) Outcome {
	var of *Error
	if errors.As(err, &of) {
		return of.Outcome
	}
	return OutcomeUnknown
}

// classes are the outcomes by the class of a SQLSTATE, its first two characters. A code of its own precedes it. Classes
// that are missing, such as 08 (connection) and 57 (an operator's intervention), leave the outcome open.
var classes = map[string]Outcome{
	"22": OutcomeInvalid, // data that a type does not accept
	"23": OutcomeInvalid, // a constraint
	"25": OutcomeAborted, // a transaction that cannot write: the server has become a standby
	"28": OutcomeAborted, // failed authentication: the password may have changed
	"3D": OutcomeRefused, // the database does not exist
	"3F": OutcomeRefused, // the schema does not exist
	"40": OutcomeAborted, // aborted for another transaction
	"42": OutcomeRefused, // no permission, or a missing table
	"53": OutcomeRefused, // a full disk, or not enough memory
	"54": OutcomeInvalid, // too large
	"55": OutcomeAborted, // a lock that was not available
}

// codes are the outcomes of single codes.
var codes = map[string]Outcome{
	"40003": OutcomeUnknown, // the server does not know either
	"53300": OutcomeAborted, // too many connections
	"57014": OutcomeAborted, // the time-out of the statement
	"57P03": OutcomeAborted, // the server starts or stops
}

// newError classifies the error of a statement. One that found no row is pgx.ErrNoRows.
func newError(err error) error {
	if err == nil || errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	var known *Error
	if errors.As(err, &known) {
		return err
	}
	e := &Error{err: err}
	var server *pgconn.PgError
	if errors.As(err, &server) {
		e.Code = server.Code
		if outcome, ok := codes[e.Code]; ok {
			e.Outcome = outcome
		} else if len(e.Code) == 5 {
			e.Outcome = classes[e.Code[:2]]
		}
		return e
	}
	if pgconn.SafeToRetry(err) {
		e.Outcome = OutcomeAborted
	}
	return e
}

// again reports whether a statement is to be tried again at once: the server aborted it for another one, or it was
// never sent.
func again(err error) bool {
	var e *Error
	if !errors.As(err, &e) || e.Outcome != OutcomeAborted {
		return false
	}
	return e.Code == "40001" || e.Code == "40P01" || e.Code == "25006" || e.Code == "" && pgconn.SafeToRetry(e.err)
}

// gone reports whether the other connections to the server are of no use either: it has become a standby, or it ends.
func gone(err error) bool {
	var e *Error
	return errors.As(err, &e) && (e.Code == "25006" || strings.HasPrefix(e.Code, "57P"))
}
