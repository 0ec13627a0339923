// Package postgres runs the tests of a package on a PostgreSQL server: Debian's, or the one in PATH.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// superuser is the first account of every server. It may connect without a password.
const superuser = "postgres"

// startTimeout bounds the start and the end of a server.
const startTimeout = time.Minute

// Server is a PostgreSQL server with a directory of its own.
type Server struct {
	binaries string
	account  *syscall.Credential
	dir      string
	port     int
	settings []string

	process *exec.Cmd
	ended   chan struct{}
	count   atomic.Int64
}

// Options of a Server.
type Options struct {
	// Durable keeps what is committed when the server or the machine ends. Without it, tests are faster.
	Durable bool
	// Settings are further ones of the server, as name=value.
	Settings []string
}

// Run starts a server, passes it to use, runs the tests and returns the exit code of the process.
func Run(m *testing.M, o Options, use func(*Server)) int {
	code, err := run(m, o, use)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func run(m *testing.M, o Options, use func(*Server)) (code int, err error) {
	s, err := New(o)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Remove()) }()
	if err := s.Start(); err != nil {
		return 0, err
	}
	use(s)
	return m.Run(), nil
}

// Started returns a server of a test, which ends with it.
func Started(t testing.TB, o Options) *Server {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Remove(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	return s
}

// New returns a server that has not started, with an empty directory of data.
func New(o Options) (*Server, error) {
	s, err := prepare(o)
	if err != nil {
		return nil, err
	}
	out, err := s.command("initdb", "--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C",
		"--username="+superuser, "--pgdata="+s.data()).CombinedOutput()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("creating a PostgreSQL server: %w: %s", err, out), s.Remove())
	}
	rules := "local all all trust\nhost all " + superuser + " 127.0.0.1/32 trust\n" +
		"host all all 127.0.0.1/32 scram-sha-256\nhost replication all 127.0.0.1/32 trust\n" +
		"local replication all trust\n"
	if err := s.write("pg_hba.conf", rules, 0o600); err != nil {
		return nil, errors.Join(err, s.Remove())
	}
	return s, nil
}

// prepare finds the programs and makes the directory of a server.
func prepare(o Options) (*Server, error) {
	binaries, err := findBinaries()
	if err != nil {
		return nil, err
	}
	account, err := findAccount()
	if err != nil {
		return nil, err
	}
	// The directory of a test may be closed to other accounts, and the path of a socket must be short.
	dir, err := os.MkdirTemp("", "pg-")
	if err != nil {
		return nil, fmt.Errorf("creating the directory of a PostgreSQL server: %w", err)
	}
	s := &Server{binaries: binaries, account: account, dir: dir, settings: o.Settings}
	if !o.Durable {
		s.settings = append([]string{"fsync=off", "full_page_writes=off"}, s.settings...)
	}
	if err := s.own(dir); err != nil {
		return nil, errors.Join(err, s.Remove())
	}
	s.port, err = freePort()
	return s, err
}

// findBinaries returns the directory of PostgreSQL's programs.
func findBinaries() (string, error) {
	complete := func(dir string) bool {
		for _, name := range []string{"postgres", "initdb", "pg_basebackup", "pg_dump", "pg_restore"} {
			if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode()&0o111 == 0 {
				return false
			}
		}
		return true
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil && complete(filepath.Dir(path)) {
			return filepath.Dir(path), nil
		}
	}
	dirs, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", fmt.Errorf("looking for PostgreSQL: %w", err)
	}
	version := func(dir string) int {
		number, _ := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
		return number
	}
	slices.SortFunc(dirs, func(a, b string) int { return version(b) - version(a) })
	for _, dir := range dirs {
		if complete(dir) {
			return dir, nil
		}
	}
	return "", errors.New("these tests need a PostgreSQL server: install Debian's package postgresql, or run " +
		"hack/postgres.sh as root, which does so")
}

// findAccount returns the account that the server runs under; nil for that of the tests. The server refuses root.
func findAccount() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.ParseUint(found.Uid, 10, 32)
		gid, errGID := strconv.ParseUint(found.Gid, 10, 32)
		if err := errors.Join(errUID, errGID); err != nil {
			return nil, fmt.Errorf("reading the account %s: %w", name, err)
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("PostgreSQL does not run as root, and the accounts postgres and nobody do not exist")
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("looking for a free port: %w", err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil //nolint:forcetypeassert // of a TCP listener
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// own gives a file to the account of the server.
func (s *Server) own(path string) error {
	if s.account == nil {
		return nil
	}
	if err := os.Chown(path, int(s.account.Uid), int(s.account.Gid)); err != nil {
		return fmt.Errorf("giving a file to PostgreSQL: %w", err)
	}
	return nil
}

// write writes a file into the directory of data, and returns its path.
func (s *Server) write(name, content string, mode fs.FileMode) error {
	path := filepath.Join(s.data(), name)
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		return fmt.Errorf("configuring PostgreSQL: %w", err)
	}
	return s.own(path)
}

// command is a program of PostgreSQL, run under the account of the server.
func (s *Server) command(name string, arguments ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.binaries, name), arguments...)
	cmd.Dir = s.dir
	cmd.Env = []string{"LC_ALL=C", "TZ=UTC", "PATH=" + s.binaries + ":/usr/bin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.account}
	return cmd
}

// errStillThere is the error of a start while processes of a killed server are still there.
var errStillThere = errors.New("processes of the killed server have not ended")

// Start starts the server and waits until it accepts connections.
func (s *Server) Start() error {
	for deadline := time.Now().Add(startTimeout); ; {
		err := s.start()
		if !errors.Is(err, errStillThere) || time.Now().After(deadline) {
			return err
		}
		<-time.After(10 * time.Millisecond)
	}
}

func (s *Server) start() error {
	arguments := []string{
		"-D", s.data(), "-k", s.dir, "-h", "127.0.0.1", "-p", strconv.Itoa(s.port), "-c", "max_connections=200",
	}
	for _, setting := range s.settings {
		arguments = append(arguments, "-c", setting)
	}
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("starting PostgreSQL: %w", err)
	}
	defer log.Close()
	s.process = s.command("postgres", arguments...)
	s.process.Stdout, s.process.Stderr = log, log
	if err := s.launch(); err != nil {
		return fmt.Errorf("starting PostgreSQL: %w", err)
	}
	for deadline := time.Now().Add(startTimeout); ; {
		conn, err := pgx.Connect(context.Background(), s.socket(superuser, "postgres"))
		if err == nil {
			return conn.Close(context.Background())
		}
		select {
		case <-s.ended:
			log := s.Log()
			lines := strings.Split(strings.TrimSpace(log), "\n")
			if strings.Contains(strings.Join(lines[max(0, len(lines)-3):], "\n"), "is still in use") {
				return errStillThere
			}
			return fmt.Errorf("starting PostgreSQL: it has ended: %s", log)
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("starting PostgreSQL: %w: %s", err, s.Log())
		}
	}
}

// launch starts the process, from a thread that lives as long: the server ends with the process of the tests.
func (s *Server) launch() error {
	started, ended := make(chan error), make(chan struct{})
	s.ended = ended
	process := s.process
	process.SysProcAttr.Pdeathsig = syscall.SIGQUIT
	go func() {
		runtime.LockOSThread()
		defer close(ended)
		err := process.Start()
		started <- err
		if err == nil {
			_ = process.Wait()
		}
	}()
	return <-started
}

// Log is what the server has logged.
func (s *Server) Log() string {
	content, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(content)
}

// Stop ends the server as an administrator does: open transactions are aborted, and what is committed is kept.
func (s *Server) Stop() error { return s.signal(syscall.SIGINT) }

// Kill ends all processes of the server at once, as a crash does.
func (s *Server) Kill() error {
	if s.process == nil {
		return nil
	}
	// The others end once they see that the first one is gone.
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", s.process.Process.Pid, s.process.Process.Pid))
	if err != nil {
		return fmt.Errorf("listing the processes of PostgreSQL: %w", err)
	}
	if err := s.signal(syscall.SIGKILL); err != nil {
		return err
	}
	for _, text := range strings.Fields(string(children)) {
		if pid, err := strconv.Atoi(text); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return nil
}

func (s *Server) signal(signal syscall.Signal) error {
	if s.process == nil {
		return nil
	}
	if err := s.process.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("ending PostgreSQL: %w", err)
	}
	select {
	case <-s.ended:
		s.process = nil
		return nil
	case <-time.After(startTimeout):
		return fmt.Errorf("PostgreSQL has not ended: %s", s.Log())
	}
}

// Remove ends the server and deletes its directory.
func (s *Server) Remove() error {
	err := s.signal(syscall.SIGQUIT)
	return errors.Join(err, os.RemoveAll(s.dir))
}

// Address is where the server listens besides its socket.
func (s *Server) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// socket is a connection string for an account, which needs no password.
func (s *Server) socket(account, database string) string {
	return fmt.Sprintf("host=%s port=%d user=%s dbname=%s", s.dir, s.port, account, database)
}

// Database creates a database, and returns its connection string for the superuser, and its name.
func (s *Server) Database(t testing.TB) (connection, name string) {
	t.Helper()
	name = fmt.Sprintf("test%d", s.count.Add(1))
	s.Exec(t, "postgres", "CREATE DATABASE "+name)
	return s.socket(superuser, name), name
}

// Connection is the connection string of an account for a database, over the socket of the server.
func (s *Server) Connection(account, database string) string { return s.socket(account, database) }

// Exec runs statements as the superuser.
func (s *Server) Exec(t testing.TB, database string, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), s.socket(superuser, database))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	for _, statement := range statements {
		if _, err := conn.Exec(context.Background(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// QueryText returns the first column of the one row that a statement of the superuser returns, as text.
func (s *Server) QueryText(t testing.TB, database, statement string) string {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), s.socket(superuser, database))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	var text string
	if err := conn.QueryRow(context.Background(), statement).Scan(&text); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return text
}

// Program runs a program of PostgreSQL under the account of the server, with an input.
func (s *Server) Program(t testing.TB, input io.Reader, name string, arguments ...string) []byte {
	t.Helper()
	cmd := s.command(name, arguments...)
	cmd.Stdin = input
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s", name, err, problems.String())
	}
	return out
}

// Lock locks a table against all uses until unlock is called.
func (s *Server) Lock(t testing.TB, database, table string) (unlock func()) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.socket(superuser, database))
	if err != nil {
		t.Fatal(err)
	}
	unlock = func() { _ = conn.Close(ctx) }
	t.Cleanup(unlock)
	for _, statement := range []string{"BEGIN", "LOCK TABLE " + table + " IN ACCESS EXCLUSIVE MODE"} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	return unlock
}

// EnableTLS makes the server accept TLS with a certificate and its key, as PEM.
func (s *Server) EnableTLS(t testing.TB, certificate, key []byte) {
	t.Helper()
	if err := errors.Join(s.write("server.crt", string(certificate), 0o600),
		s.write("server.key", string(key), 0o600)); err != nil {
		t.Fatal(err)
	}
	s.Exec(t, "postgres", "ALTER SYSTEM SET ssl = on", "SELECT pg_reload_conf()")
	// A connection shows whether the file was read.
	s.WaitFor(t, "postgres", "SELECT current_setting('ssl')", "on")
}
