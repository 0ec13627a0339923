package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capstan-dev/capstan/internal/controller"
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
	reader    readerOptions
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
	d.reader.bind(flags)
	flags.DurationVar(&d.retention, "postgres-retention", stores.DefaultRetention,
		"Remember a deleted Session in PostgreSQL for this time, at least 1h, so that late writes are refused. Rows of "+
			"Sessions whose deletion was missed are looked for once a day, when they are older.")
}

func (d *databaseOptions) validate() error {
	if d.store != storeKubernetes && d.store != storePostgres {
		return fmt.Errorf("invalid --store %q: must be kubernetes or postgres", d.store)
	}
	if d.config.Connection == "" {
		if d.reader.set() {
			return errors.New("--postgres-reader-connection and --postgres-reader-credentials require --postgres-connection")
		}
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
	if d.reader.set() {
		if err := d.reader.config(d.config).Validate(); err != nil {
			return fmt.Errorf("invalid settings of the reader of PostgreSQL: %w", err)
		}
	}
	return nil
}

// readerOptions are the settings of the connections of event streams.
type readerOptions struct {
	connection, credentials string
	connections             int
}

func (r *readerOptions) bind(flags *flag.FlagSet) {
	flags.StringVar(&r.connection, "postgres-reader-connection", "",
		"Read the events of streams from PostgreSQL by this connection string, whose account needs no right but to read. "+
			"The server must be that of --postgres-connection, and not a standby. Default: --postgres-connection.")
	flags.StringVar(&r.credentials, "postgres-reader-credentials", "",
		"Read the files username and password for these connections from this directory, for each new connection. "+
			"Default: without --postgres-reader-connection as well, event streams use the connections of Turns.")
	flags.IntVar(&r.connections, "postgres-reader-connections", defaultReaderConnections,
		"Use at most this many connections to PostgreSQL for event streams, 2 to 1000, beside those of Turns.")
}

// defaultReaderConnections are enough for a thousand streams: each reads what is new, once.
const defaultReaderConnections = 4

// set reports whether event streams have connections of their own.
func (r *readerOptions) set() bool { return r.connection != "" || r.credentials != "" }

// config returns the configuration of these connections. They change nothing, whatever their account may do.
func (r *readerOptions) config(of postgres.Config) postgres.Config {
	of.Connection = cmp.Or(r.connection, of.Connection)
	of.Credentials, of.MaxConnections, of.ReadOnly = r.credentials, r.connections, true
	return of
}

// openReader returns the database for event streams; nil if they have no connections of their own. It connects when a
// stream reads.
func (d *databaseOptions) openReader(ctx context.Context) (*postgres.DB, error) {
	if !d.reader.set() {
		return nil, nil
	}
	c := d.reader.config(d.config)
	c.Waited, c.Observe = shares.Waited(shares.ReaderConnections), stores.ObserveStatements(stores.PoolStreams)
	return postgres.Open(ctx, c)
}

// openDatabase configures the controllers with the database; it returns what closes it, and does nothing without one.
func (o *options) openDatabase(ctx context.Context, mgr ctrl.Manager) (closeAll func(), err error) {
	db, err := o.database.open(ctx, mgr)
	if err != nil || db == nil {
		return func() {}, err
	}
	reader, err := o.database.openReader(ctx)
	if err != nil {
		db.Close()
		return nil, err
	}
	o.controllers.Database = controller.DatabaseOptions{
		DB: db, Reader: reader, Default: o.database.store == storePostgres, Retention: o.database.retention,
		Namespaces: o.namespaces,
	}
	return func() {
		if reader != nil {
			reader.Close()
		}
		db.Close()
	}, nil
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
	d.config.Waited, d.config.Observe = shares.Waited(shares.Connections), stores.ObserveStatements(stores.PoolTurns)
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
