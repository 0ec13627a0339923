package controller

import (
	"fmt"
	"slices"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/stores"
	journalpostgres "github.com/capstan-dev/capstan/internal/runtime/journal/postgres"
	"github.com/capstan-dev/capstan/internal/runtime/postgres"
	recordpostgres "github.com/capstan-dev/capstan/internal/runtime/record/postgres"
)

// DatabaseOptions are the settings of the database of journals and records.
type DatabaseOptions struct {
	// DB is the database, whose schema is up to date; nil for none.
	DB *postgres.DB
	// Reader is the same database with an account that may only read, for those who follow journals; nil for DB.
	Reader *postgres.DB
	// Default reports whether new Sessions use it.
	Default bool
	// Retention is how long a Session that was deleted is remembered. Default 24h.
	Retention time.Duration
	// Namespaces are those that the manager serves; empty for all.
	Namespaces []string
}

// router returns the backends of Sessions, and the collector of what the database has of those that are gone: nil
// without a database.
func (o Options) router(mgr ctrl.Manager) (*stores.Router, *stores.Collector, error) {
	router := &stores.Router{
		Sessions: mgr.GetClient(), Backends: map[v1alpha1.SessionStore]stores.Backend{
			v1alpha1.SessionStoreKubernetes: {Journal: o.Store, Records: o.Records},
		},
	}
	db := o.Database.DB
	if db == nil {
		return router, nil, nil
	}
	router.Owned = db.Owned
	backend := stores.Backend{Journal: journalpostgres.New(db), Records: recordpostgres.New(db)}
	measured := stores.Connections{stores.PoolTurns: db}
	if reader := o.Database.Reader; reader != nil {
		backend.Follow = journalpostgres.New(reader)
		measured[stores.PoolStreams] = reader
	}
	if o.Metrics != nil {
		if err := o.Metrics.Register(measured); err != nil {
			return nil, nil, fmt.Errorf("registering the metrics of the database: %w", err)
		}
	}
	router.Backends[v1alpha1.SessionStorePostgres] = backend
	namespaces := o.Database.Namespaces
	collector := stores.NewCollector(stores.Collector{
		Database: db, Cached: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: o.Clock, Retention: o.Database.Retention,
		Serves: func(namespace string) bool { return len(namespaces) == 0 || slices.Contains(namespaces, namespace) },
	})
	if err := mgr.Add(collector); err != nil {
		return nil, nil, fmt.Errorf("adding the collector of rows: %w", err)
	}
	return router, collector, nil
}

// newSessions is the store of new Sessions.
func (o Options) newSessions() v1alpha1.SessionStore {
	if o.Database.DB != nil && o.Database.Default {
		return v1alpha1.SessionStorePostgres
	}
	return v1alpha1.SessionStoreKubernetes
}
