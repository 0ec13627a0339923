package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"k8s.io/apimachinery/pkg/types"
)

// OwnerKind is the kind of an object that has rows.
type OwnerKind string

// The kinds of owners.
const (
	OwnerSession   OwnerKind = "Session"
	OwnerMCPServer OwnerKind = "MCPServer"
	// OwnerSecret has the ledger of a wallet.
	OwnerSecret OwnerKind = "Secret"
)

// Owner is an object that has rows.
type Owner struct {
	// Namespace and UID identify it.
	Namespace string
	UID       types.UID
	// Kind and Name are for people, and for finding the object again.
	Kind OwnerKind
	Name string
}

// ErrDeleted reports a change for an owner that was deleted. Nothing was changed.
var ErrDeleted = errors.New("the object that the rows belong to was deleted")

// ErrNoOwner is what a change returns that has found no row of its owner which is not marked as deleted.
var ErrNoOwner = errors.New("the owner has no row")

// Change carries out a change for an owner. The change must find the owner's row, and return ErrNoOwner without one.
// The row is then written, and the change tried again. The error is ErrDeleted for an owner that was deleted.
func (d *DB) Change(ctx context.Context, o Owner, change Run) error {
	missing := false
	run := func(ctx context.Context, conn *pgx.Conn) error {
		err := change(ctx, conn)
		missing = errors.Is(err, ErrNoOwner)
		if missing {
			return nil
		}
		return err
	}
	if err := d.Write(ctx, o.Namespace, run); err != nil || !missing {
		return err
	}
	if err := d.addOwner(ctx, o); err != nil {
		return err
	}
	if err := d.Write(ctx, o.Namespace, run); err != nil || !missing {
		return err
	}
	return ErrDeleted
}

// addOwner writes the row of an owner, unless there is one.
func (d *DB) addOwner(ctx context.Context, o Owner) error {
	return d.Write(ctx, o.Namespace, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `
			INSERT INTO capstan.owners (namespace, uid, kind, name) VALUES ($1, $2, $3, $4)
			ON CONFLICT (namespace, uid) DO NOTHING`, o.Namespace, string(o.UID), string(o.Kind), o.Name)
		return err
	})
}

// deletedRows bounds the rows that one statement deletes, so that it ends long before its time-out: a row may have a
// mebibyte.
const deletedRows = 100

// The statements that delete the rows of an owner, a bounded number each.
var deletions = []string{
	`DELETE FROM capstan.journal_entries WHERE ctid = ANY (ARRAY(
		SELECT e.ctid FROM capstan.journal_entries e JOIN capstan.owners o ON o.id = e.owner
		WHERE o.namespace = $1 AND o.uid = $2 AND o.deleted_at IS NOT NULL LIMIT $3))`,
	`DELETE FROM capstan.record_indexes WHERE ctid = ANY (ARRAY(
		SELECT i.ctid FROM capstan.record_indexes i JOIN capstan.owners o ON o.id = i.owner
		WHERE o.namespace = $1 AND o.uid = $2 AND o.deleted_at IS NOT NULL LIMIT $3))`,
	`DELETE FROM capstan.record_blobs WHERE ctid = ANY (ARRAY(
		SELECT b.ctid FROM capstan.record_blobs b JOIN capstan.owners o ON o.id = b.owner
		WHERE o.namespace = $1 AND o.uid = $2 AND o.deleted_at IS NOT NULL LIMIT $3))`,
}

// Delete deletes all rows of an owner, and refuses those that are written later. It returns how many it has deleted,
// and may be called again after an error.
func (d *DB) Delete(ctx context.Context, namespace string, uid types.UID) (rows int64, err error) {
	fail := func(err error) (int64, error) {
		return rows, fmt.Errorf("deleting the rows of the object with UID %s in namespace %s: %w", uid, namespace, err)
	}
	err = d.Write(ctx, namespace, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `
			UPDATE capstan.owners SET deleted_at = now()
			WHERE namespace = $1 AND uid = $2 AND deleted_at IS NULL`, namespace, string(uid))
		return err
	})
	if err != nil {
		return fail(err)
	}
	for _, statement := range deletions {
		for deleted := int64(deletedRows); deleted == deletedRows; {
			err := d.Write(ctx, namespace, func(ctx context.Context, conn *pgx.Conn) error {
				tag, err := conn.Exec(ctx, statement, namespace, string(uid), deletedRows)
				deleted = tag.RowsAffected()
				return err
			})
			if err != nil {
				return fail(err)
			}
			rows += deleted
		}
	}
	return rows, nil
}

// The statements that list owners, a page each. Both are read from an index.
const (
	listOwners = `
		SELECT namespace, uid, kind, name FROM capstan.owners
		WHERE deleted_at IS NULL AND created_at < $1 AND (namespace, uid) > ($2, $3)
		ORDER BY namespace, uid LIMIT $4`
	listDeleted = `
		SELECT namespace, uid, kind, name FROM capstan.owners WHERE deleted_at < $1 ORDER BY deleted_at LIMIT $2`
)

// Owners returns at most so many owners that were not deleted and have had a row since before a time, in the order of
// their namespaces and UIDs behind one.
func (d *DB) Owners(ctx context.Context, before time.Time, behind Owner, limit int) ([]Owner, error) {
	owners, err := d.list(ctx, listOwners, before, behind.Namespace, string(behind.UID), limit)
	if err != nil {
		return nil, fmt.Errorf("listing the objects with rows: %w", err)
	}
	return owners, nil
}

// Deleted returns at most so many owners that were deleted before a time.
func (d *DB) Deleted(ctx context.Context, before time.Time, limit int) ([]Owner, error) {
	owners, err := d.list(ctx, listDeleted, before, limit)
	if err != nil {
		return nil, fmt.Errorf("listing the objects that were deleted: %w", err)
	}
	return owners, nil
}

func (d *DB) list(ctx context.Context, statement string, arguments ...any) (owners []Owner, err error) {
	err = d.Read(ctx, "", func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, statement, arguments...)
		if err != nil {
			return err
		}
		owners, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (Owner, error) {
			var o Owner
			err := row.Scan(&o.Namespace, &o.UID, &o.Kind, &o.Name)
			return o, err
		})
		return err
	})
	return owners, err
}

// Forget deletes the row of an owner that was deleted, with what is left of its other rows.
func (d *DB) Forget(ctx context.Context, namespace string, uid types.UID) error {
	if _, err := d.Delete(ctx, namespace, uid); err != nil {
		return err
	}
	err := d.Write(ctx, namespace, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `
			DELETE FROM capstan.owners WHERE namespace = $1 AND uid = $2 AND deleted_at IS NOT NULL`,
			namespace, string(uid))
		return err
	})
	if err != nil {
		return fmt.Errorf("forgetting the object with UID %s in namespace %s: %w", uid, namespace, err)
	}
	return nil
}

// Owned reports whether the database knows an object, also if it was deleted.
func (d *DB) Owned(ctx context.Context, namespace string, uid types.UID) (bool, error) {
	var owned bool
	err := d.Read(ctx, namespace, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM capstan.owners WHERE namespace = $1 AND uid = $2)`,
			namespace, string(uid)).Scan(&owned)
	})
	return owned, err
}
