package perf_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/controller"
	"github.com/capstan-dev/capstan/internal/runtime/queue"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

const (
	// benchClients create Turns at the same time, each in a Session of its own.
	benchClients = 16
	// benchTurns are the Turns of each client.
	benchTurns = 25
	// plainWrites are the writes of the manager for a Turn without tools: see docs/concepts.md.
	plainWrites = 4
)

// BenchmarkPlainTurns reports how many Turns a second the manager runs, as a ratio to the ceiling of the same API
// server in the same run: with the manager off, as many clients make the same writes for as many Turns.
//
// Run it with the assets of the suites: go test ./test/perf -run '^$' -bench PlainTurns -benchtime 1x
func BenchmarkPlainTurns(b *testing.B) {
	s := newBenchServer(b)
	writes := s.recordTurn(b)
	for b.Loop() {
		ceiling := s.rate(b, func(ctx context.Context, sessions []*v1alpha1.Session) error {
			return s.createTurns(ctx, sessions, writes)
		})
		kit := s.manager(b, nil)
		reached := s.rate(b, s.run)
		if err := kit.Stop(); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(ceiling, "ceiling-turns/s")
		b.ReportMetric(reached, "turns/s")
		b.ReportMetric(reached/ceiling, "of-ceiling")
	}
}

// benchServer is an API server with a namespace in which a simulated Model responds at once.
type benchServer struct {
	environment *envtest.Environment
	config      *rest.Config
	kubeconfig  []byte
	http        *http.Client
	client      client.WithWatch
	space       string
	round       int
}

func newBenchServer(b *testing.B) *benchServer {
	b.Helper()
	return newBenchServerOn(b, &envtest.Environment{})
}

func newBenchServerOn(b *testing.B, environment *envtest.Environment) *benchServer {
	b.Helper()
	config, err := environment.Start()
	if err != nil {
		b.Fatalf("starting an API server: %v. Run the benchmark with KUBEBUILDER_ASSETS, as docs/testing.md describes.", err)
	}
	b.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			b.Error(err)
		}
	})
	config.QPS = -1
	s := &benchServer{environment: environment, config: config, kubeconfig: environment.KubeConfig, space: "perf"}
	if s.http, err = rest.HTTPClientFor(config); err != nil {
		b.Fatal(err)
	}
	if s.client, err = client.NewWithWatch(config, client.Options{Scheme: controller.NewScheme()}); err != nil {
		b.Fatal(err)
	}
	return s
}

// manager starts the controllers.
func (s *benchServer) manager(b *testing.B, transport func(http.RoundTripper) http.RoundTripper) *capstantest.Kit {
	b.Helper()
	kit, err := capstantest.Start(b.Context(), s.config, capstantest.Options{
		Transport: transport,
		Jobs:      func(capstantest.Call) (stdout, stderr string, exit int) { return words(), "", 0 },
	})
	if err != nil {
		b.Fatal(err)
	}
	return kit
}

// write is a request that the manager has made.
type write struct {
	method, path, kind string
	body               []byte
}

// recordTurn runs one Turn, and returns the manager's writes for it.
func (s *benchServer) recordTurn(b *testing.B) []write {
	b.Helper()
	var lock sync.Mutex
	var recorded []write
	recording := false
	kit := s.manager(b, func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet || r.Body == nil {
				return next.RoundTrip(r)
			}
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return nil, err
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			lock.Lock()
			defer lock.Unlock()
			if recording {
				recorded = append(recorded, write{r.Method, r.URL.RequestURI(), r.Header.Get("Content-Type"), body})
			}
			return next.RoundTrip(r)
		})
	})
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.space}}
	for _, object := range append([]client.Object{namespace}, builder.Stage(s.space, builder.Script("done"))...) {
		if err := s.client.Create(b.Context(), object); err != nil {
			b.Fatal(err)
		}
	}
	session := builder.Session("template-session").In(s.space).Obj()
	if err := s.create(b.Context(), session); err != nil {
		b.Fatal(err)
	}
	lock.Lock()
	recording = true
	lock.Unlock()
	turn := builder.Turn("template-turn").In(s.space).Session(session.Name).Obj()
	if err := s.client.Create(b.Context(), turn); err != nil {
		b.Fatal(err)
	}
	if err := s.finished(b.Context(), 1); err != nil {
		b.Fatal(err)
	}
	if err := kit.Stop(); err != nil {
		b.Fatal(err)
	}
	if len(recorded) != plainWrites {
		b.Fatalf("a plain Turn takes %d writes, want %d: %+v", len(recorded), plainWrites, recorded)
	}
	for i := range recorded {
		recorded[i].body = bytes.ReplaceAll(recorded[i].body, []byte(session.UID), []byte("SESSION-UID"))
		recorded[i].body = bytes.ReplaceAll(recorded[i].body, []byte(turn.UID), []byte("TURN-UID"))
	}
	return recorded
}

// create creates a Session and waits until it can run Turns.
func (s *benchServer) create(ctx context.Context, session *v1alpha1.Session) error {
	if err := s.client.Create(ctx, session); err != nil {
		return err
	}
	ready := func(ctx context.Context) (bool, error) {
		err := s.client.Get(ctx, client.ObjectKeyFromObject(session), session)
		return meta.IsStatusConditionTrue(session.Status.Conditions, v1alpha1.ConditionReady), err
	}
	if err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, ready); err != nil {
		return fmt.Errorf("waiting until Session %s is ready (%v): %w", session.Name, session.Status.Conditions, err)
	}
	return nil
}

// finished waits until so many Turns have finished, and until no Session has an active one.
func (s *benchServer) finished(ctx context.Context, count int) error {
	done := func(ctx context.Context) (bool, error) {
		var turns v1alpha1.TurnList
		var sessions v1alpha1.SessionList
		if err := s.client.List(ctx, &turns, client.InNamespace(s.space)); err != nil {
			return false, err
		}
		if err := s.client.List(ctx, &sessions, client.InNamespace(s.space)); err != nil {
			return false, err
		}
		ended := 0
		for i := range turns.Items {
			if queue.Finished(&turns.Items[i]) {
				ended++
			}
		}
		for i := range sessions.Items {
			if sessions.Items[i].Status.ActiveTurn != nil {
				return false, nil
			}
		}
		return ended >= count, nil
	}
	return wait.PollUntilContextTimeout(ctx, time.Second, 10*time.Minute, true, done)
}

// rate returns the Turns a second of a run with fresh Sessions.
func (s *benchServer) rate(b *testing.B, run func(context.Context, []*v1alpha1.Session) error) float64 {
	b.Helper()
	s.round++
	sessions := make([]*v1alpha1.Session, benchClients)
	for i := range sessions {
		sessions[i] = builder.Session(fmt.Sprintf("round-%d-session-%d", s.round, i)).In(s.space).Obj()
		if err := s.client.Create(b.Context(), sessions[i]); err != nil {
			b.Fatal(err)
		}
	}
	began := time.Now()
	if err := run(b.Context(), sessions); err != nil {
		b.Fatal(err)
	}
	return benchClients * benchTurns / time.Since(began).Seconds()
}

// run creates the Turns for the manager, and waits until all have finished.
func (s *benchServer) run(ctx context.Context, sessions []*v1alpha1.Session) error {
	if err := s.createTurns(ctx, sessions, nil); err != nil {
		return err
	}
	ended := map[string]bool{}
	for len(ended) < benchClients*benchTurns {
		if err := s.watch(ctx, ended); err != nil {
			return err
		}
	}
	return nil
}

// createTurns creates the Turns of all clients at the same time, makes the writes for each after its creation, and
// returns when the last one is done.
func (s *benchServer) createTurns(ctx context.Context, sessions []*v1alpha1.Session, writes []write) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, session := range sessions {
		group.Go(func() error {
			for t := range benchTurns {
				turn := builder.Turn(fmt.Sprintf("%s-%d", session.Name, t)).In(s.space).Session(session.Name).Obj()
				if err := s.client.Create(ctx, turn); err != nil {
					return err
				}
				for _, w := range writes {
					if err := s.send(ctx, w, session, turn); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// watch notes which Turns of the round have ended, until all have or the watch ends: the API server ends it when a
// definition is applied. A watch begins with the objects that exist.
func (s *benchServer) watch(ctx context.Context, ended map[string]bool) error {
	watched, err := s.client.Watch(ctx, &v1alpha1.TurnList{}, client.InNamespace(s.space))
	if err != nil {
		return err
	}
	defer watched.Stop()
	prefix := fmt.Sprintf("round-%d-", s.round)
	for event := range watched.ResultChan() {
		turn, ok := event.Object.(*v1alpha1.Turn)
		if ok && strings.HasPrefix(turn.Name, prefix) && queue.Finished(turn) {
			ended[turn.Name] = true
		}
		if len(ended) == benchClients*benchTurns {
			return nil
		}
	}
	return nil
}

// send makes one write for another Turn than the recorded one, whatever the version of its object is.
func (s *benchServer) send(ctx context.Context, w write, session *v1alpha1.Session, turn *v1alpha1.Turn) error {
	names := strings.NewReplacer(
		"template-session",
		session.Name,
		"template-turn",
		turn.Name,
		"SESSION-UID",
		string(session.UID),
		"TURN-UID",
		string(turn.UID),
	)
	var object map[string]any
	if err := json.Unmarshal([]byte(names.Replace(string(w.body))), &object); err != nil {
		return err
	}
	if about, ok := object["metadata"].(map[string]any); ok {
		delete(about, "resourceVersion")
		if w.method == http.MethodPost {
			about["name"] = turn.Name
		}
	}
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	url := strings.TrimSuffix(s.config.Host, "/") + names.Replace(w.path)
	request, err := http.NewRequestWithContext(ctx, w.method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", w.kind)
	response, err := s.http.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusMultipleChoices {
		err = fmt.Errorf("%s %s: %s: %s", w.method, w.path, response.Status, answer)
	}
	return err
}
