package capstantest

import (
	"context"
	"fmt"

	"github.com/capstan-dev/capstan/internal/controller"
	"github.com/capstan-dev/capstan/internal/runtime/postgres"
)

// postgresCluster identifies the cluster of a kit to its database: kits that follow each other share it.
const postgresCluster = "capstantest"

// database returns the database of journals and records; the zero value for none. It is closed when the context ends.
func (o Options) database(ctx context.Context) (controller.DatabaseOptions, error) {
	if o.Postgres == "" {
		return controller.DatabaseOptions{}, nil
	}
	db, err := postgres.Open(ctx, postgres.Config{Connection: o.Postgres, TLS: postgres.TLSDisabled})
	if err != nil {
		return controller.DatabaseOptions{}, fmt.Errorf("opening the database: %w", err)
	}
	if err := db.Migrate(ctx, postgresCluster); err != nil {
		db.Close()
		return controller.DatabaseOptions{}, fmt.Errorf("preparing the database: %w", err)
	}
	context.AfterFunc(ctx, db.Close)
	of := controller.DatabaseOptions{DB: db, Default: true, Namespaces: o.Namespaces}
	if o.PostgresReader == "" {
		return of, nil
	}
	of.Reader, err = postgres.Open(ctx, postgres.Config{
		Connection: o.PostgresReader, TLS: postgres.TLSDisabled, ReadOnly: true,
	})
	if err != nil {
		return controller.DatabaseOptions{}, fmt.Errorf("opening the database for streams: %w", err)
	}
	context.AfterFunc(ctx, of.Reader.Close)
	return of, nil
}
