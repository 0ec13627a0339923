package invocation

import (
	"context"
	"errors"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/config"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/journaltest"
	"github.com/capstan-dev/capstan/internal/runtime/journal/memory"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
	"github.com/capstan-dev/capstan/internal/testing/site"
)

func toolOf(s *site.Site) *v1alpha1.Tool {
	return &v1alpha1.Tool{
		ObjectMeta: metav1.ObjectMeta{Name: "ask", Generation: 3},
		Spec:       v1alpha1.ToolSpec{Description: "Asks.", HTTP: &v1alpha1.HTTPTool{URL: s.URL}},
	}
}

// Rules: DUR-05, VEC-22.
func TestACallThatMayStartAgainCostsNoEntry(t *testing.T) {
	for _, class := range []v1alpha1.SideEffect{v1alpha1.SideEffectPure, v1alpha1.SideEffectIdempotent} {
		t.Run(string(class), func(t *testing.T) {
			s := site.New(t, site.Fine)
			b := newBench(t).reaching(s)
			turn, call := requesting(s, class)
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
			if b.entries() != 0 || s.Requests() != 2 {
				t.Errorf("%d entries, %d requests", b.entries(), s.Requests())
			}
		})
	}
}

// Rules: DUR-01, DUR-02, VEC-22.
func TestACallThatStartsOnceIsClaimedAndItsOutcomeKept(t *testing.T) {
	s := site.New(t, site.Fine)
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
	if s.Requests() != 1 {
		t.Errorf("the server received %d requests", s.Requests())
	}
	closed, err := b.close(turn, first.Kept.Ordinal)
	if err != nil || len(closed.Settled) != 1 {
		t.Errorf("the step is closed as %+v, %v", closed, err)
	}
	late, err := b.CarryOut(t.Context(), turn, other)
	if err != nil || late.Closed == nil {
		t.Errorf("behind the end of the step it ends with %+v, %v", late, err)
	}
}

// Rules: DUR-07.
func TestACallThatFailsAfterItsClaimIsSettledWithItsError(t *testing.T) {
	s := site.New(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	store := memory.New()
	turn, call := requesting(s, v1alpha1.SideEffectAtMostOnce)
	first, err := onStore(t, store).reaching(s).CarryOut(t.Context(), turn, call)
	if err != nil || first.Outcome.State == v1alpha1.ToolCallStateSucceeded || first.Kept.Ordinal != 2 {
		t.Fatalf("it ends with %+v, %v", first, err)
	}
	again, err := onStore(t, store).reaching(s).CarryOut(t.Context(), turn, call)
	if err != nil || again.Kept.Ordinal != 2 || again.Outcome.State != first.Outcome.State || s.Requests() != 1 {
		t.Errorf("in another process it ends with %+v, %v after %d requests", again, err, s.Requests())
	}
}

// Rules: DUR-01, VEC-22.
func TestAClaimOfAnotherProcessHasAnUnknownOutcome(t *testing.T) {
	s := site.New(t, site.Fine)
	b := newBench(t).reaching(s)
	turn, call := requesting(s, v1alpha1.SideEffectAtMostOnce)
	b.claimFor(turn, "another process")
	end, err := b.CarryOut(t.Context(), turn, call)
	if err != nil || end.Outcome.State != v1alpha1.ToolCallStateUnknown ||
		end.Outcome.Reason != v1alpha1.ToolCallReasonManagerLost ||
		end.Kept.Ordinal != 0 ||
		s.Requests() != 0 {
		t.Fatalf("it ends with %+v, %v after %d requests", end, err, s.Requests())
	}
	// The other one is alive after all: its outcome counts, and the step cannot be closed without it.
	_, _, err = b.Log.Settle(t.Context(), session, turn.Ref, 2, 1, act.SettledOf("1-0", succeeded("late")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.close(turn); !errors.Is(err, journal.ErrStale) {
		t.Errorf("closing the step returned %v", err)
	}
	if end, err = b.CarryOut(t.Context(), turn, call); err != nil || *end.Outcome.Result != "late" {
		t.Errorf("asked again it ends with %+v, %v", end, err)
	}
}

func TestATryThatCouldNotReadItsSecretClaimsNothingAndIsMadeAgain(t *testing.T) {
	s := site.New(t, site.Fine)
	b := newBench(t).reaching(s)
	turn, call := requesting(s, v1alpha1.SideEffectAtMostOnce)
	call.Definition.Spec().HTTP.Headers = []v1alpha1.HTTPHeader{
		{Name: "X-Key", SecretKeyRef: &v1alpha1.SecretKeyReference{Name: "key", Key: "token"}},
	}
	broken := errors.New("the API server is away")
	b.Secrets = func(context.Context, string, string) (*corev1.Secret, error) { return nil, broken }
	if _, err := b.CarryOut(t.Context(), turn, call); !errors.Is(err, broken) || b.entries() != 0 {
		t.Fatalf("it reports %v, %d entries", err, b.entries())
	}
	b.Secrets = func(context.Context, string, string) (*corev1.Secret, error) {
		return &corev1.Secret{Data: map[string][]byte{"token": []byte("abcdef")}}, nil
	}
	end, err := b.CarryOut(t.Context(), turn, call)
	if err != nil || end.Outcome.State != v1alpha1.ToolCallStateSucceeded || s.Requests() != 1 {
		t.Errorf("it ends with %+v, %v after %d requests", end, err, s.Requests())
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
	s := site.New(t, site.Fine)
	store := &deaf{Store: memory.New()}
	b := onStore(t, store).reaching(s)
	turn, call := requesting(s, v1alpha1.SideEffectAtMostOnce)
	if _, err := b.CarryOut(t.Context(), turn, call); err == nil {
		t.Fatal("no error reports that nothing was kept")
	}
	store.listens = true
	end, err := b.CarryOut(t.Context(), turn, call)
	if err != nil || end.Outcome.State != v1alpha1.ToolCallStateSucceeded || end.Kept.Ordinal == 0 || s.Requests() != 1 {
		t.Errorf("it ends with %+v, %v after %d requests", end, err, s.Requests())
	}
}

func TestARequestIsNotSentAgainWhenTheTryHasDied(t *testing.T) {
	s := site.New(t, site.Fine)
	b := newBench(t).reaching(s)
	turn, call := requesting(s, v1alpha1.SideEffectAtMostOnce)
	b.claimFor(turn, call.Attempt.holder)
	call.Attempt.begin()
	end, err := b.CarryOut(t.Context(), turn, call)
	if err != nil || end.Outcome.State != v1alpha1.ToolCallStateUnknown || end.Kept.Ordinal == 0 || s.Requests() != 0 {
		t.Errorf("it ends with %+v, %v after %d requests", end, err, s.Requests())
	}
}

func TestACallThatCannotBeSentIsNotExecuted(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*bench, *Call)
		reason string
	}{
		"its Tool was deleted": {func(_ *bench, c *Call) { c.Definition = nil }, v1alpha1.ToolCallReasonToolChanged},
		"its Tool is another kind": {func(_ *bench, c *Call) {
			c.Definition = definition.Of(&v1alpha1.Tool{Spec: v1alpha1.ToolSpec{Job: &v1alpha1.JobTool{}}})
		}, v1alpha1.ToolCallReasonToolChanged},
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
			s := site.New(t, site.Fine)
			b := newBench(t).reaching(s)
			turn, call := requesting(s, v1alpha1.SideEffectAtMostOnce)
			test.change(b, &call)
			end, err := b.CarryOut(t.Context(), turn, call)
			if err != nil || end.Outcome.State != v1alpha1.ToolCallStateNotExecuted || end.Outcome.Reason != test.reason ||
				end.Outcome.Started ||
				end.Kept.Ordinal == 0 ||
				s.Requests() != 0 {
				t.Errorf("it ends with %+v, %v after %d requests", end, err, s.Requests())
			}
		})
	}
}

func TestALogWithoutRoomStartsNothing(t *testing.T) {
	s := site.New(t, site.Fine)
	b := newBench(t).reaching(s)
	turn, call := requesting(s, v1alpha1.SideEffectAtMostOnce)
	turn.Session.Limit = 10
	end, err := b.CarryOut(t.Context(), turn, call)
	if err != nil || end.Outcome.State != v1alpha1.ToolCallStateNotExecuted ||
		end.Outcome.Reason != v1alpha1.ToolCallReasonLogFull ||
		s.Requests() != 0 {
		t.Fatalf("it ends with %+v, %v after %d requests", end, err, s.Requests())
	}
}
