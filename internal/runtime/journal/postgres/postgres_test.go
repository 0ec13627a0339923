package postgres_test

import (
	"os"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/journaltest"
	journalpostgres "github.com/capstan-dev/capstan/internal/runtime/journal/postgres"
	"github.com/capstan-dev/capstan/internal/runtime/postgres"
	testserver "github.com/capstan-dev/capstan/internal/testing/postgres"
)

var server *testserver.Server

func TestMain(m *testing.M) {
	os.Exit(testserver.Run(m, testserver.Options{}, func(s *testserver.Server) { server = s }))
}

// open returns a database of a test.
func open(t *testing.T, connection string) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(t.Context(), postgres.Config{Connection: connection, TLS: postgres.TLSDisabled})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	if err := db.Migrate(t.Context(), "test-cluster"); err != nil {
		t.Fatal(err)
	}
	return db
}

func TestPostgresIsALog(t *testing.T) {
	connection, _ := server.Database(t)
	db := open(t, connection)
	journaltest.Run(t, func(*testing.T) journal.Store { return journalpostgres.New(db) })
}
