package turn

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/executor"
	"github.com/capstan-dev/capstan/internal/controller/wake"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/invocation"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/format"
	journalmemory "github.com/capstan-dev/capstan/internal/runtime/journal/memory"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/modelcall"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
	"github.com/capstan-dev/capstan/internal/runtime/step"
	"github.com/capstan-dev/capstan/internal/runtime/tool/inputschema"
)

// gatedStore is an entry store that refuses entries as with an exhausted quota, and records its calls.
type gatedStore struct {
	journal.Store
	mu      sync.Mutex
	refuses bool
	dryRuns int
	creates int
}

func (g *gatedStore) Create(ctx context.Context, s journal.Session, e *v1alpha1.JournalEntrySpec) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.creates++
	if g.refuses {
		return errors.Join(journal.ErrRefused, errQuota)
	}
	return g.Store.Create(ctx, s, e)
}

func (g *gatedStore) DryRun(context.Context, journal.Session, *v1alpha1.JournalEntrySpec) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dryRuns++
	if g.refuses {
		return errors.Join(journal.ErrRefused, errQuota)
	}
	return nil
}

func (g *gatedStore) lift() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refuses = false
}

var errQuota = apierrors.NewForbidden(schema.GroupResource{Group: "capstan.dev", Resource: "journalentries"}, "e",
	errors.New("exceeded quota: few, requested: count/journalentries.capstan.dev=1"))

// stage is one admitted Turn and the real reconciler, with a fake API server, an in-memory journal and a model that
// counts its calls.
type stage struct {
	t      *testing.T
	r      *Reconciler
	client client.Client
	store  *gatedStore
	woken  chan types.NamespacedName
	now    time.Time
	mu     sync.Mutex
	asked  int
	answer func() (*model.Response, error)
	models *fairshare.Pool
}

func (st *stage) Generate(context.Context, model.Request) (*model.Response, error) {
	st.mu.Lock()
	st.asked++
	st.mu.Unlock()
	return st.answer()
}

func newStage(t *testing.T) *stage {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), clientgoscheme.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	meta := func(name string, uid types.UID) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uid, Generation: 1}
	}
	turn := &v1alpha1.Turn{ObjectMeta: meta("demo-1", "turn-uid")}
	turn.Spec.SessionRef.Name, turn.Spec.Input = "demo", "Hello"
	session := &v1alpha1.Session{ObjectMeta: meta("demo", "session-uid")}
	session.Spec.HarnessRef.Name = "base"
	session.Status.ActiveTurn = &v1alpha1.ActiveTurn{Name: turn.Name, UID: turn.UID}
	harness := &v1alpha1.Harness{ObjectMeta: meta("base", "harness-uid")}
	harness.Spec.ModelRef = &v1alpha1.LocalReference{Name: "m"}
	m := &v1alpha1.Model{ObjectMeta: meta("m", "model-uid"), Spec: v1alpha1.ModelSpec{Provider: "Test"}}
	st := &stage{
		t:     t,
		now:   moment.Time,
		woken: make(chan types.NamespacedName, 16),
		store: &gatedStore{Store: journalmemory.New()},
	}
	st.answer = func() (*model.Response, error) {
		return &model.Response{Text: "Hello.", FinishReason: model.FinishStop}, nil
	}
	builder := fake.NewClientBuilder().
		WithScheme(scheme).
		WithObjects(turn, session, harness, m).
		WithStatusSubresource(turn, session)
	st.client = indexed(builder).Build()
	st.restart()
	return st
}

// restart replaces the process of the stage.
func (st *stage) restart() {
	clock := func() time.Time { st.mu.Lock(); defer st.mu.Unlock(); return st.now }
	st.models = fairshare.NewPool(fairshare.Options{Total: fairshare.Amount{Places: 1, Bytes: 64 << 20}})
	pools := executor.Pools{Models: st.models}
	st.r = &Reconciler{
		Client:     st.client,
		Live:       st.client,
		Clock:      clock,
		Turns:      fairshare.NewTurns(fairshare.TurnsOptions{Active: 1, BegunPerNamespace: 1}),
		Wakes:      &wake.Source{},
		Activities: executor.NewExecutor(pools, func(n types.NamespacedName) { st.woken <- n }),
		Steps: &step.Runner{
			Runner: invocation.Runner{
				Log:   journal.New(st.store, journal.Options{Clock: clock}),
				Clock: clock,
			},
			Validator: inputschema.NewValidator(),
			Options: modelcall.Options{
				Models: model.Registry{"Test": func(*v1alpha1.Model, model.Access) (model.Driver, error) { return st, nil }},
			},
		},
	}
}

// expectKept checks how many bytes of responses the namespace holds without a slot.
func (st *stage) expectKept(is func(bytes int64) bool) {
	st.t.Helper()
	if held := st.models.Held(); held.Places != 0 || !is(held.Bytes) {
		st.t.Errorf("the namespace holds %+v of the model calls", held)
	}
}

func none(bytes int64) bool { return bytes == 0 }

// pass runs the reconciler once, and again after the end of an activity that it has begun.
func (st *stage) pass() time.Duration {
	st.t.Helper()
	for {
		result, err := st.r.Reconcile(
			st.t.Context(),
			ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "demo-1"}},
		)
		if st.r.Activities.Len() > 0 {
			<-st.woken
			continue
		}
		if err != nil {
			st.t.Logf("a pass ended with: %v", err)
		}
		return result.RequeueAfter
	}
}

func (st *stage) later(d time.Duration) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.now = st.now.Add(d)
}

func (st *stage) turn() *v1alpha1.Turn {
	st.t.Helper()
	turn := &v1alpha1.Turn{}
	if err := st.client.Get(st.t.Context(), types.NamespacedName{Namespace: "ns", Name: "demo-1"}, turn); err != nil {
		st.t.Fatal(err)
	}
	return turn
}

// expectStalled checks that the Turn reports the reason of its stall, with these words.
func (st *stage) expectStalled(reason string, words ...string) {
	st.t.Helper()
	turn := st.turn()
	c := meta.FindStatusCondition(turn.Status.Conditions, v1alpha1.ConditionStalled)
	if c == nil || c.Status != metav1.ConditionTrue || c.Reason != reason {
		st.t.Fatalf("phase %s, Stalled %+v, want %s", turn.Status.Phase, c, reason)
	}
	for _, w := range words {
		if !strings.Contains(c.Message, w) {
			st.t.Errorf("the message lacks %q: %s", w, c.Message)
		}
	}
	if s := meta.FindStatusCondition(
		turn.Status.Conditions,
		v1alpha1.ConditionSucceeded,
	); s.Status != metav1.ConditionUnknown ||
		s.Reason != reason {
		st.t.Errorf("Succeeded is %+v", s)
	}
}

func (st *stage) expectSucceeded() {
	st.t.Helper()
	turn := st.turn()
	if turn.Status.Phase != v1alpha1.TurnPhaseSucceeded ||
		meta.IsStatusConditionTrue(turn.Status.Conditions, v1alpha1.ConditionStalled) {
		st.t.Errorf("phase %s, conditions %+v", turn.Status.Phase, turn.Status.Conditions)
	}
}

// begin writes the plan of the first step as a pass would, with openedAt.
func (st *stage) begin(openedAt int64) {
	st.t.Helper()
	turn := st.turn()
	turn.Status.SessionUID = "session-uid"
	turn.Status.TurnProgress = plan.Begin(openedAt, moment)
	if err := st.client.Status().Update(st.t.Context(), turn); err != nil {
		st.t.Fatal(err)
	}
}

func TestATurnOnADamagedJournalReportsItAndSpendsNothing(t *testing.T) {
	for name, phase := range map[string]v1alpha1.PlanPhase{
		"in a reason step": v1alpha1.PlanPhaseReason, "in an act step": v1alpha1.PlanPhaseAct,
	} {
		t.Run(name, func(t *testing.T) {
			st := newStage(t)
			st.begin(5)
			turn := st.turn()
			turn.Status.Plan.Phase = phase
			if err := st.client.Status().Update(t.Context(), turn); err != nil {
				t.Fatal(err)
			}
			pause := st.pass()
			st.expectStalled(v1alpha1.ReasonJournalDamaged, "journal", "Restore", `Session "demo"`)
			version := ""
			for look := range 5 {
				if look == 1 {
					version = st.turn().ResourceVersion // The second check may know more.
				}
				if pause < time.Minute {
					t.Fatalf("it is looked at again after %v", pause)
				}
				if early := st.pass(); early != pause {
					t.Errorf("a pass before it is time leads to the next one after %v, want %v", early, pause)
				}
				st.later(pause)
				pause = st.pass()
			}
			if st.asked > 0 || st.store.creates > 0 || st.turn().ResourceVersion != version {
				t.Errorf(
					"%d model calls, %d creates, version %s after %s",
					st.asked,
					st.store.creates,
					st.turn().ResourceVersion,
					version,
				)
			}
		})
	}
}

func TestATurnContinuesWhenItsJournalIsRepaired(t *testing.T) {
	st := newStage(t)
	st.begin(2)
	pause := st.pass()
	st.expectStalled(v1alpha1.ReasonJournalDamaged)
	entry, err := format.Encode(&journal.Entry{
		Session: "demo", Ordinal: 1, Time: moment, Final: true, Turn: &v1alpha1.JournalTurn{Name: "x", UID: "x"}, Step: 1,
		Transition: &v1alpha1.TurnProgress{Plan: &v1alpha1.TurnPlan{Phase: v1alpha1.PlanPhaseComplete}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := st.store.Create(
		t.Context(),
		journal.Session{Namespace: "ns", Name: "demo", UID: "session-uid"},
		entry,
	); err != nil {
		t.Fatal(err)
	}
	st.later(pause)
	st.pass()
	st.expectSucceeded()
}

func TestARefusedResponseIsKeptAndDelivered(t *testing.T) {
	st := newStage(t)
	st.store.refuses = true
	pause := st.pass()
	st.expectStalled(v1alpha1.ReasonJournalRefused, "exceeded quota: few", "is kept until")
	if n := st.r.Activities.Len() + st.r.Turns.Active(); n != 0 {
		t.Errorf("the Turn holds %d places", n)
	}
	creates := st.store.creates
	for range 3 {
		st.later(pause)
		pause = st.pass()
	}
	if st.store.dryRuns != 3 || st.store.creates != creates || st.asked != 1 {
		t.Errorf("%d dry runs, %d creates, %d model calls", st.store.dryRuns, st.store.creates-creates, st.asked)
	}
	st.store.lift()
	st.later(pause)
	st.pass()
	st.expectSucceeded()
	if st.asked != 1 {
		t.Errorf("the model was called %d times", st.asked)
	}
}

func TestARefusedResponseIsDroppedInTheEnd(t *testing.T) {
	st := newStage(t)
	st.store.refuses = true
	pause := st.pass()
	for waited := time.Duration(0); waited < step.UndeliveredRetention; {
		st.later(pause)
		waited += pause
		pause = st.pass()
	}
	st.expectStalled(
		v1alpha1.ReasonJournalRefused,
		"was dropped after 10m0s",
		"The model is not called until the journal accepts an entry",
	)
	if st.r.memories.of(types.NamespacedName{Namespace: "ns", Name: "demo-1"}, "turn-uid").step.undelivered != nil {
		t.Error("the response is still kept")
	}
	for range 10 {
		st.later(time.Hour)
		st.pass()
	}
	if st.asked != 1 {
		t.Errorf("the model was called %d times", st.asked)
	}
	st.store.lift()
	st.later(time.Hour)
	st.pass()
	st.expectSucceeded()
	if st.asked != 2 {
		t.Errorf("the model was called %d times", st.asked)
	}
}

// A response that waits for the journal counts as memory of its namespace: a tenant whose journal refuses entries holds
// no more than its share.
func TestARefusedResponseCountsForItsNamespaceUntilItIsDropped(t *testing.T) {
	const text = 1 << 20
	for name, drop := range map[string]func(st *stage){
		"it is delivered": func(st *stage) {
			st.store.lift()
			st.later(time.Minute)
			st.pass()
			st.expectSucceeded()
		},
		"it has expired": func(st *stage) {
			st.later(step.UndeliveredRetention)
			st.pass()
			st.expectStalled(v1alpha1.ReasonJournalRefused, "was dropped after 10m0s")
		},
		"its Turn is cancelled": func(st *stage) {
			turn := st.turn()
			turn.Spec.DesiredState, turn.Generation = v1alpha1.DesiredStateCancelled, 2
			if err := st.client.Update(t.Context(), turn); err != nil {
				t.Fatal(err)
			}
			st.pass()
			st.expectStalled(v1alpha1.ReasonJournalRefused, "The Turn is cancelled as soon as")
		},
		"its Turn was deleted": func(st *stage) {
			if err := st.client.Delete(t.Context(), st.turn()); err != nil {
				t.Fatal(err)
			}
			st.pass()
		},
		"its Turn is replaced": func(st *stage) {
			st.r.memories.of(client.ObjectKeyFromObject(st.turn()), "another")
		},
	} {
		t.Run(name, func(t *testing.T) {
			st := newStage(t)
			st.answer = func() (*model.Response, error) {
				return &model.Response{Text: strings.Repeat("x", text), FinishReason: model.FinishStop}, nil
			}
			st.store.refuses = true
			st.pass()
			st.expectKept(func(bytes int64) bool { return bytes >= text && bytes < 8*text })
			drop(st)
			st.expectKept(none)
		})
	}
}

func TestANewProcessBeginsWithADryRun(t *testing.T) {
	st := newStage(t)
	st.store.refuses = true
	st.pass()
	st.restart()
	st.pass()
	st.expectStalled(v1alpha1.ReasonJournalRefused, "The model is not called")
	if st.asked != 1 || st.store.dryRuns != 1 {
		t.Errorf("%d model calls, %d dry runs", st.asked, st.store.dryRuns)
	}
}

func TestATurnWhoseJournalRefusesEntriesIsCancelledVisibly(t *testing.T) {
	st := newStage(t)
	st.store.refuses = true
	st.pass()
	turn := st.turn()
	turn.Spec.DesiredState, turn.Generation = v1alpha1.DesiredStateCancelled, 2
	if err := st.client.Update(t.Context(), turn); err != nil {
		t.Fatal(err)
	}
	pause := st.pass()
	st.expectStalled(v1alpha1.ReasonJournalRefused, "The Turn is cancelled as soon as")
	st.store.lift()
	st.later(pause)
	st.pass()
	if got := st.turn().Status.Phase; got != v1alpha1.TurnPhaseCancelled {
		t.Errorf("phase %s", got)
	}
}

func TestAModelCallThatPanicsEndsTheTurn(t *testing.T) {
	st := newStage(t)
	st.answer = func() (*model.Response, error) { panic("no such part") }
	for range 10 {
		st.pass()
		st.later(time.Minute)
	}
	if turn := st.turn(); turn.Status.Phase != v1alpha1.TurnPhaseFailed || st.asked != maxPanics {
		t.Errorf("phase %s after %d model calls", turn.Status.Phase, st.asked)
	}
}

func TestAStepThatKeepsFailingReportsIt(t *testing.T) {
	st := newStage(t)
	broken := true
	st.r.Steps.Secrets = nil
	st.r.Steps.Models["Test"] = func(*v1alpha1.Model, model.Access) (model.Driver, error) { return st, nil }
	inner := st.store.Store
	st.begin(1)
	st.store.Store = failingReads{inner, func() bool { return broken }}
	for range reportedFailures + 2 {
		st.pass()
		st.later(time.Minute)
	}
	st.expectStalled(v1alpha1.ReasonStepFailing, "failed 5 times; retrying", "the connection was lost")
	broken = false
	st.later(time.Minute)
	st.pass()
	st.expectSucceeded()
}

// failingReads is a store whose reads fail for a while.
type failingReads struct {
	journal.Store
	fails func() bool
}

func (f failingReads) Get(ctx context.Context, s journal.Session, ordinal int64) (*v1alpha1.JournalEntrySpec, error) {
	if f.fails() {
		return nil, fmt.Errorf("reading entry %d: the connection was lost", ordinal)
	}
	return f.Store.Get(ctx, s, ordinal)
}
