package postgres

import (
	"fmt"
	"testing"
	"time"
)

// Replica returns a server that streams the changes of this one, under the name replica. It ends with the test.
func (s *Server) Replica(t testing.TB) *Server {
	t.Helper()
	replica, err := prepare(Options{Durable: true, Settings: s.settings})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := replica.Remove(); err != nil {
			t.Error(err)
		}
	})
	from := fmt.Sprintf("host=%s port=%d user=%s application_name=replica", s.dir, s.port, superuser)
	out, err := replica.command("pg_basebackup", "--pgdata="+replica.data(), "--dbname="+from, "--write-recovery-conf",
		"--checkpoint=fast", "--wal-method=stream", "--no-sync").CombinedOutput()
	if err != nil {
		t.Fatalf("copying a server: %v: %s", err, out)
	}
	if err := replica.Start(); err != nil {
		t.Fatal(err)
	}
	return replica
}

// Promote makes a replica a server that accepts changes.
func (s *Server) Promote(t testing.TB) {
	t.Helper()
	s.Exec(t, "postgres", "SELECT pg_promote(true, 60)")
}

// WaitFor waits until a statement of the superuser returns a text. No row and NULL are an empty one: a server that has
// just started has no row of a replica that has not connected yet, for example.
func (s *Server) WaitFor(t testing.TB, database, statement, want string) {
	t.Helper()
	statement = "SELECT coalesce((" + statement + ")::text, '')"
	for deadline := time.Now().Add(startTimeout); ; {
		got := s.QueryText(t, database, statement)
		if got == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s returns %q, not %q", statement, got, want)
		}
		<-time.After(10 * time.Millisecond)
	}
}
