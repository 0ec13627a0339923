package lease

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/executor"
	"github.com/capstan-dev/capstan/internal/controller/notice"
	"github.com/capstan-dev/capstan/internal/controller/turn"
	"github.com/capstan-dev/capstan/internal/runtime/destination"
	invocation "github.com/capstan-dev/capstan/internal/runtime/invocation/executor"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/lease"
	"github.com/capstan-dev/capstan/internal/runtime/ratelimit"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
	"github.com/capstan-dev/capstan/internal/runtime/tool/executors"
)

const (
	// callPrefix and the number of the attempt make the id of a call that cleans up, for its Idempotency-Key.
	callPrefix = "cleanup-"
	// maxClaims bounds the clean-ups of a namespace that this process has claimed, and placePause is the time after which
	// a lease beyond them asks again.
	maxClaims  = 8
	placePause = 2 * time.Second
	// policiesPause is the time after which a lease asks again whether the admission policies are in force.
	policiesPause = 10 * time.Second
)

// claim is a clean-up of this process.
type claim struct {
	// of is the LeasedResource.
	of  types.NamespacedName
	key executor.Key
	// at is the time that claims the clean-up in the status.
	at metav1.MicroTime
	// end is how the request has ended, until the status has it; nil before.
	end *executor.Result
}

func (r *Reconciler) claimOf(uid types.UID) *claim {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, known := r.claims[uid]; known {
		return &c
	}
	return nil
}

func (r *Reconciler) keepClaim(uid types.UID, c claim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.claims[uid] = c
}

// reserve takes one of the places of a namespace for the clean-up of a resource, and reports whether there was one.
// drop frees it.
func (r *Reconciler) reserve(l *v1alpha1.LeasedResource) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	number := 0
	for _, c := range r.claims {
		if c.of.Namespace == l.Namespace {
			number++
		}
	}
	if number >= maxClaims {
		return false
	}
	if r.claims == nil {
		r.claims = map[types.UID]claim{}
	}
	r.claims[l.UID] = claim{of: client.ObjectKeyFromObject(l)}
	return true
}

// drop ends the clean-up of this process, whose claim does not stand any more.
func (r *Reconciler) drop(uid types.UID) {
	r.mu.Lock()
	delete(r.claims, uid)
	r.mu.Unlock()
	r.Activities.Cancel(uid)
}

// claim claims the clean-up of a resource, and sends its request. One that cannot be sent has failed.
func (r *Reconciler) claim(ctx context.Context, l *v1alpha1.LeasedResource) (ctrl.Result, error) {
	cleaner, why, err := r.cleaner(ctx, l)
	if err != nil {
		return ctrl.Result{}, err
	}
	if why != "" {
		if cleaner == nil && !l.DeletionTimestamp.IsZero() && r.terminating(ctx, l.Namespace) {
			return retryConflict(r.finish(ctx, l, v1alpha1.LeaseStateAbandoned, ""))
		}
		return retryConflict(r.fail(ctx, l, why))
	}
	if r.Policies.InForce() != nil && turn.Lent(definition.Of(cleaner)) {
		return ctrl.Result{RequeueAfter: policiesPause}, nil
	}
	if !r.reserve(l) {
		return ctrl.Result{RequeueAfter: placePause}, nil
	}
	claimed := false
	defer func() {
		if !claimed {
			r.drop(l.UID)
		}
	}()
	if limit := cleaner.Spec.CallsPerMinute; limit != nil && r.Limits != nil &&
		l.Status.State != v1alpha1.LeaseStateCleaning {
		allowed, retryAfter := r.Limits.Allow(ctx, ratelimit.Tool{
			Namespace: l.Namespace, Kind: string(definition.KindTool), Name: cleaner.Name, UID: cleaner.UID,
		}, *limit)
		if !allowed {
			return ctrl.Result{RequeueAfter: max(retryAfter, time.Second)}, nil
		}
	}
	limit := executors.Named(v1alpha1.ToolExecutorHTTP).TimeoutOf(v1alpha1.ToolCall{}, &cleaner.Spec)
	if err := r.write(ctx, l, lease.Begun(l, limit, r.Clock()), ""); err != nil {
		return retryConflict(err)
	}
	own := claim{
		of:  client.ObjectKeyFromObject(l),
		key: executor.Key{Turn: l.UID, Call: callPrefix + fmt.Sprint(l.Status.CleanupAttempts), Attempt: 1},
		at:  *l.Status.CleanupStartedAt,
	}
	r.keepClaim(l.UID, own)
	claimed = true
	_, _ = r.Activities.Ensure(own.key, own.of, executor.Need{Continues: true}, r.request(l.DeepCopy(), own.key.Call))
	return ctrl.Result{RequeueAfter: max(l.Status.ClaimExpiresAt.Sub(r.Clock()), time.Millisecond)}, nil
}

// cleaner returns the Tool that cleans a resource up, or why it cannot. It is nil if it does not exist.
func (r *Reconciler) cleaner(ctx context.Context, l *v1alpha1.LeasedResource) (*v1alpha1.Tool, string, error) {
	found, err := r.tool(ctx, l.Namespace, l.Spec.Cleanup.ToolRef.Name)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Sprintf("The Tool %s does not exist.", l.Spec.Cleanup.ToolRef.Name), nil
	}
	if err != nil {
		return nil, "", err
	}
	if why := lease.CheckCleaner(&found.Spec, l.Spec.User); why != "" {
		return found, fmt.Sprintf("The Tool %s cannot be used: %s.", found.Name, why), nil
	}
	confined := l.Spec.Cleanup.ConfinedTo
	if confined == "" {
		return found, "", nil
	}
	base, _ := destination.Of(l.Namespace, found.Spec.HTTP.URL, found.Spec.HTTP.ServiceRef)
	if to, err := url.Parse(base); err != nil || lease.Origin(to) != confined {
		return found, fmt.Sprintf("The Tool %s sends requests to another place than %s, which the network access list "+
			"of the Session permitted.", found.Name, confined), nil
	}
	return found, "", nil
}

// tool returns a whole Tool.
func (r *Reconciler) tool(ctx context.Context, namespace, name string) (*v1alpha1.Tool, error) {
	cached := &v1alpha1.Tool{}
	if err := r.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, cached); err != nil {
		return nil, err
	}
	return r.Texts.Tool(ctx, cached)
}

// request returns the request that cleans a resource up. It reads the Tool once it has a place: many requests may wait.
func (r *Reconciler) request(l *v1alpha1.LeasedResource, id string) executor.Func {
	return func(ctx context.Context) (any, error) {
		cleaner, why, err := r.cleaner(ctx, l)
		if err != nil {
			return nil, err
		}
		if why != "" {
			return tool.Outcome{State: v1alpha1.ToolCallStateFailed, Error: why}, nil
		}
		planned := definition.Of(cleaner)
		call := v1alpha1.ToolCall{ID: id, Name: cleaner.Name, Attempt: 1}
		planned.Pin(&call)
		return r.Caller.Alone(ctx, invocation.Call{
			Session: journal.Session{
				Namespace: l.Namespace, Name: l.Spec.SessionRef.Name, UID: l.Spec.SessionRef.UID,
			},
			Turn: v1alpha1.JournalTurn{Name: l.Spec.Turn, UID: l.UID},
			User: l.Spec.User, Call: call, Definition: planned, Confined: true,
			Arguments: lease.Arguments(lease.Identity{
				Provider: l.Spec.Provider, Type: l.Spec.Type, ExternalID: l.Spec.ExternalID,
			}),
		})
	}
}

// settle records the end of the clean-up of this process, whose claim stands, and reports whether there is one.
func (r *Reconciler) settle(ctx context.Context, l *v1alpha1.LeasedResource, own *claim) (bool, error) {
	if own.end == nil {
		if !r.Activities.Known(own.key) {
			r.drop(l.UID) // It was cancelled.
			return true, nil
		}
		result, done := r.Activities.Ensure(own.key, own.of, executor.Need{}, nil)
		if !done {
			return false, nil
		}
		own.end = &result
		r.keepClaim(l.UID, *own)
	}
	err := r.conclude(ctx, l, own.end)
	if err == nil || apierrors.IsNotFound(err) {
		r.drop(l.UID)
	}
	return true, err
}

// conclude records how a request has ended.
func (r *Reconciler) conclude(ctx context.Context, l *v1alpha1.LeasedResource, end *executor.Result) error {
	outcome, _ := end.Value.(tool.Outcome)
	switch {
	case end.Err != nil:
		ctrl.LoggerFrom(ctx).Error(end.Err, "Failed to clean up a leased resource")
		return r.fail(ctx, l, "The request could not be prepared.")
	case outcome.State == v1alpha1.ToolCallStateSucceeded:
		return r.finish(ctx, l, v1alpha1.LeaseStateReleased, "")
	case outcome.Status == http.StatusNotFound, outcome.Status == http.StatusGone:
		return r.finish(ctx, l, v1alpha1.LeaseStateReleased,
			"The resource counts as cleaned up: "+shown(outcome)+" If the path of the Tool is wrong, it may still exist.")
	default:
		return r.fail(ctx, l, shown(outcome))
	}
}

// shown is why a clean-up has failed, without any text from the server.
func shown(outcome tool.Outcome) string {
	if outcome.Asked != nil {
		return "The connection of the user is missing."
	}
	if outcome.Status != 0 {
		return strings.TrimSpace(fmt.Sprintf("The server responded with status %d %s", outcome.Status,
			http.StatusText(outcome.Status))) + "."
	}
	line, _, _ := strings.Cut(outcome.Error, "\n")
	return line
}

// fail records that a clean-up has failed.
func (r *Reconciler) fail(ctx context.Context, l *v1alpha1.LeasedResource, why string) error {
	if err := r.write(ctx, l, lease.Failed(l, why, r.Clock()), ""); err != nil {
		return err
	}
	cleanups.WithLabelValues(resultFailed).Inc()
	if l.Status.CleanupFailures == lease.StalledAfter {
		r.Notices.Record(l, notice.Notice{
			Warning: true, Reason: v1alpha1.ReasonCleanupFailed, Action: "CleanUp",
			Message: fmt.Sprintf("The resource could not be cleaned up, %d times in a row. Its condition Ready has the reason.",
				lease.StalledAfter),
		})
	}
	return nil
}
