package session

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/configsource"
	"github.com/capstan-dev/capstan/internal/controller/executor"
	"github.com/capstan-dev/capstan/internal/controller/fieldindex"
	"github.com/capstan-dev/capstan/internal/controller/status"
	"github.com/capstan-dev/capstan/internal/controller/stores"
	"github.com/capstan-dev/capstan/internal/controller/turn"
	"github.com/capstan-dev/capstan/internal/controller/wake"
	"github.com/capstan-dev/capstan/internal/controller/watchdog"
	"github.com/capstan-dev/capstan/internal/runtime/config"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/queue"
	"github.com/capstan-dev/capstan/internal/runtime/step"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// lagRetry is the pause after which a pass that found a stale cache is repeated, if no watch event comes first, and the
// time that a pass waits for the cache to show the last own write before it reads live.
const lagRetry = 5 * time.Second

// Reconciler admits and releases Turns.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Live reads past the cache.
	Live client.Reader
	// Steps closes the step of an active Turn that was deleted, and runs the hooks at its end.
	Steps *step.Runner
	// Texts reads the configuration that the cache leaves out. Not needed with a cache that has whole objects.
	Texts *configsource.Texts
	// Activities runs hooks.
	Activities *executor.Executor
	// Turns decides which Sessions may have an active Turn.
	Turns *fairshare.Turns
	// Wakes enqueues the Sessions that get a free slot.
	Wakes *wake.Source
	// TurnWakes wakes queued Turns whose conditions do not have the current reason.
	TurnWakes *wake.Source
	// Tasks decides which background tasks Sessions show; nil for those that they show.
	Tasks Tasks
	// TraceAgain has the spans of a Turn that was deleted exported, up to an ordinal of the journal; nil for none.
	TraceAgain func(t turnstate.Turn, head int64)
	// Stores knows the stores that this manager has, and NewStore is that of new Sessions.
	Stores   *stores.Router
	NewStore v1alpha1.SessionStore
	// Gone is called when a Session is gone whose store was Postgres; nil for nothing to do.
	Gone func(key types.NamespacedName, uid types.UID)
	// Clock returns the current time.
	Clock func() time.Time
	// Watchdog observes every pass.
	Watchdog *watchdog.Watchdog

	known memory
}

// Tasks decides which background tasks Sessions show.
type Tasks interface {
	// Shown returns the tasks that the status of a Session is to show.
	Shown(session *v1alpha1.Session) []v1alpha1.BackgroundTask
}

// +kubebuilder:rbac:groups=capstan.dev,resources=sessions;turns;harnesses;agents;capabilities;mcpservers;models;tools,verbs=get;list;watch
// +kubebuilder:rbac:groups=capstan.dev,resources=sessions;sessions/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
// +kubebuilder:rbac:groups=capstan.dev,resources=journalentries,verbs=get;create

// scope is the data of one pass.
type scope struct {
	session, base *v1alpha1.Session
	// turns are the Turns that have not ended.
	turns  []*v1alpha1.Turn
	active *v1alpha1.Turn
	usable bool
	// reason and message are those of the Ready condition; an empty reason means that the Session can be used.
	reason, message string
	// resolved is the configuration of the Session, and config what hooks run with.
	resolved *config.Resolved
	config   turnstate.Config
	requeue  time.Duration
}

// Reconcile brings one Session up to date: readiness, start, release, admission, and at most one write. One that is
// being deleted is ended.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	s, err := r.open(ctx, req.NamespacedName)
	if err != nil || s == nil {
		return ctrl.Result{}, err
	}
	if !s.session.DeletionTimestamp.IsZero() {
		return r.end(ctx, s.session)
	}
	if current, err := r.freshen(ctx, s); err != nil || !current {
		return ctrl.Result{RequeueAfter: s.requeue}, err
	}
	if err := r.readiness(ctx, s); err != nil {
		return ctrl.Result{}, fmt.Errorf("resolving the references of the Session: %w", err)
	}
	if !r.hasStore(s) {
		return ctrl.Result{}, r.write(ctx, s)
	}
	if written, err := r.start(ctx, s); err != nil || written {
		return ctrl.Result{RequeueAfter: s.requeue}, err
	}
	if err := r.obstructed(ctx, s, r.setActive(ctx, s)); err != nil {
		return ctrl.Result{}, err
	}
	// At most once in a pass: a condition that changes back and forth gets another transition time, and each write
	// wakes the Session again.
	setReady(s.session, s.reason, s.message, metav1.NewTime(r.Clock()))
	if err := r.write(ctx, s); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: s.requeue}, nil
}

// setActive releases the active Turn once it has ended, and admits the next one.
func (r *Reconciler) setActive(ctx context.Context, s *scope) error {
	if err := r.release(ctx, s); err != nil {
		return fmt.Errorf("releasing: %w", err)
	}
	if err := r.admit(ctx, s); err != nil {
		return fmt.Errorf("admitting: %w", err)
	}
	return nil
}

// open fetches the Session, and its Turns unless it is being deleted. It returns nil for a Session that is gone.
func (r *Reconciler) open(ctx context.Context, key types.NamespacedName) (*scope, error) {
	session := &v1alpha1.Session{}
	err := r.Client.Get(ctx, key, session)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the Session: %w", err)
	}
	if err != nil {
		if uid, ok := r.known.forget(key); ok {
			r.Steps.Log.Forget(journal.Session{Namespace: key.Namespace, Name: key.Name, UID: uid})
			r.Turns.End(uid)
			r.Activities.Cancel(uid)
			r.dropStore(key, uid)
		}
		return nil, nil
	}
	if old, replaced := r.known.observe(key, session.UID); replaced {
		r.Steps.Log.Forget(journal.Session{Namespace: key.Namespace, Name: key.Name, UID: old})
		r.Turns.End(old)
		r.Activities.Cancel(old)
		r.dropStore(key, old)
	}
	r.Steps.Log.Measured(turnstate.JournalOf(session), session.Status.Journal.Bytes)
	if !session.DeletionTimestamp.IsZero() {
		if r.Stores != nil {
			r.Stores.Observe(session)
		}
		return &scope{session: session}, nil
	}
	s := &scope{session: session.DeepCopy(), base: session.DeepCopy()}
	var list v1alpha1.TurnList
	if err := r.Client.List(ctx, &list, client.InNamespace(key.Namespace),
		client.MatchingFields{fieldindex.OpenTurn: key.Name}); err != nil {
		return nil, fmt.Errorf("listing the Session's Turns: %w", err)
	}
	for i := range list.Items {
		s.turns = append(s.turns, &list.Items[i])
	}
	return s, nil
}

// freshen reports whether the pass sees at least the last own write: with an older version the pass waits for the
// watch, for at most lagRetry, and then reads live.
func (r *Reconciler) freshen(ctx context.Context, s *scope) (bool, error) {
	key := client.ObjectKeyFromObject(s.session)
	if !r.behind(s) {
		r.known.caughtUp(key)
		return true, nil
	}
	now := r.Clock()
	if wait := lagRetry - now.Sub(r.known.behind(key, now)); wait > 0 {
		s.requeue = wait
		return false, nil
	}
	session := &v1alpha1.Session{}
	err := r.Live.Get(ctx, key, session)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading the Session past the cache: %w", err)
	}
	if err != nil || session.UID != s.session.UID || !session.DeletionTimestamp.IsZero() {
		// The watch event of that write wakes the Session.
		s.requeue = lagRetry
		return false, nil
	}
	// The API server's version counts, even if versions went back because etcd was restored.
	r.known.recordWrite(key, session.ResourceVersion)
	s.session, s.base = session.DeepCopy(), session
	return true, nil
}

// behind reports whether the cache lags the last own write of the Session.
func (r *Reconciler) behind(s *scope) bool {
	written := r.known.written(client.ObjectKeyFromObject(s.session))
	if written == "" {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(s.session.ResourceVersion, written)
	return err == nil && order < 0
}

// readiness sets the Ready condition from the objects that the Session names.
func (r *Reconciler) readiness(ctx context.Context, s *scope) error {
	resolved, err := configsource.Session(ctx, r.Client, s.session)
	if err != nil {
		return err
	}
	reason, message := resolved.Problem()
	s.usable = reason == ""
	if s.usable {
		message = strings.Join(resolved.Notes(), " ")
	}
	s.reason, s.message, s.resolved = reason, message, resolved
	s.config = turnstate.Config{
		Hooks: resolved.Hooks, Effective: resolved.Effective, Texts: r.Texts.Of(resolved, s.session),
	}
	return nil
}

// release clears the active Turn once it has ended. A Turn that was deleted while it was active has its open step
// closed first, so that no later entry can change its outcome (invariant 2).
func (r *Reconciler) release(ctx context.Context, s *scope) error {
	active := s.session.Status.ActiveTurn
	if active == nil {
		return nil
	}
	if err := r.findActive(ctx, s, active); err != nil {
		return err
	}
	if s.active == nil {
		gone, err := r.gone(ctx, s, active)
		if err != nil || !gone {
			return err
		}
		closed, err := r.Steps.Abandon(ctx, turnstate.JournalOf(s.session),
			v1alpha1.JournalTurn{Name: active.Name, UID: active.UID}, turnstate.AdmissionOf(s.session),
			r.withdraw(s.session.Namespace))
		if err != nil {
			return err
		}
		if closed != nil {
			if ended, err := r.endHooks(ctx, s, closed); err != nil || !ended {
				return err
			}
			addTotals(&s.session.Status.Totals, closed.Transition.Summary)
			s.session.Status.Journal.Head = max(s.session.Status.Journal.Head, closed.Ordinal)
			r.trace(s, closed)
		}
		s.session.Status.ActiveTurn = nil
		r.yield(s)
		return nil
	}
	if !queue.Finished(s.active) {
		return nil
	}
	if ran(s.active) {
		addTotals(&s.session.Status.Totals, s.active.Status.Summary)
	}
	if plan := s.active.Status.Plan; plan != nil && plan.OpenedAtOrdinal > 0 {
		s.session.Status.Journal.Head = max(s.session.Status.Journal.Head, plan.OpenedAtOrdinal-1)
	}
	s.session.Status.ActiveTurn, s.active = nil, nil
	r.yield(s)
	return r.measure(ctx, s)
}

// trace has the spans of a Turn that was deleted exported, that of the Turn included: no pass over the Turn does, and
// the spans of its steps would have no parent.
func (r *Reconciler) trace(s *scope, last *journal.Closed) {
	if r.TraceAgain == nil {
		return
	}
	r.TraceAgain(s.deleted(last), last.Ordinal)
}

// deleted is the active Turn that was deleted, whose last step is the given one.
func (s *scope) deleted(last *journal.Closed) turnstate.Turn {
	t := turnstate.Turn{
		Session: turnstate.JournalOf(s.session), Ref: last.Turn, Harness: s.session.Spec.HarnessRef.Name,
		Continues: turnstate.AdmissionOf(s.session).Continues,
	}
	if agent := s.session.Spec.AgentRef; agent != nil {
		t.Agent = agent.Name
	}
	return t
}

// findActive reads the active Turn, which may have ended.
func (r *Reconciler) findActive(ctx context.Context, s *scope, active *v1alpha1.ActiveTurn) error {
	found := &v1alpha1.Turn{}
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: s.session.Namespace, Name: active.Name}, found)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the active Turn: %w", err)
	}
	if err == nil && found.UID == active.UID {
		s.active = found
	}
	return nil
}

// yield returns the slot of an ended Turn before the next one is admitted: otherwise a Session with an endless queue
// would keep its slot and starve the others. If no Session waits, admission takes the slot again.
func (r *Reconciler) yield(s *scope) {
	r.Turns.End(s.session.UID)
}

// measure updates the size of the journal. The entry that ended the Turn is part of it; what another manager may have
// appended since is measured with the next Turn.
func (r *Reconciler) measure(ctx context.Context, s *scope) error {
	view, err := r.Steps.Log.ViewTo(ctx, turnstate.JournalOf(s.session), s.session.Status.Journal.Head)
	if err != nil {
		return fmt.Errorf("reading the journal: %w", err)
	}
	if err := reaches(s, view); err != nil {
		return err
	}
	s.session.Status.Journal = measured(view)
	return nil
}

// measured is the size of a journal. That of its conversation is left out where it is the same.
func measured(view *journal.View) v1alpha1.JournalStatus {
	size := v1alpha1.JournalStatus{Head: view.Head, Bytes: view.Bytes}
	if view.Conversation != view.Bytes {
		size.ConversationBytes = view.Conversation
	}
	return size
}

// gone reports whether the active Turn does not exist any more; the cache alone is not enough to know.
func (r *Reconciler) gone(ctx context.Context, s *scope, active *v1alpha1.ActiveTurn) (bool, error) {
	found := &v1alpha1.Turn{}
	err := r.Live.Get(ctx, types.NamespacedName{Namespace: s.session.Namespace, Name: active.Name}, found)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading Turn %s past the cache: %w", active.Name, err)
	}
	if found.UID == active.UID {
		s.requeue = lagRetry
		return false, nil
	}
	return true, nil
}

// next returns the Turn to admit; nil for none. A Turn that began in an earlier Session of the name is deleted with
// that Session: its steps are in another journal.
func (s *scope) next() *v1alpha1.Turn {
	return queue.Next(slices.DeleteFunc(slices.Clone(s.turns), s.isForeign))
}

// isForeign reports whether a Turn began in another Session of the name, or delivers the end of a task of one.
func (s *scope) isForeign(t *v1alpha1.Turn) bool {
	if of := t.Spec.Origin.TaskOf(); of != nil && of.Session.UID != s.session.UID {
		return true
	}
	return t.Status.SessionUID != "" && t.Status.SessionUID != s.session.UID
}

// Admitted reports whether this process has admitted the Turn to the Session.
func (r *Reconciler) Admitted(session *v1alpha1.Session, turn types.UID) bool {
	active := session.Status.ActiveTurn
	return active != nil && active.UID == turn &&
		r.known.hasAdmitted(client.ObjectKeyFromObject(session), session.UID, active)
}

// admit makes the next Turn the active one, if the Session can be used and there is a slot.
func (r *Reconciler) admit(ctx context.Context, s *scope) error {
	key := client.ObjectKeyFromObject(s.session)
	if s.session.Status.ActiveTurn != nil {
		r.Turns.Adopt(turn.BegunTurn(s.session, s.active))
		return nil
	}
	next := s.next()
	if next == nil || !s.usable {
		return nil
	}
	if err := r.checkHead(ctx, s); err != nil {
		return err
	}
	begun := func(ctx context.Context) ([]fairshare.Begun, error) { return turn.Begun(ctx, r.Client) }
	if err := r.Turns.Count(ctx, begun); err != nil {
		return err
	}
	begin := r.Turns.Begin
	if next.Spec.Origin.SubAgentOf() != nil {
		begin = r.Turns.BeginReserved
	}
	if !begin(s.session.UID, key.Namespace, func() { r.Wakes.Wake(key) }) {
		return nil
	}
	current := &v1alpha1.Turn{}
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(next), current)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading Turn %s past the cache: %w", next.Name, err)
	}
	if err != nil || current.UID != next.UID || !queue.Runnable(current) || s.isForeign(current) {
		// The cache lags: its next event wakes the Session.
		s.requeue = lagRetry
		return nil
	}
	now := event.MicroTime(r.Clock())
	s.session.Status.ActiveTurn = &v1alpha1.ActiveTurn{
		Name: next.Name, UID: next.UID, OpenedAtOrdinal: s.session.Status.Journal.Head + 1, AdmittedAt: &now,
		AdmittedUID: next.UID, TraceParent: next.Spec.TraceParent,
	}
	s.session.Status.ActiveTurn.QueuedSteers, s.session.Status.ActiveTurn.QueueEnd = queue.QueuedSteers(s.turns, next.UID)
	return nil
}

// write patches the status with optimistic locking, and returns the slot if no Turn is active.
func (r *Reconciler) write(ctx context.Context, s *scope) error {
	key := client.ObjectKeyFromObject(s.session)
	s.session.Status.Phase = phaseOf(&s.session.Status, s.active, s.usable)
	s.session.Status.ObservedGeneration = s.session.Generation
	if r.Tasks != nil {
		s.session.Status.BackgroundTasks = r.Tasks.Shown(s.base)
	}
	if active := s.session.Status.ActiveTurn; active != nil && (s.base.Status.ActiveTurn == nil ||
		s.base.Status.ActiveTurn.UID != active.UID) {
		r.known.admit(key, *active)
	}
	changed, err := status.Patch(ctx, r.Client, s.base, s.session)
	if err != nil {
		r.known.admit(key, v1alpha1.ActiveTurn{})
	}
	if apierrors.IsConflict(err) {
		s.requeue = lagRetry
		return nil
	}
	if err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	if changed {
		r.known.recordWrite(key, s.session.ResourceVersion)
	}
	if s.active != nil && (turnstate.WaitsForReference(&s.active.Status.TurnProgress) ||
		turnstate.WaitsForBudget(&s.active.Status.TurnProgress)) {
		// The configuration of the Session may have changed, for example the Model that the Turn waits for.
		r.TurnWakes.Wake(client.ObjectKeyFromObject(s.active))
	}
	for _, turn := range queue.Outdated(s.session, s.turns, r.Turns.Limit(s.session.UID)) {
		r.TurnWakes.Wake(client.ObjectKeyFromObject(turn))
	}
	if s.session.Status.ActiveTurn == nil && s.requeue == 0 && (s.next() == nil || !s.usable) {
		r.Turns.End(s.session.UID)
	}
	return nil
}
