package perf_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	entries "github.com/capstan-dev/capstan/internal/runtime/journal/kubernetes"
	rows "github.com/capstan-dev/capstan/internal/runtime/journal/postgres"
	"github.com/capstan-dev/capstan/internal/runtime/postgres"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	database "github.com/capstan-dev/capstan/internal/testing/postgres"
)

const (
	// pastTurns are the Turns that each journal has, and coldSessions the Sessions that get a further one.
	pastTurns    = 10
	coldSessions = 20
	// perNamespace are the Sessions of one namespace.
	perNamespace = 1000
)

// manySessions is how many Sessions BenchmarkSessions has.
func manySessions() int {
	if n, err := strconv.Atoi(os.Getenv("CAPSTAN_SESSIONS")); err == nil && n > 0 {
		return n
	}
	return 1000
}

// BenchmarkSessions reports what a manager needs where there are many Sessions, whose journals have ten Turns each that
// are no objects any more: the time from its start until it is ready and until a first Turn has ended, its memory, and
// the time of a Turn in a Session whose journal it has to read ("cold"), of the next one there ("warm"), and their
// ratio. The journals are in the API server, or in PostgreSQL; the Sessions are objects in both. CAPSTAN_SESSIONS is
// their number. docs/limits.md has the figures.
//
// Run it with the assets of the suites: go test ./test/perf -run '^$' -bench Sessions -benchtime 1x -timeout 6h
func BenchmarkSessions(b *testing.B) {
	for _, store := range []string{"kubernetes", "postgres"} {
		b.Run(store, func(b *testing.B) {
			for b.Loop() {
				sessionsIn(b, store)
			}
		})
	}
}

func sessionsIn(b *testing.B, store string) {
	s := newBenchServer(b)
	past := s.past(b)
	m := &process{bench: s, arguments: []string{"--store=" + store}}
	writer, err := entries.ForConfig(m.prepare(b), nil)
	if err != nil {
		b.Fatal(err)
	}
	var journals journal.Store = writer
	if store == "postgres" {
		connection, _ := database.Started(b, database.Options{}).Database(b)
		m.arguments = append(m.arguments, "--postgres-connection="+connection, "--postgres-plaintext")
		db, err := postgres.Open(b.Context(), postgres.Config{Connection: connection, TLS: postgres.TLSDisabled})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(db.Close)
		journals = rows.New(db)
	}
	m.start(b)
	sessions := s.settled(b, manySessions())
	s.copied(b, journals, sessions, past)
	m.stop(b)

	began := time.Now()
	m.start(b)
	b.ReportMetric(time.Since(began).Seconds(), "s-ready")
	s.turn(b, &sessions[len(sessions)-1], "first")
	b.ReportMetric(time.Since(began).Seconds(), "s-first-turn")
	cold, warm := time.Duration(0), time.Duration(0)
	for n := range coldSessions {
		session := &sessions[n*(len(sessions)-1)/coldSessions]
		cold += s.turn(b, session, "cold")
		warm += s.turn(b, session, "warm")
	}
	b.ReportMetric(float64(cold.Milliseconds())/coldSessions, "ms-cold")
	b.ReportMetric(float64(warm.Milliseconds())/coldSessions, "ms-warm")
	b.ReportMetric(float64(cold)/float64(warm), "cold/warm")
	b.ReportMetric(m.memory(b), "MiB-manager")
	b.ReportMetric(float64(len(sessions)), "sessions")
	m.stop(b)
}

// past runs the Turns of a Session, and returns the entries of its journal.
func (s *benchServer) past(b *testing.B) []v1alpha1.JournalEntrySpec {
	b.Helper()
	kit := s.manager(b, nil)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.space}}
	for _, object := range append([]client.Object{namespace}, builder.Stage(s.space, builder.Script(words()))...) {
		if err := s.client.Create(b.Context(), object); err != nil {
			b.Fatal(err)
		}
	}
	session := builder.Session("template").In(s.space).Obj()
	if err := s.create(b.Context(), session); err != nil {
		b.Fatal(err)
	}
	for n := range pastTurns {
		turn := builder.Turn(fmt.Sprintf("template-%d", n)).In(s.space).Session("template").Input(words()).Obj()
		if err := s.client.Create(b.Context(), turn); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.finished(b.Context(), pastTurns); err != nil {
		b.Fatal(err)
	}
	if err := kit.Stop(); err != nil {
		b.Fatal(err)
	}
	store, err := entries.ForConfig(s.config, s.http)
	if err != nil {
		b.Fatal(err)
	}
	of := journal.Session{Namespace: s.space, Name: session.Name, UID: session.UID}
	var past []v1alpha1.JournalEntrySpec
	for ordinal := int64(1); ; ordinal++ {
		entry, err := store.Get(b.Context(), of, ordinal)
		if errors.Is(err, journal.ErrNotFound) {
			return past
		}
		if err != nil {
			b.Fatal(err)
		}
		past = append(past, *entry)
	}
}

// settled creates Sessions, and returns them once the manager has seen them all.
func (s *benchServer) settled(b *testing.B, count int) []v1alpha1.Session {
	b.Helper()
	group, ctx := errgroup.WithContext(b.Context())
	group.SetLimit(32)
	for n := range count {
		space := fmt.Sprintf("many-%d", n/perNamespace)
		if n%perNamespace == 0 {
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: space}}
			for _, object := range append([]client.Object{namespace}, builder.Stage(space, builder.Script(words()))...) {
				if err := s.client.Create(b.Context(), object); err != nil {
					b.Fatal(err)
				}
			}
		}
		group.Go(func() error {
			return s.client.Create(ctx, builder.Session(fmt.Sprintf("s-%d", n)).In(space).Obj())
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	var sessions []v1alpha1.Session
	for n := 0; n < count; n += perNamespace {
		space := client.InNamespace(fmt.Sprintf("many-%d", n/perNamespace))
		var list v1alpha1.SessionList
		err := wait.PollUntilContextTimeout(b.Context(), time.Second, 2*time.Hour, true,
			func(ctx context.Context) (bool, error) {
				err := s.client.List(ctx, &list, space)
				for i := range list.Items {
					if list.Items[i].Status.Phase == "" {
						return false, err
					}
				}
				return true, err
			})
		if err != nil {
			b.Fatal(err)
		}
		sessions = append(sessions, list.Items...)
	}
	return sessions
}

// copied writes the entries to the journals of Sessions.
func (s *benchServer) copied(
	b *testing.B, store journal.Store, sessions []v1alpha1.Session, past []v1alpha1.JournalEntrySpec,
) {
	b.Helper()
	group, ctx := errgroup.WithContext(b.Context())
	group.SetLimit(12)
	for i := range sessions {
		group.Go(func() error {
			of := journal.Session{Namespace: sessions[i].Namespace, Name: sessions[i].Name, UID: sessions[i].UID}
			for _, entry := range past {
				entry.Session = of.Name
				if err := createOnce(ctx, store, of, &entry); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
}

// createOnce writes an entry, and tries again while a server has no time for it.
func createOnce(
	ctx context.Context, store journal.Store, of journal.Session, entry *v1alpha1.JournalEntrySpec,
) error {
	const tries = 10
	var err error
	for range tries {
		if err = store.Create(ctx, of, entry); err == nil || errors.Is(err, journal.ErrExists) {
			return nil
		}
	}
	return fmt.Errorf("copying a journal: %w", err)
}

// turn runs a Turn, and returns how long it has taken from its creation to its end.
func (s *benchServer) turn(b *testing.B, session *v1alpha1.Session, name string) time.Duration {
	b.Helper()
	began := time.Now()
	turn := builder.Turn(session.Name + "-" + name).In(session.Namespace).Session(session.Name).Input("Go on.").Obj()
	if err := s.client.Create(b.Context(), turn); err != nil {
		b.Fatal(err)
	}
	watch, err := s.client.Watch(b.Context(), &v1alpha1.TurnList{}, client.InNamespace(session.Namespace),
		client.MatchingFields{"metadata.name": turn.Name})
	if err != nil {
		b.Fatal(err)
	}
	defer watch.Stop()
	for event := range watch.ResultChan() {
		if seen, ok := event.Object.(*v1alpha1.Turn); ok && seen.Status.Phase == v1alpha1.TurnPhaseSucceeded {
			return time.Since(began)
		}
	}
	b.Fatalf("Turn %s has not ended", turn.Name)
	return 0
}

// process is the manager's own binary.
type process struct {
	bench     *benchServer
	arguments []string

	binary, kubeconfig, probes string
	command                    *exec.Cmd
	log                        *os.File
}

// prepare builds the manager and installs its policies, and returns how to connect as its account.
func (m *process) prepare(b *testing.B) *rest.Config {
	b.Helper()
	directory := b.TempDir()
	m.binary, m.kubeconfig = filepath.Join(directory, "manager"), filepath.Join(directory, "kubeconfig")
	build := exec.CommandContext(b.Context(), "go", "build", "-o", m.binary, "../../cmd/manager")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("building the manager: %v: %s", err, out)
	}
	admin := filepath.Join(directory, "admin")
	if err := os.WriteFile(admin, m.bench.kubeconfig, 0o600); err != nil {
		b.Fatal(err)
	}
	install := exec.CommandContext(b.Context(), filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"),
		"--kubeconfig", admin, "apply", "--server-side", "--force-conflicts", "-f", "../../dist/install.yaml")
	if out, err := install.CombinedOutput(); err != nil {
		b.Fatalf("installing the policies: %v: %s", err, out)
	}
	account, err := m.bench.environment.AddUser(envtest.User{
		Name: "system:serviceaccount:capstan-system:capstan-manager", Groups: []string{"system:masters"},
	}, nil)
	if err != nil {
		b.Fatal(err)
	}
	kubeconfig, err := account.KubeConfig()
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(m.kubeconfig, kubeconfig, 0o600); err != nil {
		b.Fatal(err)
	}
	if m.log, err = os.Create(filepath.Join(directory, "log")); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(m.kill)
	config := account.Config()
	config.QPS = -1
	return config
}

// start starts the manager, and waits until it is ready.
func (m *process) start(b *testing.B) {
	b.Helper()
	m.probes = freeAddress(b)
	m.command = exec.CommandContext(context.Background(), m.binary, append([]string{
		"--launcher-image=example.org/launcher:1", "--launcher-delivery=InitContainer", "--metrics-bind-address=0",
		"--health-probe-bind-address=" + m.probes,
	}, m.arguments...)...)
	m.command.Env = append(os.Environ(), "KUBECONFIG="+m.kubeconfig)
	m.command.Stdout, m.command.Stderr = m.log, m.log
	if err := m.command.Start(); err != nil {
		b.Fatal(err)
	}
	err := wait.PollUntilContextTimeout(b.Context(), 20*time.Millisecond, 10*time.Minute, true,
		func(ctx context.Context) (bool, error) {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.probes+"/readyz", nil)
			if err != nil {
				return false, err
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				return false, m.command.Process.Signal(syscall.Signal(0))
			}
			_ = response.Body.Close()
			return response.StatusCode == http.StatusOK, nil
		})
	if err != nil {
		text, _ := os.ReadFile(m.log.Name())
		b.Fatalf("waiting for the manager: %v: %.4000s", err, text)
	}
}

func (m *process) stop(b *testing.B) {
	b.Helper()
	if err := m.command.Process.Signal(os.Interrupt); err != nil {
		b.Fatal(err)
	}
	if err := m.command.Wait(); err != nil {
		b.Fatalf("the manager: %v", err)
	}
	m.command = nil
}

func (m *process) kill() {
	if m.command != nil {
		_ = m.command.Process.Kill()
		_ = m.command.Wait()
	}
}

var resident = regexp.MustCompile(`(?m)^VmHWM:\s+(\d+) kB$`)

// memory is the most memory that the manager has had, in MiB.
func (m *process) memory(b *testing.B) float64 {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.command.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	found := resident.FindSubmatch(status)
	if found == nil {
		b.Fatalf("the memory of the manager is not in %s", status)
	}
	size, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		b.Fatal(err)
	}
	return size / 1024
}

func freeAddress(b *testing.B) string {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
