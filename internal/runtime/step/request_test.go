package step

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/config"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/journaltest"
	"github.com/capstan-dev/capstan/internal/runtime/journal/memory"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

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

func (s *site) tool() *v1alpha1.Tool {
	return &v1alpha1.Tool{
		ObjectMeta: metav1.ObjectMeta{Name: "ask", Generation: 3},
		Spec:       v1alpha1.ToolSpec{Description: "Asks.", HTTP: &v1alpha1.HTTPTool{URL: s.URL}},
	}
}

// requesting is a Turn with one open call of an HTTP tool, and the call.
func requesting(s *site, class v1alpha1.SideEffect) (turnstate.Turn, Call) {
	turn := newTurn("demo-1")
	turn.Progress.Plan.Step, turn.Progress.Plan.Phase = 2, v1alpha1.PlanPhaseAct
	turn.Progress.Phase = v1alpha1.TurnPhaseAct
	call := v1alpha1.ToolCall{
		ID:         "1-0",
		Name:       "ask",
		Executor:   v1alpha1.ToolExecutorHTTP,
		SideEffect: class,
		Attempt:    1,
		State:      v1alpha1.ToolCallStatePending,
	}
	turn.Progress.ToolCalls = []v1alpha1.ToolCall{call}
	turn.Progress.Summary.ToolCalls = 1
	return turn, Call{Call: call, Arguments: "{}", Definition: definition.Of(s.tool()), Run: NewCallRun(&Line{})}
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

func TestACallThatMayStartAgainCostsNoEntry(t *testing.T) {
	s := newSite(t, fine)
	b := newBench(t).reaching(s)
	turn, call := requesting(s, v1alpha1.SideEffectPure)
	for range 2 {
		end, err := b.CarryOut(t.Context(), turn, call)
		if err != nil || end.Outcome.State != v1alpha1.ToolCallStateSucceeded || *end.Outcome.Result != "fine" ||
			end.Kept.Ordinal != 0 {
			t.Fatalf("it ends with %+v, %v", end, err)
		}
		if o := end.Outcome; !o.Started || o.StartedAt.IsZero() || !o.FinishedAt.After(o.StartedAt) {
			t.Errorf("it ran from %v to %v", o.StartedAt, o.FinishedAt)
		}
	}
	if b.entries() != 0 || s.asked != 2 {
		t.Errorf("%d entries, %d requests", b.entries(), s.asked)
	}
}

func TestACallThatStartsOnceIsClaimedAndItsOutcomeKept(t *testing.T) {
	s := newSite(t, fine)
	store := memory.New()
	b := onStore(t, store).reaching(s)
	turn, call := requesting(s, v1alpha1.SideEffectAtMostOnce)
	first, err := b.CarryOut(t.Context(), turn, call)
	if err != nil || first.Outcome.State != v1alpha1.ToolCallStateSucceeded || first.Kept.Ordinal != 2 ||
		b.entries() != 2 {
		t.Fatalf("it ends with %+v, %v, %d entries", first, err, b.entries())
	}
	// A later execution, in this process or another, gets the journal's outcome.
	_, other := requesting(s, v1alpha1.SideEffectAtMostOnce)
	for name, c := range map[string]Call{"the same try": call, "another process": other} {
		end, err := onStore(t, store).reaching(s).CarryOut(t.Context(), turn, c)
		if err != nil || *end.Outcome.Result != "fine" || end.Kept.Ordinal != 2 || !end.Outcome.Started ||
			!end.Outcome.FinishedAt.Equal(first.Outcome.FinishedAt) {
			t.Errorf("%s ends with %+v, %v", name, end, err)
		}
	}
	if s.asked != 1 {
		t.Errorf("the server was asked %d times", s.asked)
	}
	closed, err := b.Act(t.Context(), turn, facts{
		Outcomes: map[string]tool.Outcome{"1-0": first.Outcome}, Kept: map[string]journal.SettledRef{"1-0": first.Kept},
	}.step())
	if err != nil || len(closed.Settled) != 1 || closed.Transition.ToolCalls[0].State != v1alpha1.ToolCallStateSucceeded {
		t.Errorf("the step is closed as %+v, %v", closed, err)
	}
	late, err := b.CarryOut(t.Context(), turn, other)
	if err != nil || late.Closed == nil {
		t.Errorf("behind the end of the step it ends with %+v, %v", late, err)
	}
}

func TestAClaimOfSomebodyElseMeansThatNobodyKnows(t *testing.T) {
	s := newSite(t, fine)
	b := newBench(t).reaching(s)
	turn, call := requesting(s, v1alpha1.SideEffectAtMostOnce)
	b.claimFor(turn, "somebody else")
	end, err := b.CarryOut(t.Context(), turn, call)
	if err != nil || end.Outcome.State != v1alpha1.ToolCallStateUnknown ||
		end.Outcome.Reason != v1alpha1.ToolCallReasonManagerLost ||
		end.Kept.Ordinal != 0 ||
		s.asked != 0 {
		t.Fatalf("it ends with %+v, %v after %d requests", end, err, s.asked)
	}
	// The other one is alive after all: what it says counts, and the step cannot be closed without it.
	_, _, err = b.Log.Settle(t.Context(), session, turn.Ref, 2, 1, keptCall("1-0", succeeded("late")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Act(
		t.Context(),
		turn,
		facts{Outcomes: map[string]tool.Outcome{"1-0": end.Outcome}}.step(),
	); !errors.Is(
		err,
		journal.ErrStale,
	) {
		t.Errorf("closing the step says %v", err)
	}
	if end, err = b.CarryOut(t.Context(), turn, call); err != nil || *end.Outcome.Result != "late" {
		t.Errorf("asked again it ends with %+v, %v", end, err)
	}
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

func TestATryThatCouldNotReadItsSecretClaimsNothingAndIsMadeAgain(t *testing.T) {
	s := newSite(t, fine)
	b := newBench(t).reaching(s)
	turn, call := requesting(s, v1alpha1.SideEffectAtMostOnce)
	call.Definition.Spec().HTTP.Headers = []v1alpha1.HTTPHeader{
		{Name: "X-Key", SecretKeyRef: &v1alpha1.SecretKeyReference{Name: "key", Key: "token"}},
	}
	broken := errors.New("the API server is away")
	b.Secrets = func(context.Context, string, string) (*corev1.Secret, error) { return nil, broken }
	if _, err := b.CarryOut(t.Context(), turn, call); !errors.Is(err, broken) || b.entries() != 0 {
		t.Fatalf("it says %v, %d entries", err, b.entries())
	}
	b.Secrets = func(context.Context, string, string) (*corev1.Secret, error) {
		return &corev1.Secret{Data: map[string][]byte{"token": []byte("abcdef")}}, nil
	}
	end, err := b.CarryOut(t.Context(), turn, call)
	if err != nil || end.Outcome.State != v1alpha1.ToolCallStateSucceeded || s.asked != 1 {
		t.Errorf("it ends with %+v, %v after %d requests", end, err, s.asked)
	}
}

// deaf is a store that takes no results as long as it does not listen.
type deaf struct {
	journal.Store
	listens bool
}

func (d *deaf) Create(ctx context.Context, s journal.Session, e *v1alpha1.JournalEntrySpec) error {
	if journaltest.Content(e).Settled != nil && !d.listens {
		return errors.New("the store is away")
	}
	return d.Store.Create(ctx, s, e)
}

func TestARequestIsNotSentAgainWhenItsOutcomeCouldNotBeKept(t *testing.T) {
	s := newSite(t, fine)
	store := &deaf{Store: memory.New()}
	b := onStore(t, store).reaching(s)
	turn, call := requesting(s, v1alpha1.SideEffectAtMostOnce)
	if _, err := b.CarryOut(t.Context(), turn, call); err == nil {
		t.Fatal("nobody says that nothing was kept")
	}
	store.listens = true
	end, err := b.CarryOut(t.Context(), turn, call)
	if err != nil || end.Outcome.State != v1alpha1.ToolCallStateSucceeded || end.Kept.Ordinal == 0 || s.asked != 1 {
		t.Errorf("it ends with %+v, %v after %d requests", end, err, s.asked)
	}
}

func TestARequestIsNotSentAgainWhenTheTryHasDied(t *testing.T) {
	s := newSite(t, fine)
	b := newBench(t).reaching(s)
	turn, call := requesting(s, v1alpha1.SideEffectAtMostOnce)
	b.claimFor(turn, call.Run.holder)
	call.Run.begin()
	end, err := b.CarryOut(t.Context(), turn, call)
	if err != nil || end.Outcome.State != v1alpha1.ToolCallStateUnknown || end.Kept.Ordinal == 0 || s.asked != 0 {
		t.Errorf("it ends with %+v, %v after %d requests", end, err, s.asked)
	}
}

func TestACallThatCannotBeSentIsNotExecuted(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*bench, *Call)
		reason string
	}{
		"its Tool is gone": {func(_ *bench, c *Call) { c.Definition = nil }, v1alpha1.ToolCallReasonToolChanged},
		"its Tool is another kind": {
			func(_ *bench, c *Call) { c.Definition = definition.Of(jobTool("ask")) }, v1alpha1.ToolCallReasonToolChanged,
		},
		"its Secret is bound to other hosts": {func(b *bench, c *Call) {
			c.Definition.Spec().HTTP.Headers = []v1alpha1.HTTPHeader{secretHeader("key", "token")}
			b.Secrets = func(context.Context, string, string) (*corev1.Secret, error) {
				return &corev1.Secret{
					ObjectMeta: metav1.ObjectMeta{
						Name: "key", Annotations: map[string]string{v1alpha1.AnnotationAllowedHosts: "api.example.org"},
					},
					Data: map[string][]byte{"token": []byte("a")},
				}, nil
			}
		}, v1alpha1.ToolCallReasonSecretUnusable},
		"no network access list permits it": {func(_ *bench, c *Call) {
			c.Network = config.Fold(v1alpha1.ConfigLayer{
				NetworkAccess: &v1alpha1.NetworkAccess{Allowed: []v1alpha1.NetworkPattern{"elsewhere.example"}},
			}).Network
		}, v1alpha1.ToolCallReasonNetworkAccessDenied},
		"its host may not be reached": {
			func(b *bench, _ *Call) { b.Egress = egress.New(egress.Options{}) }, v1alpha1.ToolCallReasonAddressRefused,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, fine)
			b := newBench(t).reaching(s)
			turn, call := requesting(s, v1alpha1.SideEffectAtMostOnce)
			test.change(b, &call)
			end, err := b.CarryOut(t.Context(), turn, call)
			if err != nil || end.Outcome.State != v1alpha1.ToolCallStateNotExecuted || end.Outcome.Reason != test.reason ||
				end.Outcome.Started ||
				end.Kept.Ordinal == 0 ||
				s.asked != 0 {
				t.Errorf("it ends with %+v, %v after %d requests", end, err, s.asked)
			}
		})
	}
}

func TestALogWithoutRoomStartsNothing(t *testing.T) {
	s := newSite(t, fine)
	b := newBench(t).reaching(s)
	turn, call := requesting(s, v1alpha1.SideEffectAtMostOnce)
	turn.Session.Limit = 10
	end, err := b.CarryOut(t.Context(), turn, call)
	if err != nil || end.Outcome.State != v1alpha1.ToolCallStateNotExecuted ||
		end.Outcome.Reason != v1alpha1.ToolCallReasonLogFull ||
		s.asked != 0 {
		t.Fatalf("it ends with %+v, %v after %d requests", end, err, s.asked)
	}
	closed, err := b.Act(t.Context(), turn, facts{Outcomes: map[string]tool.Outcome{"1-0": end.Outcome}}.step())
	if err != nil || closed.Transition.Error == nil || closed.Transition.Error.Code != v1alpha1.ErrorCodeJournalFull ||
		closed.Transition.ToolCalls[0].State != v1alpha1.ToolCallStateNotExecuted {
		t.Errorf("the step is closed as %+v, %v", closed, err)
	}
}

// What the end of a Turn says of a call that it interrupts is what the log knows of it (invariant 4).
func TestTheEndOfATurnKnowsWhichRequestsWereClaimed(t *testing.T) {
	const pure, once = v1alpha1.SideEffectPure, v1alpha1.SideEffectAtMostOnce
	for name, test := range map[string]struct {
		class  v1alpha1.SideEffect
		before func(*bench, turnstate.Turn)
		known  *tool.Outcome
		want   v1alpha1.ToolCallState
	}{
		"once, not claimed": {class: once, want: v1alpha1.ToolCallStateNotExecuted},
		"once, claimed": {
			class: once, before: func(b *bench, t turnstate.Turn) { b.claimFor(t, "x") }, want: v1alpha1.ToolCallStateUnknown,
		},
		"once, kept": {class: once, before: func(b *bench, t turnstate.Turn) {
			b.claimFor(t, "x")
			_, _, err := b.Log.Settle(b.t.Context(), session, t.Ref, 2, 1, keptCall("1-0", succeeded("so")))
			if err != nil {
				b.t.Fatal(err)
			}
		}, want: v1alpha1.ToolCallStateSucceeded},
		"once, and this process is wrong": {
			class: once, before: func(
				b *bench, t turnstate.Turn,
			) {
				b.claimFor(t, "x")
			}, known: new(tool.CallUnclaimed()), want: v1alpha1.ToolCallStateUnknown,
		},
		"again": {class: pure, want: v1alpha1.ToolCallStateUnknown},
	} {
		for ending, end := range map[string]func(*bench, turnstate.Turn, *act.Step) (*journal.Closed, error){
			"cancelled": func(b *bench, t turnstate.Turn, known *act.Step) (*journal.Closed, error) {
				return b.Cancel(b.t.Context(), t, known)
			},
			"expired": func(b *bench, t turnstate.Turn, known *act.Step) (*journal.Closed, error) {
				return b.Expire(b.t.Context(), t, turnstate.DeadlineExceeded(1), known)
			},
		} {
			t.Run(name+", "+ending, func(t *testing.T) {
				s := newSite(t, fine)
				b := newBench(t).reaching(s)
				turn, _ := requesting(s, test.class)
				if test.before != nil {
					test.before(b, turn)
				}
				known := facts{}
				if test.known != nil {
					known.Outcomes = map[string]tool.Outcome{"1-0": *test.known}
				}
				closed, err := end(b, turn, known.step())
				if err != nil || closed.Transition.ToolCalls[0].State != test.want {
					t.Fatalf("the call is %+v, %v; want %s", closed.Transition.ToolCalls, err, test.want)
				}
			})
		}
	}
}

func TestACallOfAnHTTPToolIsPinned(t *testing.T) {
	s := newSite(t, fine)
	b := newBench(t).reaching(s)
	definition := s.tool()
	definition.Spec.HTTP.Timeout = &metav1.Duration{Duration: 7}
	b.says("", calls(1, "ask")...)
	turn, _ := b.reason(newTurn("demo-1"), with(definition))
	c := turn.Progress.ToolCalls[0]
	if c.Executor != v1alpha1.ToolExecutorHTTP || c.SideEffect != v1alpha1.SideEffectAtMostOnce || c.Attempt != 1 ||
		c.Timeout.Duration != 7 ||
		len(c.ToolDigest) != 40 ||
		c.State != v1alpha1.ToolCallStatePending {
		t.Errorf("the call is pinned as %+v", c)
	}
}

func TestAKeptOutcomeIsReadAsItWasWritten(t *testing.T) {
	started := started.Add(1)
	for name, outcome := range map[string]tool.Outcome{
		"succeeded": {
			State: v1alpha1.ToolCallStateSucceeded, Reason: "Completed", Result: new(""), Started: true, StartedAt: started,
			FinishedAt: started,
		},
		"failed": {
			State: v1alpha1.ToolCallStateFailed, Reason: "HTTPStatus", Error: "no", Started: true, StartedAt: started,
			FinishedAt: started,
		},
		"not executed": tool.CallUnclaimed(),
	} {
		got := act.OutcomeOf(keptCall("1-0", outcome))
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", withResult(outcome, got.Result)) ||
			(got.Result == nil) != (outcome.Result == nil) {
			t.Errorf("%s: %+v became %+v", name, outcome, got)
		}
	}
	if got := act.OutcomeOf(
		journal.SettledCall{ID: "1-0", Error: new("no")},
	); got.Reason != "ClientError" ||
		!strings.Contains(got.Error, "no") {
		t.Errorf("a client's error became %+v", got)
	}
}

func withResult(o tool.Outcome, result *string) tool.Outcome {
	o.Result = result
	return o
}
