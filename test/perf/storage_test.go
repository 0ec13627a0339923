package perf_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

const (
	// emptySessions are the Sessions without Turns.
	emptySessions = 200
	// storedSessions are the Sessions of each kind of Turn, whose Turns run one after another.
	storedSessions = 16
	plainTurns     = 25
	toolTurns      = 2
	// toolSteps are the steps with one Job of each Turn with tools.
	toolSteps = 4
	// storedText is the size of messages, responses and results.
	storedText = 1000
)

// BenchmarkStorage reports what conversations take in etcd and in the memory of the API server: for a Session without
// Turns, for a plain Turn with a message and a response of 1,000 bytes each, and for a step with a Job and a result of
// 1,000 bytes. docs/limits.md has the figures. "sessions", "turns" and "journalentries" are the sizes of these objects
// in the end, "file" is by how much the file of etcd grew, with all versions and the Jobs and pods, and "heap" by how
// much the memory of the API server.
//
// Run it with the assets of the suites: go test ./test/perf -run '^$' -bench Storage -benchtime 1x
func BenchmarkStorage(b *testing.B) {
	for b.Loop() {
		s := newBenchServer(b)
		s.recordTurn(b) // warms the API server up
		kit := s.manager(b, nil)
		s.stage(b)
		empty := s.stored(b, func() { s.sessions(b, "empty", "plain", emptySessions) })
		empty.report(b, "session", emptySessions)
		s.sessions(b, "plain", "plain", storedSessions)
		plain := s.stored(b, func() { s.converse(b, "plain", plainTurns) })
		plain.report(b, "turn", storedSessions*plainTurns)
		s.sessions(b, "tools", "tools", storedSessions)
		tools := s.stored(b, func() { s.converse(b, "tools", toolTurns) })
		turns := storage{}
		for unit, value := range plain {
			turns[unit] = value / plainTurns * toolTurns
		}
		tools.minus(turns).report(b, "step", storedSessions*toolTurns*toolSteps)
		if err := kit.Stop(); err != nil {
			b.Fatal(err)
		}
	}
}

// storage is what objects take, in bytes by the place.
type storage map[string]float64

func (s storage) minus(other storage) storage {
	difference := storage{}
	for unit, value := range s {
		difference[unit] = value - other[unit]
	}
	return difference
}

func (s storage) report(b *testing.B, unit string, count float64) {
	b.Helper()
	for place, bytes := range s {
		b.ReportMetric(bytes/count/1024, place+"-KiB/"+unit)
	}
}

// stored returns by how much a run has grown what is stored.
func (s *benchServer) stored(b *testing.B, run func()) storage {
	b.Helper()
	before := s.storage(b)
	run()
	return s.storage(b).minus(before)
}

func (s *benchServer) storage(b *testing.B) storage {
	b.Helper()
	usage := s.usage(b)
	all := storage{"heap": usage["go_memstats_heap_alloc_bytes"], "file": usage["apiserver_storage_size_bytes"]}
	for _, kind := range []string{"sessions", "turns", "journalentries"} {
		var list struct{ Items []json.RawMessage }
		text := s.get(b, "/apis/"+v1alpha1.GroupVersion.String()+"/namespaces/"+s.space+"/"+kind)
		if err := json.Unmarshal(text, &list); err != nil {
			b.Fatal(err)
		}
		for _, item := range list.Items {
			all[kind] += float64(len(item))
		}
	}
	return all
}

// stage creates a Model that responds at once, and one that calls a Job in each of its steps.
func (s *benchServer) stage(b *testing.B) {
	b.Helper()
	steps := make([][]v1alpha1.SimulatedToolCall, toolSteps)
	for i := range steps {
		steps[i] = builder.Calls("stored-tool")
	}
	for _, object := range []client.Object{
		builder.Model("plain").In(s.space).Simulated(builder.Script(words())).Obj(),
		builder.Model("tools").In(s.space).Simulated(builder.Script(words(), steps...)).Obj(),
		builder.JobTool("stored-tool", v1alpha1.SideEffectPure).In(s.space).Obj(),
	} {
		if err := s.client.Create(b.Context(), object); err != nil {
			b.Fatal(err)
		}
	}
}

// sessions creates the Sessions of a kind, and waits until they can run Turns.
func (s *benchServer) sessions(b *testing.B, kind, model string, count int) {
	b.Helper()
	group, ctx := errgroup.WithContext(b.Context())
	group.SetLimit(storedSessions)
	for i := range count {
		group.Go(func() error {
			session := builder.Session(fmt.Sprintf("%s-%d", kind, i)).In(s.space).Model(model).Obj()
			if kind == "tools" {
				session.Spec.Tools = []v1alpha1.LocalReference{{Name: "stored-tool"}}
			}
			return s.create(ctx, session)
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
}

// converse sends messages to the Sessions of a kind, and waits until all have their responses.
func (s *benchServer) converse(b *testing.B, kind string, turns int) {
	b.Helper()
	before := s.turns(b)
	group, ctx := errgroup.WithContext(b.Context())
	for i := range storedSessions {
		group.Go(func() error {
			session := fmt.Sprintf("%s-%d", kind, i)
			for t := range turns {
				name := fmt.Sprintf("%s-%d", session, t)
				turn := builder.Turn(name).In(s.space).Session(session).Input(words()).Obj()
				if err := s.client.Create(ctx, turn); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	if err := s.finished(b.Context(), before+storedSessions*turns); err != nil {
		b.Fatal(err)
	}
	s.allSucceeded(b.Context(), b)
}

func (s *benchServer) turns(b *testing.B) int {
	b.Helper()
	var turns v1alpha1.TurnList
	if err := s.client.List(b.Context(), &turns, client.InNamespace(s.space)); err != nil {
		b.Fatal(err)
	}
	return len(turns.Items)
}

func (s *benchServer) allSucceeded(ctx context.Context, b *testing.B) {
	b.Helper()
	var turns v1alpha1.TurnList
	if err := s.client.List(ctx, &turns, client.InNamespace(s.space)); err != nil {
		b.Fatal(err)
	}
	for i := range turns.Items {
		if turn := &turns.Items[i]; turn.Status.Phase != v1alpha1.TurnPhaseSucceeded {
			b.Fatalf("Turn %s is %s: %+v", turn.Name, turn.Status.Phase, turn.Status.Error)
		}
	}
}

// words returns a text that compresses about as well as prose.
func words() string {
	const letters = "etaoinshrdlu"
	var text strings.Builder
	for text.Len() < storedText {
		for range 1 + rand.IntN(9) {
			text.WriteByte(letters[rand.IntN(len(letters))])
		}
		text.WriteByte(' ')
	}
	return text.String()[:storedText]
}
