package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations/*.sql
var migrations embed.FS

const (
	// versions is the table of the versions of the schema.
	versions = "capstan.schema_versions"
	// migrationLock is the advisory lock of the managers that migrate at once.
	migrationLock = 0x6361707374616e
)

// ErrOtherInstallation reports a database that has the data of another installation.
var ErrOtherInstallation = errors.New("the database belongs to another installation")

// Migrate brings the schema up to the version of this build, each step in a transaction, and claims the database for an
// installation, which is named by the UID of its cluster. Managers that do so at once take turns. A schema of a later
// build is left as it is: a release can be used with the schema of the one after it.
func (d *DB) Migrate(ctx context.Context, cluster string) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return fmt.Errorf("reading the migrations: %w", err)
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(migrationLock), lock.WithLockTimeout(1, 60))
	if err != nil {
		return fmt.Errorf("configuring the migrations: %w", err)
	}
	db := stdlib.OpenDBFromPool(d.pool)
	defer func() { _ = db.Close() }() // The pool has the connections.
	// The version table is read first, so that an account without the right to change the schema can be used.
	current, err := schemaVersion(ctx, db)
	if err != nil {
		return fmt.Errorf("reading the version of the schema: %w", newError(err))
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files,
		goose.WithTableName(versions), goose.WithSessionLocker(locker), goose.WithDisableGlobalRegistry(true),
		goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return fmt.Errorf("reading the migrations: %w", err)
	}
	if sources := provider.ListSources(); current < sources[len(sources)-1].Version {
		if err := up(ctx, db, provider); err != nil {
			return fmt.Errorf("migrating the schema: %w", newError(err))
		}
	}
	return d.claim(ctx, cluster)
}

// up carries out the migrations that are missing.
func up(ctx context.Context, db *sql.DB, provider *goose.Provider) error {
	// The table of versions is in the schema. Another manager may create it at the same moment.
	_, err := db.ExecContext(ctx, `CREATE SCHEMA IF NOT EXISTS capstan`)
	var server *pgconn.PgError
	if errors.As(err, &server) && (server.Code == "23505" || server.Code == "42P06") {
		err = nil
	}
	if err == nil {
		_, err = provider.Up(ctx)
	}
	return err
}

// schemaVersion returns the version of the schema; 0 for a database without one.
func schemaVersion(ctx context.Context, db *sql.DB) (int64, error) {
	var exists bool
	err := db.QueryRowContext(ctx, `SELECT to_regclass($1) IS NOT NULL`, versions).Scan(&exists)
	if err != nil || !exists {
		return 0, err
	}
	var version int64
	err = db.QueryRowContext(ctx,
		`SELECT coalesce(max(version_id), 0) FROM capstan.schema_versions WHERE is_applied`).Scan(&version)
	return version, err
}

// claim makes the database that of an installation.
func (d *DB) claim(ctx context.Context, cluster string) error {
	var of string
	err := d.Write(ctx, "", func(ctx context.Context, conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx,
			`INSERT INTO capstan.installation (cluster) VALUES ($1) ON CONFLICT DO NOTHING`, cluster); err != nil {
			return err
		}
		return conn.QueryRow(ctx, `SELECT cluster FROM capstan.installation`).Scan(&of)
	})
	switch {
	case err != nil:
		return fmt.Errorf("claiming the database: %w", err)
	case of != cluster:
		return fmt.Errorf("%w: that of the cluster %s, not %s", ErrOtherInstallation, of, cluster)
	}
	return nil
}
