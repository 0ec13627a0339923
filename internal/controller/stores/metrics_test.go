package stores_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capstan-dev/capstan/internal/controller/stores"
	database "github.com/capstan-dev/capstan/internal/runtime/postgres"
	testserver "github.com/capstan-dev/capstan/internal/testing/postgres"
)

// statements returns how many statements of the pool of streams were counted, by operation and outcome.
func statements(t *testing.T) map[string]uint64 {
	t.Helper()
	families, err := metrics.Registry.(prometheus.Gatherer).Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]uint64{}
	for _, family := range families {
		if family.GetName() != "capstan_database_statement_duration_seconds" {
			continue
		}
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			if labels["pool"] == stores.PoolStreams {
				counts[labels["operation"]+" "+labels["outcome"]] = metric.GetHistogram().GetSampleCount()
			}
		}
	}
	return counts
}

// Statements and connections of a real server are measured, with labels that no name of an object reaches.
func TestStatementsAndConnectionsAreMeasured(t *testing.T) {
	server := testserver.Started(t, testserver.Options{})
	connection, name := server.Database(t)
	db, err := database.Open(t.Context(), database.Config{
		Connection: connection, TLS: database.TLSDisabled, MaxConnections: 3, StatementTimeout: 200 * time.Millisecond,
		Observe: stores.ObserveStatements(stores.PoolStreams),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	server.Exec(t, name, "CREATE TABLE held (n int)")
	before := statements(t)
	collector := stores.Connections{stores.PoolStreams: db}
	expect := func(inUse, idle string) {
		t.Helper()
		err := testutil.CollectAndCompare(collector, strings.NewReader(`
# HELP capstan_database_connections Connections to the database, by pool and state.
# TYPE capstan_database_connections gauge
capstan_database_connections{pool="streams",state="idle"} `+idle+`
capstan_database_connections{pool="streams",state="in_use"} `+inUse+`
capstan_database_connections{pool="streams",state="opening"} 0
# HELP capstan_database_connections_limit The largest number of connections to the database, by pool.
# TYPE capstan_database_connections_limit gauge
capstan_database_connections_limit{pool="streams"} 3
# HELP capstan_database_connections_opened_total Connections to the database that were opened, by pool.
# TYPE capstan_database_connections_opened_total counter
capstan_database_connections_opened_total{pool="streams"} 1
`))
		if err != nil {
			t.Error(err)
		}
	}
	unlock := server.Lock(t, name, "held")
	for _, statement := range []string{
		"SELECT 1 WHERE false", "SELECT", "SELECT n FROM held", "SELECT n FROM missing",
		"SELECT 'x'::int",
	} {
		var n int
		_ = db.Read(t.Context(), "ns", func(ctx context.Context, conn *pgx.Conn) error {
			expect("1", "0")
			if statement == "SELECT" {
				_, err := conn.Exec(ctx, statement)
				return err
			}
			return conn.QueryRow(ctx, statement).Scan(&n)
		})
	}
	unlock()
	expect("0", "1")
	_ = db.Write(t.Context(), "ns", func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "SELECT pg_terminate_backend(pg_backend_pid())")
		return err
	})
	counted := statements(t)
	for labels, n := range before {
		counted[labels] -= n
	}
	want := map[string]uint64{
		"read done": 2, "read aborted": 1, "read refused": 1, "read invalid": 1, "write unknown": 1,
	}
	if !maps.Equal(counted, want) {
		t.Errorf("counted %v, want %v; labels %v", counted, want, slices.Sorted(maps.Keys(counted)))
	}
}
