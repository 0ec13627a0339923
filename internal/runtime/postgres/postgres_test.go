package postgres_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	journalpostgres "github.com/capstan-dev/capstan/internal/runtime/journal/postgres"
	"github.com/capstan-dev/capstan/internal/runtime/postgres"
	testserver "github.com/capstan-dev/capstan/internal/testing/postgres"
)

var server *testserver.Server

func TestMain(m *testing.M) {
	os.Exit(testserver.Run(m, testserver.Options{}, func(s *testserver.Server) { server = s }))
}

// open returns a database for a configuration, without TLS unless it is set.
func open(t *testing.T, c postgres.Config) *postgres.DB {
	t.Helper()
	if c.TLS == "" {
		c.TLS = postgres.TLSDisabled
	}
	db, err := postgres.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

// migrated returns a database with its schema.
func migrated(t *testing.T) (*postgres.DB, string) {
	t.Helper()
	connection, name := server.Database(t)
	db := open(t, postgres.Config{Connection: connection})
	if err := db.Migrate(t.Context(), "cluster"); err != nil {
		t.Fatal(err)
	}
	return db, name
}

func ping(t *testing.T, db *postgres.DB) error {
	t.Helper()
	return db.Read(t.Context(), "default", func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "SELECT 1")
		return err
	})
}

func TestAConnectionStringHasNoSecretAndNoSettingsOfTLS(t *testing.T) {
	for text, valid := range map[string]bool{
		"postgres://capstan@db.example:5432/capstan":                true,
		"postgresql://capstan@a.example,b.example:5433/capstan":     true,
		"postgres://a.example:5432,b.example:5433/capstan":          true,
		"host=db.example,other.example user=capstan dbname=capstan": true,
		"":                                       false,
		"postgres://capstan:secret@db.example/c": false,
		"postgres://db.example/c?password=secret": false,
		"postgres://db.example/c?sslmode=disable": false,
		"host=db.example password=secret":         false,
		"host=db.example password = secret":       false,
		"host=db.example sslmode=disable":         false,
		"host=db.example options='-c x=y'":        false,
		"postgres://capstan@db.example:port/c":    false,
	} {
		err := postgres.Config{Connection: text}.Validate()
		if (err == nil) != valid {
			t.Errorf("%q: %v", text, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error has the password: %v", err)
		}
	}
}

func TestManagersThatMigrateAtOnceAgree(t *testing.T) {
	connection, name := server.Database(t)
	var group sync.WaitGroup
	for range 4 {
		db := open(t, postgres.Config{Connection: connection})
		group.Go(func() {
			if err := db.Migrate(t.Context(), "cluster"); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if count := server.QueryText(t, name,
		"SELECT count(*)::text FROM capstan.schema_versions WHERE version_id = 1"); count != "1" {
		t.Fatalf("the first migration was carried out %s times", count)
	}
	err := open(t, postgres.Config{Connection: connection}).Migrate(t.Context(), "other")
	if !errors.Is(err, postgres.ErrOtherInstallation) {
		t.Fatalf("the database of another cluster: %v", err)
	}
}

// A release can be used with the schema of the one after it, and by an account that may not change the schema.
func TestAnAccountWithoutRightsOnTheSchemaIsEnough(t *testing.T) {
	_, name := migrated(t)
	role := "writer_" + name
	server.Exec(t, name, "CREATE ROLE "+role+" LOGIN", "GRANT USAGE ON SCHEMA capstan TO "+role,
		"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA capstan TO "+role,
		"INSERT INTO capstan.schema_versions (version_id, is_applied) VALUES (99999, true)")
	db := open(t, postgres.Config{Connection: server.Connection(role, name)})
	if err := db.Migrate(t.Context(), "cluster"); err != nil {
		t.Fatal(err)
	}
}

// Passwords and users are read for each new connection.
func TestCredentialsMayChange(t *testing.T) {
	_, name := server.Database(t)
	role := "rotated_" + name
	server.Exec(t, name, "CREATE ROLE "+role+" LOGIN PASSWORD 'first'")
	dir := t.TempDir()
	write := func(file, content string) {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("username", role+"\n")
	write("password", "first\n")
	host, port, err := net.SplitHostPort(server.Address())
	if err != nil {
		t.Fatal(err)
	}
	db := open(t, postgres.Config{
		Connection: fmt.Sprintf("host=%s port=%s dbname=%s", host, port, name), Credentials: dir,
	})
	if err := ping(t, db); err != nil {
		t.Fatal(err)
	}
	disconnect := "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '" + role + "'"
	server.Exec(t, name, "ALTER ROLE "+role+" PASSWORD 'planted-secret'", disconnect)
	err = ping(t, db)
	if err == nil || strings.Contains(err.Error(), role) || strings.Contains(err.Error(), "first") {
		t.Fatalf("with the old password: %v", err)
	}
	write("password", "planted-secret")
	if err := ping(t, db); err != nil {
		t.Fatalf("with the new password: %v", err)
	}
}

// authority makes a certificate for a host, and returns the files of the certificate and of its key.
func authority(t *testing.T, host string) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

func TestTheServerIsVerifiedByAuthorityAndName(t *testing.T) {
	secure := testserver.Started(t, testserver.Options{})
	certificate, key := authority(t, "127.0.0.1")
	secure.EnableTLS(t, certificate, key)
	_, name := secure.Database(t)
	file := filepath.Join(t.TempDir(), "ca.crt")
	trust := func(content []byte) {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, port, err := net.SplitHostPort(secure.Address())
	if err != nil {
		t.Fatal(err)
	}
	connect := func(host, file string) error {
		return ping(t, open(t, postgres.Config{
			Connection: fmt.Sprintf("host=%s port=%s user=postgres dbname=%s", host, port, name),
			TLS:        postgres.TLSVerifyFull, AuthorityFile: file,
		}))
	}
	trust(certificate)
	if err := connect("127.0.0.1", file); err != nil {
		t.Errorf("the trusted authority: %v", err)
	}
	if err := connect("localhost", file); err == nil {
		t.Error("a certificate for another name was accepted")
	}
	if err := connect("127.0.0.1", ""); err == nil {
		t.Error("an authority that the system does not trust was accepted")
	}
	other, _ := authority(t, "127.0.0.1")
	trust(other)
	if err := connect("127.0.0.1", file); err == nil {
		t.Error("another authority was accepted")
	}
	plain := testserver.Started(t, testserver.Options{})
	_, port, err = net.SplitHostPort(plain.Address())
	if err != nil {
		t.Fatal(err)
	}
	trust(certificate)
	name = "postgres"
	if err := connect("127.0.0.1", file); err == nil {
		t.Error("a server without TLS was accepted")
	}
}

// A connection for readers changes nothing, whatever its account may do.
func TestAReadOnlyDatabaseChangesNothing(t *testing.T) {
	_, name := migrated(t)
	db := open(t, postgres.Config{Connection: server.Connection("postgres", name), ReadOnly: true})
	if err := ping(t, db); err != nil {
		t.Fatal(err)
	}
	_, err := db.Delete(t.Context(), "default", "uid")
	if err == nil || postgres.OutcomeOf(err) != postgres.OutcomeAborted {
		t.Fatalf("a change: %v", err)
	}
}

// One namespace does not get all connections: another one is served while the first one waits for a lock.
func TestANamespaceCannotTakeAllConnections(t *testing.T) {
	connection, name := server.Database(t)
	db := open(t, postgres.Config{Connection: connection, MaxConnections: 4, StatementTimeout: 20 * time.Second})
	if err := db.Migrate(t.Context(), "cluster"); err != nil {
		t.Fatal(err)
	}
	unlock := server.Lock(t, name, "capstan.record_blobs")
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			_ = db.Read(ctx, "greedy", func(ctx context.Context, conn *pgx.Conn) error {
				_, err := conn.Exec(ctx, "SELECT count(*) FROM capstan.record_blobs")
				return err
			})
		})
	}
	server.WaitFor(t, name, "SELECT (count(*) = 3)::text FROM pg_locks WHERE NOT granted", "true")
	for range 10 {
		if err := ping(t, db); err != nil {
			t.Errorf("another namespace: %v", err)
		}
	}
	if waiting := db.Places().Waiting(); waiting != 17 {
		t.Errorf("%d statements wait", waiting)
	}
	cancel()
	unlock()
	group.Wait()
}

// Two transactions that lock two rows in opposite orders both succeed: the server aborts one, which is tried again.
func TestADeadlockIsResolved(t *testing.T) {
	db, name := migrated(t)
	server.Exec(t, name, "CREATE TABLE pair (id int PRIMARY KEY, n int)", "INSERT INTO pair VALUES (1, 0), (2, 0)",
		"ALTER DATABASE "+name+" SET deadlock_timeout = '50ms'")
	both := make(chan struct{}, 2)
	var together sync.WaitGroup
	together.Add(2)
	var group sync.WaitGroup
	for _, order := range [][]int{{1, 2}, {2, 1}} {
		group.Go(func() {
			first := true
			err := db.Write(t.Context(), "default", func(ctx context.Context, conn *pgx.Conn) error {
				return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
					for _, id := range order {
						if _, err := tx.Exec(ctx, "UPDATE pair SET n = n + 1 WHERE id = $1", id); err != nil {
							return err
						}
						if first {
							first = false
							together.Done()
							together.Wait()
						}
					}
					return nil
				})
			})
			if err != nil {
				t.Error(err)
			}
			both <- struct{}{}
		})
	}
	group.Wait()
	if sum := server.QueryText(t, name, "SELECT sum(n)::text FROM pair"); sum != "4" {
		t.Fatalf("the rows were changed %s times", sum)
	}
	if !strings.Contains(server.Log(), "deadlock detected") {
		t.Fatal("there was no deadlock")
	}
}

// A call waits for a connection no longer than its context.
func TestACallEndsWithItsContext(t *testing.T) {
	db, _ := migrated(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := db.Write(ctx, "default", func(context.Context, *pgx.Conn) error {
		t.Error("a cancelled call has begun")
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// The account that docs/postgres.md sets up owns its database and nothing else; a second one with the same rights takes
// its place.
func TestTheAccountsOfTheDocumentation(t *testing.T) {
	server.Exec(t, "postgres", "CREATE ROLE capstan LOGIN", "CREATE DATABASE documented OWNER capstan",
		"REVOKE ALL ON DATABASE documented FROM PUBLIC", "CREATE ROLE capstan_2 LOGIN", "GRANT capstan TO capstan_2",
		"ALTER ROLE capstan_2 SET role = capstan")
	s := sessionOf("default", "demo")
	for i, account := range []string{"capstan", "capstan_2"} {
		db := open(t, postgres.Config{Connection: server.Connection(account, "documented")})
		if err := db.Migrate(t.Context(), "cluster"); err != nil {
			t.Fatalf("%s: %v", account, err)
		}
		if err := journalpostgres.New(db).Create(t.Context(), s, entry(int64(i+1))); err != nil {
			t.Errorf("%s: %v", account, err)
		}
		if _, err := db.Delete(t.Context(), "default", "other"); err != nil {
			t.Errorf("%s: %v", account, err)
		}
	}
	if owned, err := open(t, postgres.Config{Connection: server.Connection("capstan_2", "documented")}).
		Owned(t.Context(), "default", s.UID); err != nil || !owned {
		t.Errorf("the Session is not known: %v", err)
	}
}
