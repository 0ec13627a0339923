package turn

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/configsource"
	"github.com/capstan-dev/capstan/internal/controller/executor"
	"github.com/capstan-dev/capstan/internal/controller/notice"
	"github.com/capstan-dev/capstan/internal/controller/policies"
	"github.com/capstan-dev/capstan/internal/controller/tombstone"
	"github.com/capstan-dev/capstan/internal/controller/wake"
	"github.com/capstan-dev/capstan/internal/controller/watchdog"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/step"
	"github.com/capstan-dev/capstan/internal/runtime/tool/jobspec"
)

// maxRounds bounds the rounds of one pass before other Turns get the worker. A step needs at most a few rounds.
const maxRounds = 16

// Reconciler advances Turns.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Live reads past the cache.
	Live client.Reader
	// Texts reads the configuration that the cache leaves out. Not needed with a cache that has whole objects.
	Texts *configsource.Texts
	// Steps runs the steps and appends to the journal.
	Steps *step.Runner
	// Activities runs slow work.
	Activities *executor.Executor
	// Turns decides which Turns may start work.
	Turns *fairshare.Turns
	// Progress bounds the writes that only show progress. Nil bounds nothing.
	Progress *fairshare.Rate
	// Logs reads the log of a tool's container.
	Logs LogReader
	// Launcher is added to tool pods.
	Launcher jobspec.Launcher
	// Policies holds back steps that need a Secret while an admission policy of the installation is missing. Nil holds
	// nothing back.
	Policies *policies.Verifier
	// JobRetention is how long the Jobs of a finished Turn are kept.
	JobRetention time.Duration
	// Admitted reports whether this process has admitted the Turn to its Session. Nil reports that it has not.
	Admitted func(session *v1alpha1.Session, turn types.UID) bool
	// Clock returns the current time.
	Clock func() time.Time
	// Watchdog observes every pass.
	Watchdog *watchdog.Watchdog
	// Notices records Events that users have to act on. Nil records none.
	Notices *notice.Recorder
	// Traces exports spans again that an earlier process may have lost. Nil if no spans are exported.
	Traces *Retracer
	// Wakes enqueues the Turns of ended activities.
	Wakes *wake.Source

	memories memories
	// gone are Sessions that are gone or being deleted.
	gone        tombstone.Set
	accounts    accounts
	withdrawals withdrawals
}

// LogReader reads the log of the tool container of a pod.
type LogReader interface {
	// ToolLog returns the whole log. The caller closes it.
	ToolLog(ctx context.Context, pod *corev1.Pod) (ReadCloser, error)
}

// +kubebuilder:rbac:groups=capstan.dev,resources=turns,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=capstan.dev,resources=turns/status,verbs=patch
// +kubebuilder:rbac:groups=capstan.dev,resources=sessions;harnesses;agents;capabilities;mcpservers;models;tools;toolresults,verbs=get;list;watch
// +kubebuilder:rbac:groups=capstan.dev,resources=sessions,verbs=create
// +kubebuilder:rbac:groups=capstan.dev,resources=toolresults/status,verbs=patch
// +kubebuilder:rbac:groups=capstan.dev,resources=journalentries,verbs=get;create
// +kubebuilder:rbac:groups=capstan.dev,resources=records,verbs=get;create;update;delete
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;delete;deletecollection
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups="",resources=pods/log,verbs=get
// +kubebuilder:rbac:groups="",resources=events,verbs=list
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile advances one Turn as far as it goes without waiting.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	s, err := r.open(ctx, req.NamespacedName)
	if err != nil || s == nil {
		return ctrl.Result{}, err
	}
	if s.behind {
		return s.result(r.Clock()), nil
	}
	ctx = s.logged(ctx)
	s.memory.passes++
	defer r.returnRoom(s, s.memory.step.budget.Granted())
	defer r.leaveLine(s)
	for range maxRounds {
		s.wakeAt = time.Time{} // The deadlines of an earlier round are those of another state.
		flow, passed := r.pass(ctx, s)
		flow, written := r.write(ctx, s, flow)
		if passed == nil && written == nil && flow == again {
			continue
		}
		flow, cause := r.report(ctx, s, errors.Join(passed, written))
		if _, err := r.write(ctx, s, flow); err != nil || cause != nil {
			return ctrl.Result{}, errors.Join(cause, err)
		}
		return s.result(r.Clock()), nil
	}
	return ctrl.Result{RequeueAfter: time.Millisecond}, nil
}

// pass runs the phases in order. The first that does not proceed ends the pass. The status that a phase wants written
// is written also if something else has failed: one call does not delay the others.
func (r *Reconciler) pass(ctx context.Context, s *scope) (flow, error) {
	s.memory.step.awaitsRoom, s.memory.step.awaitsSlot = false, false
	phases := []struct {
		name string
		run  func(context.Context, *scope) (flow, error)
	}{
		{"reading the Session", r.session},
		{"exporting spans again", r.traceFinished},
		{"cleaning up", r.cleanUp},
		{"resolving the delivery", r.steered},
		{"checking admission", r.admission},
		{"checking the journal", r.checkJournal},
		{"restoring from the journal", r.recall},
		{"starting the Turn", r.begin},
		{"loading the step", r.lookUp},
		{"updating status", r.project},
		{"cancelling", r.cancel},
		{"checking the deadlines", r.expire},
		{"running the model call", r.reason},
		{"running the tool calls", r.act},
	}
	for _, phase := range phases {
		flow, err := phase.run(ctx, s)
		if err != nil {
			return flow, fmt.Errorf("%s: %w", phase.name, err)
		}
		if flow != proceed {
			return flow, nil
		}
	}
	return stop, nil
}

// open fetches the Turn and its memory. It returns nil for a Turn that is gone.
func (r *Reconciler) open(ctx context.Context, key types.NamespacedName) (*scope, error) {
	turn := &v1alpha1.Turn{}
	if err := r.Client.Get(ctx, key, turn); err != nil {
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading the Turn: %w", err)
		}
		for _, uid := range r.memories.forget(key) {
			r.Activities.Cancel(uid)
		}
		return nil, nil
	}
	if replaced := r.memories.replaced(key, turn.UID); replaced != "" {
		r.Activities.Cancel(replaced)
	}
	s := &scope{turn: turn.DeepCopy(), base: turn.DeepCopy(), live: r.Live, memory: r.memories.of(key, turn.UID)}
	return s, r.freshen(ctx, s)
}

// isOurs reports whether the manager created the object.
func isOurs(o client.Object) bool {
	return o.GetLabels()[v1alpha1.LabelManagedBy] == v1alpha1.ManagedByCapstan &&
		o.GetLabels()[v1alpha1.LabelTurnUID] != ""
}
