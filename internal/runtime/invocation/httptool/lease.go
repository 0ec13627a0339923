package httptool

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/backoff"
	"github.com/capstan-dev/capstan/internal/runtime/destination"
	"github.com/capstan-dev/capstan/internal/runtime/invocation/executor"
	"github.com/capstan-dev/capstan/internal/runtime/lease"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/executors"
	"github.com/capstan-dev/capstan/internal/runtime/tool/httpcall"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

// keepFor is how long the write of a lease is repeated before the call is carried out again.
const keepFor = 30 * time.Second

// keepPauses are those between the writes.
var keepPauses = backoff.Exponential{First: 100 * time.Millisecond, Factor: 2, Longest: 5 * time.Second}

// leased returns the work of a call of a Tool with a lease, which keeps the lease on what the call creates or uses
// (LEASE-01). No call that creates something is sent unless it can be cleaned up.
func leased(
	ctx context.Context, p executor.Process, c executor.Call, spec *v1alpha1.ToolSpec, w executor.Work,
) (executor.Work, error) {
	if spec.Lease == nil || p.Leases == nil || w.Refused != nil {
		return w, nil
	}
	of := leaseOf{host: p.Leases, call: c, spec: spec}
	if spec.Lease.ExternalIDFrom == v1alpha1.LeaseIDSourceArguments {
		w.Do = of.using(w.Do)
		return w, nil
	}
	refused, err := of.prepare(ctx)
	if err != nil || refused != nil {
		return executor.Work{Refused: refused, Abandoned: httpcall.Abandoned()}, err
	}
	w.Do = of.creating(w.Do)
	return w, nil
}

// do carries out a call.
type do = func(ctx context.Context) (tool.Outcome, error)

// leaseOf is the lease of a call.
type leaseOf struct {
	host    lease.Host
	call    executor.Call
	spec    *v1alpha1.ToolSpec
	cleanup v1alpha1.LeaseCleanup
}

func (l *leaseOf) owner() lease.Owner {
	return lease.Owner{Namespace: l.call.Session.Namespace, Name: l.call.Session.Name, UID: l.call.Session.UID}
}

// request is the use of a resource by the call.
func (l *leaseOf) request(of lease.Identity) lease.Request {
	return lease.Request{
		Owner: l.owner(), Identity: of, Duration: l.spec.Lease.Duration.Duration,
		Turn: l.call.Turn.Name, Tool: l.call.Call.Name, Call: l.call.Call.ID, User: l.call.User, Cleanup: l.cleanup,
	}
}

// prepare finds the clean-up of what the call creates, or returns the outcome of a call that must not create anything.
func (l *leaseOf) prepare(ctx context.Context) (*tool.Outcome, error) {
	refuse := func(why string) *tool.Outcome {
		refused := httpcall.NotSent(l.call.Call, v1alpha1.ToolCallReasonLeaseUnavailable, why)
		return &refused
	}
	ref := l.spec.Lease.Cleanup.ToolRef
	l.cleanup.ToolRef = ref
	cleaner, err := l.host.Cleaner(ctx, l.request(lease.Identity{
		Provider: l.spec.Lease.Provider, Type: l.spec.Lease.Type,
	}))
	var refused *lease.RefusedError
	if errors.As(err, &refused) && refused.Repeated {
		ran := tool.AfterStart(tool.Failed(v1alpha1.ToolCallReasonLeaseUnavailable, fmt.Sprintf(
			"The tool was sent the call before, and what it has created has a lease. Its result is lost, and it was not sent "+
				"the call again: %s.", refused.Error())))
		return &ran, nil
	}
	if errors.As(err, &refused) {
		return refuse(refused.Error()), nil
	}
	if err != nil {
		return nil, fmt.Errorf("preparing the lease of call %s: %w", l.call.Call.ID, err)
	}
	if !l.call.Network.InForce() {
		return nil, nil
	}
	base, _ := destination.Of(l.call.Session.Namespace, cleaner.Spec.HTTP.URL, cleaner.Spec.HTTP.ServiceRef)
	u, err := url.Parse(base)
	if err != nil || !l.call.Network.Permits(u) {
		return refuse(fmt.Sprintf("the network access list does not permit the request of the Tool %s, which would clean up "+
			"what it creates", ref.Name)), nil
	}
	l.cleanup.ConfinedTo = lease.Origin(u)
	return nil, nil
}

// using returns the work of a call that uses a resource: its lease is extended before the request, so that it lasts.
func (l *leaseOf) using(send do) do {
	return func(ctx context.Context) (tool.Outcome, error) {
		of, known := l.identity(l.call.Arguments)
		if !known {
			return send(ctx)
		}
		last := l.spec.Lease.Duration.Duration + executors.Named(v1alpha1.ToolExecutorHTTP).TimeoutOf(l.call.Call, l.spec)
		err := again(ctx, func(ctx context.Context) error {
			_, err := l.host.Extend(ctx, l.owner(), of, last)
			return err
		})
		var refused *lease.RefusedError
		switch {
		case errors.As(err, &refused):
			return tool.NotExecuted(v1alpha1.ToolCallReasonLeaseUnavailable, refused.Error()), nil
		case err != nil:
			return tool.NotExecuted(
				v1alpha1.ToolCallReasonLeaseUnavailable,
				"the lease on what it uses could not be extended",
			), err
		}
		return send(ctx)
	}
}

// creating returns the work of a call that creates a resource: its lease is kept before the call has an outcome. A Turn
// that ends meanwhile does not end the request: its response has the id.
func (l *leaseOf) creating(send do) do {
	return func(ctx context.Context) (tool.Outcome, error) {
		ctx, cancel := beyondTurn(ctx)
		defer cancel()
		outcome, defect := send(ctx)
		if outcome.State != v1alpha1.ToolCallStateSucceeded || outcome.Result == nil {
			return outcome, defect
		}
		of, known := l.identity(*outcome.Result)
		if !known {
			return notKept(outcome, fmt.Sprintf("its result has no id at %s", l.spec.Lease.ExternalIDPath)), defect
		}
		err := again(ctx, func(ctx context.Context) error {
			return l.host.Keep(ctx, l.request(of))
		})
		var refused *lease.RefusedError
		switch {
		case errors.As(err, &refused):
			if refused.Foreign {
				return foreign(outcome, refused.Error()), defect
			}
			return notKept(outcome, refused.Error()), defect
		case err != nil:
			// The call is Idempotent: it is sent again, with the same key.
			return tool.Outcome{}, fmt.Errorf("%w: keeping the lease of call %s: %w", executor.ErrAgain, l.call.Call.ID, err)
		}
		return outcome, defect
	}
}

// identity returns the resource whose id a JSON text has; false if it has none.
func (l *leaseOf) identity(text string) (lease.Identity, bool) {
	id, known := lease.FindID(text, l.spec.Lease.ExternalIDPath)
	return lease.Identity{Provider: l.spec.Lease.Provider, Type: l.spec.Lease.Type, ExternalID: id}, known
}

// notKept is the outcome of a call that has succeeded, and that has no lease on what it may have created.
func notKept(of tool.Outcome, why string) tool.Outcome {
	return ranWithout(
		of,
		"The tool has run, but there is no lease on what it may have created, so that nothing cleans that "+
			"up: "+why+". Clean it up yourself.",
	)
}

// foreign is the outcome of a call that has succeeded, and has returned what belongs to another Session.
func foreign(of tool.Outcome, why string) tool.Outcome {
	return ranWithout(of, "The tool has run, and has returned what it did not create for this Session: "+why+
		". Do not clean it up.")
}

// ranWithout is the outcome of a call that has succeeded, and that has no lease.
func ranWithout(of tool.Outcome, text string) tool.Outcome {
	failed := tool.AfterStart(tool.Failed(v1alpha1.ToolCallReasonLeaseNotKept, fmt.Sprintf(
		"%s The start of the result:\n%s", text, result.Head(*of.Result, tool.MaxErrorBodyBytes))))
	failed.Payment = of.Payment
	return failed
}

// again repeats a write until it succeeds, is refused, or has failed for a while.
func again(ctx context.Context, write func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, keepFor)
	defer cancel()
	for failures := 1; ; failures++ {
		err := write(ctx)
		if err == nil || errors.As(err, new(*lease.RefusedError)) {
			return err
		}
		if backoff.Wait(ctx, keepPauses.After(failures)) != nil {
			return err
		}
	}
}

// beyondTurn returns a context that ends with the process, but not with the Turn of the call.
func beyondTurn(ctx context.Context) (context.Context, context.CancelFunc) {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if !errors.Is(context.Cause(ctx), executor.ErrCallEnded) {
			cancel()
		}
	})
	return own, func() {
		stop()
		cancel()
	}
}
