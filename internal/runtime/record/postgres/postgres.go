// Package postgres stores the records of Sessions and MCPServers as rows of a PostgreSQL database.
package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/capstan-dev/capstan/internal/runtime/postgres"
	"github.com/capstan-dev/capstan/internal/runtime/record"
)

// Objects stores indexes and blobs in a database. It is safe for concurrent use.
type Objects struct {
	db *postgres.DB
}

var _ record.Objects = (*Objects)(nil)

// New returns Objects on a database whose schema is up to date.
func New(db *postgres.DB) *Objects { return &Objects{db: db} }

const readIndex = `
	SELECT i.version::text, i.revision, i.format, i.payload
	FROM capstan.record_indexes i JOIN capstan.owners o ON o.id = i.owner
	WHERE o.namespace = $1 AND o.uid = $2 AND o.deleted_at IS NULL AND i.store = $3`

// ReadIndex reads the index of a store.
func (p *Objects) ReadIndex(ctx context.Context, scope record.Scope) (record.Stored, error) {
	var index record.Stored
	err := p.db.Read(ctx, scope.Namespace, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, readIndex, scope.Namespace, string(scope.UID), scope.Store).
			Scan(&index.Version, &index.Revision, &index.Format, &index.Payload)
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return record.Stored{}, record.ErrNotFound
	case err != nil:
		return record.Stored{}, fmt.Errorf("reading an index: %w", err)
	case index.Format != record.Format && index.Format != record.FormatPages:
		return record.Stored{}, fmt.Errorf("reading an index: %w (%d)", record.ErrFormat, index.Format)
	}
	return index, nil
}

const readBlob = `
	SELECT b.payload
	FROM capstan.record_blobs b JOIN capstan.owners o ON o.id = b.owner
	WHERE o.namespace = $1 AND o.uid = $2 AND o.deleted_at IS NULL AND b.store = $3 AND b.name = $4`

// ReadBlob reads a blob.
func (p *Objects) ReadBlob(ctx context.Context, scope record.Scope, name string) ([]byte, error) {
	var payload []byte
	err := p.db.Read(ctx, scope.Namespace, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, readBlob, scope.Namespace, string(scope.UID), scope.Store, name).Scan(&payload)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, record.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("reading a blob: %w", err)
	}
	return payload, nil
}

// Each statement that changes something finds the owner under a lock that the owner's deletion waits for, and returns
// how many owners and rows it has found.
const (
	createIndex = `
	WITH owner AS (
		SELECT id FROM capstan.owners WHERE namespace = $1 AND uid = $2 AND deleted_at IS NULL FOR SHARE
	), written AS (
		INSERT INTO capstan.record_indexes (owner, store, revision, format, payload)
		SELECT id, $3, $4, $5, $6 FROM owner
		ON CONFLICT DO NOTHING RETURNING owner
	)
	SELECT (SELECT count(*) FROM owner), (SELECT count(*) FROM written)`

	replaceIndex = `
	WITH owner AS (
		SELECT id FROM capstan.owners WHERE namespace = $1 AND uid = $2 AND deleted_at IS NULL FOR SHARE
	), written AS (
		UPDATE capstan.record_indexes i
		SET version = gen_random_uuid(), revision = $4, format = $5, payload = $6
		FROM owner WHERE i.owner = owner.id AND i.store = $3 AND i.version::text = $7
		RETURNING i.owner
	)
	SELECT (SELECT count(*) FROM owner), (SELECT count(*) FROM written)`

	createBlob = `
	WITH owner AS (
		SELECT id FROM capstan.owners WHERE namespace = $1 AND uid = $2 AND deleted_at IS NULL FOR SHARE
	), written AS (
		INSERT INTO capstan.record_blobs (owner, store, name, payload)
		SELECT id, $3, $4, $5 FROM owner
		ON CONFLICT DO NOTHING RETURNING owner
	)
	SELECT (SELECT count(*) FROM owner), (SELECT count(*) FROM written)`

	deleteBlob = `
	DELETE FROM capstan.record_blobs b USING capstan.owners o
	WHERE o.id = b.owner AND o.namespace = $1 AND o.uid = $2 AND b.store = $3 AND b.name = $4`
)

// WriteIndex creates the index of a store, or replaces the version that was read.
func (p *Objects) WriteIndex(ctx context.Context, scope record.Scope, index record.Stored) error {
	statement := createIndex
	arguments := []any{
		scope.Namespace, string(scope.UID), scope.Store, index.Revision, index.Format, notNil(index.Payload),
	}
	if index.Version != "" {
		statement, arguments = replaceIndex, append(arguments, index.Version)
	}
	written, err := p.change(ctx, scope, statement, arguments)
	if err != nil {
		return fmt.Errorf("writing an index: %w", err)
	}
	if written == 0 {
		return record.ErrChanged
	}
	return nil
}

// CreateBlob creates a blob, unless there is one.
func (p *Objects) CreateBlob(ctx context.Context, scope record.Scope, name string, payload []byte) error {
	arguments := []any{scope.Namespace, string(scope.UID), scope.Store, name, notNil(payload)}
	if _, err := p.change(ctx, scope, createBlob, arguments); err != nil {
		return fmt.Errorf("writing a blob: %w", err)
	}
	return nil
}

// DeleteBlob deletes a blob, if there is one.
func (p *Objects) DeleteBlob(ctx context.Context, scope record.Scope, name string) error {
	err := p.db.Write(ctx, scope.Namespace, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, deleteBlob, scope.Namespace, string(scope.UID), scope.Store, name)
		return err
	})
	if err != nil {
		return fmt.Errorf("deleting a blob: %w", err)
	}
	return nil
}

// change carries out a statement for the owner of a store, and returns how many rows were written.
func (p *Objects) change(
	ctx context.Context, scope record.Scope, statement string, arguments []any,
) (written int64, err error) {
	owner := postgres.Owner{
		Namespace: scope.Namespace, UID: scope.UID, Kind: postgres.OwnerSession, Name: scope.Session,
	}
	switch {
	case scope.MCPServer != "":
		owner.Kind, owner.Name = postgres.OwnerMCPServer, scope.MCPServer
	case scope.Secret != "":
		owner.Kind, owner.Name = postgres.OwnerSecret, scope.Secret
	}
	err = p.db.Change(ctx, owner, func(ctx context.Context, conn *pgx.Conn) error {
		var found int64
		if err := conn.QueryRow(ctx, statement, arguments...).Scan(&found, &written); err != nil {
			return err
		}
		if found == 0 {
			return postgres.ErrNoOwner
		}
		return nil
	})
	outcome := postgres.OutcomeOf(err)
	if outcome == postgres.OutcomeRefused || outcome == postgres.OutcomeInvalid || errors.Is(err, postgres.ErrDeleted) {
		return 0, errors.Join(record.ErrRefused, err)
	}
	return written, err
}

// notNil returns no bytes in place of nil, which would be NULL.
func notNil(payload []byte) []byte {
	if payload == nil {
		return []byte{}
	}
	return payload
}
