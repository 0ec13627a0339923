package invocation

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/config"
	"github.com/capstan-dev/capstan/internal/runtime/invocation/executor"
	"github.com/capstan-dev/capstan/internal/runtime/lease"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
	"github.com/capstan-dev/capstan/internal/testing/site"
)

// leases is a host of leases with a Tool that cleans up.
type leases struct {
	cleaner *v1alpha1.Tool
	// sent reports whether the call has a lease already.
	sent bool
	// refused is why no lease is kept; errs are the errors of the next writes.
	refused error
	errs    []error
	kept    []lease.Request
	used    []lease.Identity
	until   []time.Duration
}

// Cleaner implements lease.Host.
func (l *leases) Cleaner(context.Context, lease.Request) (*v1alpha1.Tool, error) {
	if l.cleaner == nil && l.sent {
		return nil, lease.RefuseRepeatedf("it does not exist")
	}
	if l.cleaner == nil {
		return nil, lease.Refusef("it does not exist")
	}
	return l.cleaner, nil
}

// Keep implements lease.Host.
func (l *leases) Keep(_ context.Context, r lease.Request) error {
	if len(l.errs) > 0 {
		err := l.errs[0]
		l.errs = l.errs[1:]
		return err
	}
	if l.refused == nil {
		l.kept = append(l.kept, r)
	}
	return l.refused
}

// Extend implements lease.Host.
func (l *leases) Extend(_ context.Context, _ lease.Owner, of lease.Identity, d time.Duration) (bool, error) {
	l.used, l.until = append(l.used, of), append(l.until, d)
	return l.refused == nil, l.refused
}

// Release implements lease.Host.
func (l *leases) Release(context.Context, lease.Owner, lease.Identity) (v1alpha1.LeaseState, error) {
	return "", nil
}

// leasing is a host of leases, and a call of a Tool with one, whose server responds with a text.
func leasing(t *testing.T, text string) (*bench, *leases, *v1alpha1.Tool, *site.Site) {
	return leasingAt(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
}

// leasingAt is leasing with a server.
func leasingAt(t *testing.T, handler http.HandlerFunc) (*bench, *leases, *v1alpha1.Tool, *site.Site) {
	s := site.New(t, handler)
	host := &leases{cleaner: toolOf(s)}
	b := newBench(t).reaching(s)
	b.Leases = host
	tool := toolOf(s)
	tool.Spec.SideEffect = v1alpha1.SideEffectIdempotent
	tool.Spec.Lease = &v1alpha1.ToolLease{
		Provider: "p", Type: "vm", ExternalIDFrom: v1alpha1.LeaseIDSourceResult, ExternalIDPath: "/id",
		Duration: metav1.Duration{Duration: time.Hour},
		Cleanup:  &v1alpha1.ToolLeaseCleanup{ToolRef: v1alpha1.LocalReference{Name: "clean"}},
	}
	return b, host, tool, s
}

// carry carries out a call of a Tool as ann.
func carry(
	ctx context.Context, t *testing.T, b *bench, tool *v1alpha1.Tool, network config.NetworkAccess,
) (End, error) {
	t.Helper()
	turn, call := acting(v1alpha1.ToolExecutorHTTP, v1alpha1.SideEffectIdempotent)
	turn.SubmittedBy = "ann"
	return b.CarryOut(ctx, turn, Call{
		Call:       call,
		Arguments:  `{"id": "vm-7"}`,
		Definition: definition.Of(tool),
		Attempt:    NewAttempt(&Line{}),
		Network:    network,
	})
}

// Rules: LEASE-01.
func TestACallKeepsTheLeaseOnWhatItCreates(t *testing.T) {
	b, host, tool, s := leasing(t, `{"id": "vm-1"}`)
	host.errs = []error{errors.New("the API server is not reachable")}
	end, err := carry(t.Context(), t, b, tool, config.NetworkAccess{})
	if err != nil || end.Outcome.State != v1alpha1.ToolCallStateSucceeded || *end.Outcome.Result != `{"id": "vm-1"}` {
		t.Fatalf("it ends with %+v, %v", end, err)
	}
	want := lease.Request{
		Owner:    lease.Owner{Namespace: "ns", Name: "demo", UID: "session-uid"},
		Identity: lease.Identity{Provider: "p", Type: "vm", ExternalID: "vm-1"}, Duration: time.Hour,
		Turn: "demo-1", Tool: "ask", Call: "1-0", User: "ann",
		Cleanup: v1alpha1.LeaseCleanup{ToolRef: v1alpha1.LocalReference{Name: "clean"}},
	}
	if len(host.kept) != 1 || host.kept[0] != want || s.Requests() != 1 {
		t.Errorf("the leases are %+v after %d requests", host.kept, s.Requests())
	}
}

// Rules: LEASE-01.
func TestACallWithoutALeaseOnWhatItCreatesHasFailed(t *testing.T) {
	for name, test := range map[string]struct {
		response string
		refused  error
		want     string
	}{
		"no id":     {`{"name": "vm"}`, nil, "its result has no id at /id"},
		"a refusal": {`{"id": "vm-1"}`, lease.Refusef("a quota"), "a quota. Clean it up yourself"},
		"another's": {`{"id": "vm-1"}`, lease.RefuseForeignf("another Session"), "another Session. Do not clean it up"},
	} {
		b, host, tool, _ := leasing(t, test.response)
		host.refused = test.refused
		end, err := carry(t.Context(), t, b, tool, config.NetworkAccess{})
		o := end.Outcome
		if err != nil || o.State != v1alpha1.ToolCallStateFailed || o.Reason != v1alpha1.ToolCallReasonLeaseNotKept ||
			!o.Started || !strings.Contains(o.Error, test.want) || !strings.Contains(o.Error, test.response) {
			t.Errorf("%s: it ends with %+v, %v", name, o, err)
		}
	}
}

// Rules: LEASE-01.
func TestNothingIsCreatedThatCannotBeCleanedUp(t *testing.T) {
	b, host, tool, s := leasing(t, `{"id": "vm-1"}`)
	host.cleaner = nil
	end, err := carry(t.Context(), t, b, tool, config.NetworkAccess{})
	if err != nil || end.Outcome.State != v1alpha1.ToolCallStateNotExecuted ||
		end.Outcome.Reason != v1alpha1.ToolCallReasonLeaseUnavailable || s.Requests() != 0 {
		t.Errorf("it ends with %+v, %v after %d requests", end, err, s.Requests())
	}
}

// Rules: LEASE-01.
func TestACallThatWasSentBeforeIsNotSaidToHaveChangedNothing(t *testing.T) {
	b, host, tool, s := leasing(t, `{"id": "vm-1"}`)
	host.cleaner, host.sent = nil, true
	end, err := carry(t.Context(), t, b, tool, config.NetworkAccess{})
	o := end.Outcome
	if err != nil || o.State != v1alpha1.ToolCallStateFailed || o.Reason != v1alpha1.ToolCallReasonLeaseUnavailable ||
		!o.Started || strings.Contains(o.Error, "changed nothing") || s.Requests() != 0 {
		t.Errorf("it ends with %+v, %v after %d requests", o, err, s.Requests())
	}
}

// Rules: LEASE-01.
func TestTheUseOfAResourceExtendsItsLeaseBeforeTheRequest(t *testing.T) {
	b, host, tool, s := leasing(t, "fine")
	tool.Spec.HTTP.Timeout = &metav1.Duration{Duration: time.Minute}
	tool.Spec.Lease.ExternalIDFrom, tool.Spec.Lease.Cleanup = v1alpha1.LeaseIDSourceArguments, nil
	end, err := carry(t.Context(), t, b, tool, config.NetworkAccess{})
	if err != nil || end.Outcome.State != v1alpha1.ToolCallStateSucceeded || len(host.kept) != 0 || len(host.used) != 1 ||
		host.used[0].ExternalID != "vm-7" || host.until[0] != time.Hour+time.Minute {
		t.Errorf("it ends with %+v, %v; the leases are %+v", end, err, host)
	}
	host.refused = lease.Refusef("it is deleted")
	end, err = carry(t.Context(), t, b, tool, config.NetworkAccess{})
	if err != nil || end.Outcome.Reason != v1alpha1.ToolCallReasonLeaseUnavailable || s.Requests() != 1 {
		t.Errorf("it ends with %+v, %v after %d requests", end, err, s.Requests())
	}
}

// Rules: LEASE-01.
func TestTheEndOfATurnLosesNoLease(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	b, host, tool, _ := leasingAt(t, func(w http.ResponseWriter, _ *http.Request) {
		cancel(executor.ErrCallEnded)
		_, _ = io.WriteString(w, `{"id": "vm-1"}`)
	})
	end, err := carry(ctx, t, b, tool, config.NetworkAccess{})
	if err != nil || len(host.kept) != 1 {
		t.Errorf("it ends with %+v, %v; the leases are %+v", end, err, host.kept)
	}
}

// Rules: LEASE-01, LEASE-04.
func TestTheCleanUpIsWithinTheNetworkAccessList(t *testing.T) {
	b, host, tool, s := leasing(t, `{"id": "vm-1"}`)
	network := config.Fold(v1alpha1.ConfigLayer{
		NetworkAccess: &v1alpha1.NetworkAccess{Allowed: []v1alpha1.NetworkPattern{"127.0.0.1"}},
	}).Network
	if _, err := carry(t.Context(), t, b, tool, network); err != nil || len(host.kept) != 1 ||
		host.kept[0].Cleanup.ConfinedTo != s.URL {
		t.Errorf("the lease is %+v, %v; want one that is confined to %s", host.kept, err, s.URL)
	}
	host.cleaner.Spec.HTTP.URL = "https://elsewhere.example"
	end, err := carry(t.Context(), t, b, tool, network)
	if err != nil || end.Outcome.Reason != v1alpha1.ToolCallReasonLeaseUnavailable || s.Requests() != 1 {
		t.Errorf("it ends with %+v, %v after %d requests", end, err, s.Requests())
	}
}
