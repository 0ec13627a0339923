// Package postgres stores the journals of Sessions as rows of a PostgreSQL database, one per entry. A row is written
// only behind that of the ordinal before, so that a journal has no gap, whatever a server has lost.
package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/postgres"
)

// Store stores entries in a database. It is safe for concurrent use.
type Store struct {
	db *postgres.DB
}

var (
	_ journal.Store     = (*Store)(nil)
	_ journal.DryRunner = (*Store)(nil)
)

// New is a store on a database whose schema is up to date.
func New(db *postgres.DB) *Store { return &Store{db: db} }

const readEntry = `
	SELECT e.envelope, e.packed, e.payload
	FROM capstan.journal_entries e JOIN capstan.owners o ON o.id = e.owner
	WHERE o.namespace = $1 AND o.uid = $2 AND o.deleted_at IS NULL AND e.ordinal = $3`

// Get reads the entry at an ordinal.
func (p *Store) Get(ctx context.Context, s journal.Session, ordinal int64) (*v1alpha1.JournalEntrySpec, error) {
	var r row
	err := p.db.Read(ctx, s.Namespace, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, readEntry, s.Namespace, string(s.UID), ordinal).Scan(&r.envelope, &r.packed, &r.payload)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, journal.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("reading the entry at ordinal %d: %w", ordinal, err)
	}
	return r.entry()
}

// writeEntry writes an entry at its ordinal, if the owner has a row, the ordinal before is taken and its own is free.
// It returns how far it came.
const writeEntry = `
	WITH owner AS (
		SELECT id FROM capstan.owners WHERE namespace = $1 AND uid = $2 AND deleted_at IS NULL FOR SHARE
	), head AS (
		SELECT id FROM owner WHERE $3 = 1 OR EXISTS (
			SELECT FROM capstan.journal_entries e WHERE e.owner = id AND e.ordinal = $3 - 1)
	), written AS (
		INSERT INTO capstan.journal_entries (owner, ordinal, envelope, packed, payload)
		SELECT id, $3, $4, $5, $6 FROM head
		ON CONFLICT DO NOTHING RETURNING owner
	)
	SELECT (SELECT count(*) FROM owner), (SELECT count(*) FROM head), (SELECT count(*) FROM written)`

// Create writes an entry at its ordinal. A missing permission, a full disk, a Session that was deleted and an entry
// that breaks the schema are refusals (journal.ErrRefused). The error is journal.ErrCorrupt if the entry before it is
// missing: the database has lost it.
func (p *Store) Create(ctx context.Context, s journal.Session, e *v1alpha1.JournalEntrySpec) error {
	return p.create(ctx, s, e, write)
}

// DryRun makes the database check an entry without writing it.
func (p *Store) DryRun(ctx context.Context, s journal.Session, e *v1alpha1.JournalEntrySpec) error {
	return p.create(ctx, s, e, func(ctx context.Context, conn *pgx.Conn, arguments []any) (reached, error) {
		tx, err := conn.Begin(ctx)
		if err != nil {
			return reached{}, err
		}
		// Nothing is left of a transaction that cannot be rolled back, either.
		defer func() { _ = tx.Rollback(ctx) }()
		return write(ctx, tx.Conn(), arguments)
	})
}

// reached is how far the statement came that writes an entry.
type reached struct{ owner, head, written int64 }

func write(ctx context.Context, conn *pgx.Conn, arguments []any) (reached, error) {
	var r reached
	err := conn.QueryRow(ctx, writeEntry, arguments...).Scan(&r.owner, &r.head, &r.written)
	return r, err
}

func (p *Store) create(
	ctx context.Context, s journal.Session, e *v1alpha1.JournalEntrySpec,
	write func(context.Context, *pgx.Conn, []any) (reached, error),
) error {
	r, err := newRow(e)
	if err != nil {
		return err
	}
	arguments := []any{s.Namespace, string(s.UID), e.Ordinal, r.envelope, r.packed, r.payload}
	owner := postgres.Owner{Namespace: s.Namespace, UID: s.UID, Kind: postgres.OwnerSession, Name: s.Name}
	var last reached
	err = p.db.Change(ctx, owner, func(ctx context.Context, conn *pgx.Conn) error {
		var err error
		if last, err = write(ctx, conn, arguments); err == nil && last.owner == 0 {
			return postgres.ErrNoOwner
		}
		return err
	})
	switch {
	case err != nil:
		return fmt.Errorf("writing the entry at ordinal %d: %w", e.Ordinal, inPostgres{refusal(err)})
	case last.head == 0:
		return fmt.Errorf("writing the entry at ordinal %d: %w", e.Ordinal, errors.Join(journal.ErrRefused,
			fmt.Errorf("%w: the entry at ordinal %d is missing", journal.ErrCorrupt, e.Ordinal-1)))
	case last.written == 0:
		return journal.ErrExists
	}
	return nil
}

// inPostgres marks an error with journal.ErrPostgres. Its text is that of the error.
type inPostgres struct{ error }

// Unwrap returns the error and the mark.
func (e inPostgres) Unwrap() []error { return []error{e.error, journal.ErrPostgres} }

// refusal adds journal.ErrRefused and journal.ErrInvalid to an error, if it is one.
func refusal(err error) error {
	switch of := postgres.OutcomeOf(err); {
	case of == postgres.OutcomeInvalid:
		return errors.Join(journal.ErrRefused, journal.ErrInvalid, err)
	case of == postgres.OutcomeRefused, errors.Is(err, postgres.ErrDeleted):
		return errors.Join(journal.ErrRefused, err)
	}
	return err
}

// row is an entry as it is stored.
type row struct {
	envelope []byte
	packed   bool
	payload  []byte
}

// newRow returns the row of an entry.
func newRow(e *v1alpha1.JournalEntrySpec) (row, error) {
	envelope := *e
	envelope.Payload = nil
	text, err := json.Marshal(envelope)
	if err != nil {
		return row{}, fmt.Errorf("encoding the entry at ordinal %d: %w", e.Ordinal, err)
	}
	r := row{envelope: text}
	if e.Payload != nil {
		r.payload, r.packed = unquote(e.Payload.Raw)
	}
	return r, nil
}

// unquote returns the bytes that a string of JSON has in base64, or other JSON as it is. Only what quote restores
// byte by byte is unquoted.
func unquote(raw []byte) (payload []byte, packed bool) {
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &payload) != nil {
		return raw, false
	}
	if again, err := json.Marshal(payload); err != nil || !bytes.Equal(again, raw) {
		return raw, false
	}
	return payload, true
}

// entry returns the entry of a row.
func (r row) entry() (*v1alpha1.JournalEntrySpec, error) {
	e := &v1alpha1.JournalEntrySpec{}
	if err := json.Unmarshal(r.envelope, e); err != nil {
		return nil, fmt.Errorf("%w: decoding an envelope: %w", journal.ErrCorrupt, err)
	}
	raw := r.payload
	if r.packed {
		var err error
		if raw, err = json.Marshal(r.payload); err != nil {
			return nil, fmt.Errorf("%w: decoding a payload: %w", journal.ErrCorrupt, err)
		}
	}
	if raw != nil {
		e.Payload = &v1alpha1.JSON{Raw: raw}
	}
	return e, nil
}
