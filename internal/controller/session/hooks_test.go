package session

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/executor"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/hook"
)

// sessionHook is a hook at an event of a Session.
func sessionHook(name string, event v1alpha1.HookEvent) v1alpha1.Hook {
	return v1alpha1.Hook{Name: name, Event: event, CEL: &v1alpha1.CELHook{Expression: "true"}}
}

// livesBench is a bench with a Session that has hooks, and with their executor.
type livesBench struct {
	*bench
	*held
	woken chan types.NamespacedName
}

func newLivesBench(t *testing.T, session *v1alpha1.Session, objects ...client.Object) *livesBench {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}
	b := &livesBench{
		bench: newBench(t, append(objects, session, namespace)...),
		held:  &held{ran: make(chan hook.Call, 8), release: make(chan struct{})},
		woken: make(chan types.NamespacedName, 8),
	}
	b.Steps.Hooks = hook.Executors{CEL: b.held}
	b.Activities = executor.NewExecutor(executor.Pools{
		Models: fairshare.NewPool(fairshare.Options{}), Tools: fairshare.NewPool(fairshare.Options{}),
	}, func(key types.NamespacedName) { b.woken <- key })
	return b
}

// lively is a Session with a hook at its start and one at its end.
func lively() *v1alpha1.Session {
	session := newSession()
	session.Spec.Hooks = []v1alpha1.Hook{
		sessionHook("hello", v1alpha1.HookEventSessionStart), sessionHook("bye", v1alpha1.HookEventSessionEnd),
	}
	return session
}

// ready returns the reason of the condition Ready.
func (b *livesBench) ready() string {
	b.t.Helper()
	return apimeta.FindStatusCondition(b.session().Status.Conditions, v1alpha1.ConditionReady).Reason
}

// started brings the Session to the point at which Turns may begin.
func (b *livesBench) started() {
	b.t.Helper()
	close(b.release)
	for range 2 {
		b.pass()
	}
	b.pass()
	<-b.ran
	<-b.woken
	b.pass()
	if b.ready() != v1alpha1.ReasonReady {
		b.t.Fatalf("the Session is %+v", b.session().Status)
	}
	b.release = make(chan struct{})
}

// delete deletes the Session, which its finalizer keeps.
func (b *livesBench) delete() {
	b.t.Helper()
	if err := b.Client.Delete(b.t.Context(), b.session()); err != nil {
		b.t.Fatal(err)
	}
}

// gone reports whether the Session does not exist any more.
func (b *livesBench) gone() bool {
	b.t.Helper()
	err := b.Client.Get(context.Background(), demoKey, &v1alpha1.Session{})
	if client.IgnoreNotFound(err) != nil {
		b.t.Fatal(err)
	}
	return apierrors.IsNotFound(err)
}

// ends returns how many Sessions have ended in a way.
func ends(as ended) float64 {
	return testutil.ToFloat64(sessionEnds.WithLabelValues(string(as)))
}

// Rules: HOOK-01, HOOK-09, HOOK-10, HOOK-11, HOOK-15.
func TestASessionStartsBeforeItsFirstTurn(t *testing.T) {
	b := newLivesBench(t, lively(), inDemo("demo-1", nil))
	b.pass()
	pinned := b.session()
	if b.ready() != v1alpha1.ReasonSessionStarting || pinned.Status.Phase != v1alpha1.SessionPhasePending ||
		pinned.Status.Hooks == nil || len(pinned.Status.Hooks.End) != 1 || len(pinned.Finalizers) != 0 {
		t.Fatalf("after the first pass: %v, %+v", pinned.Finalizers, pinned.Status)
	}
	if p := pinned.Status.Hooks.End[0]; p.ID != "session:bye" || p.Hook.CEL.Expression != "true" {
		t.Errorf("pinned is %+v", p)
	}
	b.pass()
	if got := b.session().Finalizers; !slices.Equal(got, []string{v1alpha1.FinalizerSessionEnd}) || len(b.ran) != 0 {
		t.Fatalf("after the second pass the finalizers are %v, and %d hooks run", got, len(b.ran))
	}
	b.pass()
	call := <-b.ran
	if call.Spec.ID != "session:hello" || call.Identity.Session != "s1" || call.Identity.Turn != "" ||
		call.Key != "s1/0/session_start//session:hello" ||
		!strings.Contains(string(call.Payload), `"turn_id":null`) ||
		!strings.Contains(string(call.Payload), `"data":{"agent_id":null}`) {
		t.Errorf("ran %+v with %s", call, call.Payload)
	}
	b.pass()
	if status := b.session().Status; status.ActiveTurn != nil || status.Hooks.StartedAt != nil {
		t.Fatalf("a Turn begins before the hooks have ended: %+v", status)
	}
	close(b.release)
	if key := <-b.woken; key != demoKey {
		t.Errorf("woke %s", key)
	}
	b.pass()
	status := b.session().Status
	want := []v1alpha1.HookOutcome{{ID: "session:hello", Decision: v1alpha1.HookDecisionBlock, Reason: "too late"}}
	if status.ActiveTurn == nil || status.Hooks.StartedAt == nil || !slices.Equal(status.Hooks.Start, want) {
		t.Errorf("after the hooks: %+v", status)
	}
	b.pass()
	if len(b.ran) != 0 {
		t.Error("the hooks run again")
	}
}

// Rules: HOOK-01, HOOK-09, HOOK-11, HOOK-15.
func TestADeletedSessionIsReleasedAfterItsHooks(t *testing.T) {
	b := newLivesBench(t, lively())
	b.started()
	b.delete()
	before := ends(endedRun)
	if result := b.pass(); result.RequeueAfter != hook.SessionBudget {
		t.Errorf("the Session waits for %s", result.RequeueAfter)
	}
	call := <-b.ran
	if call.Spec.ID != "session:bye" || call.Key != "s1/0/session_end//session:bye" ||
		!strings.Contains(string(call.Payload), `"data":{"reason":"deleted"}`) {
		t.Errorf("ran %+v with %s", call, call.Payload)
	}
	b.pass()
	if b.gone() {
		t.Fatal("the Session is gone before the hook has ended")
	}
	close(b.release)
	<-b.woken
	b.pass()
	if !b.gone() || ends(endedRun) != before+1 || len(b.ran) != 0 {
		t.Errorf("gone: %v, %v ended", b.gone(), ends(endedRun)-before)
	}
}

func TestHooksKeepADeletedSessionForHalfAMinuteAtMost(t *testing.T) {
	b := newLivesBench(t, lively())
	b.started()
	b.delete()
	before := ends(endedTimedOut)
	b.pass()
	<-b.ran
	b.now = b.now.Add(hook.SessionBudget - time.Millisecond)
	b.pass()
	if b.gone() {
		t.Fatal("the Session is gone too early")
	}
	b.now = b.now.Add(time.Millisecond)
	b.pass()
	if !b.gone() || ends(endedTimedOut) != before+1 {
		t.Errorf("gone: %v, %v timed out", b.gone(), ends(endedTimedOut)-before)
	}
	if b.Activities.Len() != 0 {
		t.Error("the hooks still run")
	}
}

func TestInATerminatingNamespaceASessionIsReleasedAtOnce(t *testing.T) {
	b := newLivesBench(t, lively())
	b.started()
	namespace := &corev1.Namespace{}
	if err := b.Client.Get(t.Context(), types.NamespacedName{Name: "ns"}, namespace); err != nil {
		t.Fatal(err)
	}
	namespace.Finalizers = []string{"kubernetes"}
	if err := errors.Join(b.Client.Update(t.Context(), namespace), b.Client.Delete(t.Context(), namespace)); err != nil {
		t.Fatal(err)
	}
	before := ends(endedNamespace)
	b.delete()
	b.pass()
	if !b.gone() || len(b.ran) != 0 || ends(endedNamespace) != before+1 {
		t.Errorf("gone: %v, %d hooks run", b.gone(), len(b.ran))
	}
}

func TestThePinnedHooksRunWhenTheirObjectsAreGone(t *testing.T) {
	b := newLivesBench(t, lively())
	b.started()
	if err := b.Client.Delete(t.Context(), &v1alpha1.Harness{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "base"},
	}); err != nil {
		t.Fatal(err)
	}
	b.delete()
	b.pass()
	if call := <-b.ran; call.Spec.ID != "session:bye" {
		t.Errorf("ran %+v", call)
	}
}

func TestAHookThatWasRemovedDoesNotRunAtTheEnd(t *testing.T) {
	b := newLivesBench(t, lively())
	b.started()
	session := b.session()
	session.Spec.Hooks = session.Spec.Hooks[:1]
	if err := b.Client.Update(t.Context(), session); err != nil {
		t.Fatal(err)
	}
	b.delete()
	b.pass()
	if !b.gone() || len(b.ran) != 0 {
		t.Errorf("gone: %v, %d hooks run", b.gone(), len(b.ran))
	}
}

func TestASessionThatIsDeletedWhileItStartsEnds(t *testing.T) {
	b := newLivesBench(t, lively())
	for range 3 {
		b.pass()
	}
	if call := <-b.ran; call.Spec.Event != hook.SessionStart {
		t.Fatalf("ran %+v", call)
	}
	b.delete()
	b.pass()
	if call := <-b.ran; call.Spec.Event != hook.SessionEnd {
		t.Errorf("ran %+v", call)
	}
}

func TestASessionWithTheFinalizerAloneIsReleased(t *testing.T) {
	session := newSession()
	session.Finalizers = []string{v1alpha1.FinalizerSessionEnd}
	b := newLivesBench(t, session)
	b.pass()
	b.delete()
	b.pass()
	if !b.gone() {
		t.Error("the Session stays")
	}
}

func TestFinalizersOfOthersStay(t *testing.T) {
	session := lively()
	session.Finalizers = []string{"example.com/theirs"}
	b := newLivesBench(t, session)
	b.started()
	want := []string{"example.com/theirs", v1alpha1.FinalizerSessionEnd}
	if got := b.session().Finalizers; !slices.Equal(got, want) {
		t.Fatalf("the finalizers are %v", got)
	}
	b.delete()
	b.pass()
	<-b.ran
	close(b.release)
	<-b.woken
	b.pass()
	if got := b.session().Finalizers; !slices.Equal(got, want[:1]) {
		t.Errorf("the finalizers are %v", got)
	}
	b.pass()
	if len(b.ran) != 0 {
		t.Error("the hooks run again")
	}
}

func TestTheHooksAtTheEndRunOnceThoughTheReleaseFails(t *testing.T) {
	b := newLivesBench(t, lively())
	b.started()
	refuse := true
	whole, ok := b.Client.(client.WithWatch)
	if !ok {
		t.Fatal("the client cannot watch")
	}
	b.Client = interceptor.NewClient(whole, interceptor.Funcs{
		Patch: func(
			ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption,
		) error {
			if refuse {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "sessions"}, o.GetName(), errors.New("quota"))
			}
			return c.Patch(ctx, o, p, opts...)
		},
	})
	b.delete()
	b.pass()
	<-b.ran
	close(b.release)
	<-b.woken
	for range 3 {
		if _, err := b.Reconcile(t.Context(), request()); !apierrors.IsForbidden(err) {
			t.Errorf("a refused release returns %v", err)
		}
	}
	refuse = false
	b.pass()
	if !b.gone() || len(b.ran) != 0 {
		t.Errorf("gone: %v, %d more hooks run", b.gone(), len(b.ran))
	}
}

func TestASessionThatHasStartedBeforeItsHooksWereAddedRunsNone(t *testing.T) {
	session := lively()
	session.Status.Phase = v1alpha1.SessionPhaseIdle
	b := newLivesBench(t, session)
	b.pass()
	if got := b.session(); got.Status.Hooks != nil || len(got.Finalizers) != 0 || b.ready() != v1alpha1.ReasonReady {
		t.Errorf("the Session is %v, %+v", got.Finalizers, got.Status)
	}
	b.delete()
	if !b.gone() {
		t.Error("the Session stays")
	}
}

func TestASessionWithHooksAtItsStartAloneHasNoFinalizer(t *testing.T) {
	session := lively()
	session.Spec.Hooks = session.Spec.Hooks[:1]
	b := newLivesBench(t, session)
	b.pass()
	b.pass()
	<-b.ran
	close(b.release)
	<-b.woken
	b.pass()
	if got := b.session(); len(got.Finalizers) != 0 || got.Status.Hooks.StartedAt == nil {
		t.Errorf("the Session is %v, %+v", got.Finalizers, got.Status)
	}
}
