package postgres_test

import (
	"os"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/memory/memorytest"
	"github.com/capstan-dev/capstan/internal/runtime/postgres"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	recordpostgres "github.com/capstan-dev/capstan/internal/runtime/record/postgres"
	"github.com/capstan-dev/capstan/internal/runtime/record/recordtest"
	"github.com/capstan-dev/capstan/internal/runtime/sessionimage/imagetest"
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

func TestPostgresIsAStore(t *testing.T) {
	connection, _ := server.Database(t)
	db := open(t, connection)
	recordtest.Run(t, func(*testing.T) record.Objects { return recordpostgres.New(db) })
}

// Rules: SVC-03.
func TestPostgresKeepsMemories(t *testing.T) {
	connection, _ := server.Database(t)
	db := open(t, connection)
	memorytest.Run(t, func(*testing.T) record.Objects { return recordpostgres.New(db) })
}

// Rules: IMG-01.
func TestPostgresKeepsImages(t *testing.T) {
	connection, _ := server.Database(t)
	db := open(t, connection)
	imagetest.Run(t, func(*testing.T) record.Objects { return recordpostgres.New(db) })
}
