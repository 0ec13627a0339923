package invocation

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/memory"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

var (
	started = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	session = journal.Session{Namespace: "ns", Name: "demo", UID: "session-uid"}
)

// bench is a Runner on a journal.
type bench struct {
	*Runner
	t *testing.T

	mu  sync.Mutex
	now time.Time
}

func newBench(t *testing.T) *bench {
	return onStore(t, memory.New())
}

func onStore(t *testing.T, store journal.Store) *bench {
	t.Helper()
	b := &bench{t: t, now: started}
	b.Runner = &Runner{Log: journal.New(store, journal.Options{Clock: b.tick}), Clock: b.tick}
	return b
}

// tick is the present, a millisecond after the last one.
func (b *bench) tick() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = b.now.Add(time.Millisecond)
	return b.now
}

// close appends the entry that closes the step of the Turn's call. parts are the ordinals of the entries that the
// process has taken in.
func (b *bench) close(turn turnstate.Turn, parts ...int64) (*journal.Closed, error) {
	b.t.Helper()
	return b.Log.Append(b.t.Context(), session, journal.Record{
		Turn: turn.Ref, Step: turn.Step(), OpenedAt: turn.Progress.Plan.OpenedAtOrdinal,
		Transition: plan.AfterAct(turn.Progress), Parts: parts,
	})
}

// site is a server that counts what it is asked.
type site struct {
	*httptest.Server
	asked int
}

func newSite(t *testing.T, handler http.HandlerFunc) *site {
	t.Helper()
	s := &site{}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked++
		handler(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func fine(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "fine") }

// reaching gives a bench a client that reaches a site on this machine, and no Secrets.
func (b *bench) reaching(s *site) *bench {
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	b.Egress = egress.New(egress.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Roots: roots})
	b.Secrets = func(_ context.Context, _, name string) (*corev1.Secret, error) {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
	}
	return b
}

// acting is a Turn with one open call.
func acting(executor v1alpha1.ToolExecutor, class v1alpha1.SideEffect) (turnstate.Turn, v1alpha1.ToolCall) {
	turn := turnstate.Turn{
		Session:  session,
		Ref:      v1alpha1.JournalTurn{Name: "demo-1", UID: "turn-uid"},
		Progress: plan.Begin(1, metav1.NewMicroTime(started)),
		Local:    executor == v1alpha1.ToolExecutorJob,
	}
	turn.Progress.Plan.Step, turn.Progress.Plan.Phase = 2, v1alpha1.PlanPhaseAct
	turn.Progress.Phase = v1alpha1.TurnPhaseAct
	call := v1alpha1.ToolCall{
		ID: "1-0", Name: "ask", Executor: executor, SideEffect: class, Attempt: 1, State: v1alpha1.ToolCallStatePending,
	}
	turn.Progress.ToolCalls = []v1alpha1.ToolCall{call}
	turn.Progress.Summary.ToolCalls = 1
	return turn, call
}

// requesting is a Turn with one open call of an HTTP tool, and the call.
func requesting(s *site, class v1alpha1.SideEffect) (turnstate.Turn, Call) {
	turn, call := acting(v1alpha1.ToolExecutorHTTP, class)
	return turn, Call{
		Call: call, Arguments: "{}", Definition: definition.Of(s.tool()), Attempt: NewAttempt(&Line{}),
	}
}

// succeeded is the outcome of a call with a result.
func succeeded(text string) tool.Outcome {
	return tool.Outcome{
		State: v1alpha1.ToolCallStateSucceeded, Reason: v1alpha1.ToolCallReasonCompleted, Result: &text,
		Started: true, StartedAt: started, FinishedAt: started.Add(2 * time.Second),
	}
}

// entries is the number of entries in the log.
func (b *bench) entries() int64 {
	b.t.Helper()
	view, err := b.Log.View(b.t.Context(), session, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	return view.Head
}

// claimFor puts a claim of the Turn's call into the log.
func (b *bench) claimFor(turn turnstate.Turn, holder string) {
	b.t.Helper()
	if _, _, err := b.Log.Claim(
		b.t.Context(),
		session,
		turn.Ref,
		2,
		1,
		journal.ClaimedCall{ID: "1-0", Holder: holder},
	); err != nil {
		b.t.Fatal(err)
	}
}
