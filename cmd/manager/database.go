package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capstan-dev/capstan/internal/controller/shares"
	"github.com/capstan-dev/capstan/internal/controller/stores"
	"github.com/capstan-dev/capstan/internal/runtime/postgres"
)

// The values of --store.
const (
	storeKubernetes = "kubernetes"
	storePostgres   = "postgres"
)

// databaseOptions are the settings of the store of journals and records.
type databaseOptions struct {
	store     string
	config    postgres.Config
	plain     bool
	retention time.Duration
}

func (d *databaseOptions) bind(flags *flag.FlagSet) {
	flags.StringVar(&d.store, "store", storeKubernetes,
		"Keep the journals and records of new Sessions in kubernetes or in postgres. Those of other Sessions stay where "+
			"their status.store names them.")
	flags.StringVar(&d.config.Connection, "postgres-connection", "",
		"Connect to PostgreSQL by this connection string, such as postgres://capstan@db.example/capstan, without a "+
			"password and without settings of TLS. Default: no database.")
	flags.StringVar(&d.config.Credentials, "postgres-credentials", "",
		"Read the files username and password for PostgreSQL from this directory, for each new connection. Default: none.")
	flags.StringVar(&d.config.AuthorityFile, "postgres-ca", "",
		"Trust the authorities in this PEM file for PostgreSQL. It is read for each new connection. Default: those of the "+
			"system.")
	flags.BoolVar(&d.plain, "postgres-plaintext", false,
		"Connect to PostgreSQL without TLS. Without this flag, the certificate of the server is verified by authority and "+
			"host name.")
	flags.IntVar(&d.config.MaxConnections, "postgres-connections", postgres.DefaultMaxConnections,
		"Use at most this many connections to PostgreSQL, 2 to 1000, shared fairly between namespaces.")
	flags.DurationVar(&d.config.StatementTimeout, "postgres-statement-timeout", postgres.DefaultStatementTimeout,
		"Abort a statement in PostgreSQL after this time, 100ms to 1h.")
	flags.DurationVar(&d.retention, "postgres-retention", stores.DefaultRetention,
		"Remember a deleted Session in PostgreSQL for this time, at least 1h, so that late writes are refused. Rows of "+
			"Sessions whose deletion was missed are looked for once a day, when they are older.")
}

func (d *databaseOptions) validate() error {
	if d.store != storeKubernetes && d.store != storePostgres {
		return fmt.Errorf("invalid --store %q: must be kubernetes or postgres", d.store)
	}
	if d.config.Connection == "" {
		if d.store == storePostgres {
			return errors.New("--store=postgres requires --postgres-connection")
		}
		return nil
	}
	if d.retention < time.Hour {
		return fmt.Errorf("invalid --postgres-retention %s: must be at least 1h", d.retention)
	}
	if d.plain {
		d.config.TLS = postgres.TLSDisabled
	}
	if err := d.config.Validate(); err != nil {
		return fmt.Errorf("invalid settings of PostgreSQL: %w", err)
	}
	return nil
}

// open connects to the database and migrates its schema; it returns nil for none. The database belongs to the
// cluster, which the UID of namespace kube-system names.
func (d *databaseOptions) open(ctx context.Context, mgr ctrl.Manager) (*postgres.DB, error) {
	if d.config.Connection == "" {
		return nil, nil
	}
	var system corev1.Namespace
	if err := mgr.GetAPIReader().Get(ctx, types.NamespacedName{Name: metav1.NamespaceSystem}, &system); err != nil {
		return nil, fmt.Errorf("identifying the cluster for PostgreSQL: %w", err)
	}
	d.config.Waited = shares.Waited(shares.Connections)
	db, err := postgres.Open(ctx, d.config)
	if err != nil {
		return nil, err
	}
	if err := db.Migrate(ctx, string(system.UID)); err != nil {
		db.Close()
		return nil, fmt.Errorf("preparing PostgreSQL: %w", err)
	}
	return db, nil
}
