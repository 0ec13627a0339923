package background

import (
	"context"
	"errors"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/fieldindex"
	"github.com/capstan-dev/capstan/internal/controller/wake"
	"github.com/capstan-dev/capstan/internal/runtime/background"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/record/memory"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
	"github.com/capstan-dev/capstan/internal/runtime/tool/jobspec"
)

var (
	began   = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	demo    = background.Session{Namespace: "ns", Name: "demo", UID: "s1"}
	demoKey = types.NamespacedName{Namespace: "ns", Name: "demo"}
)

// bench is the reconciler with a fake client, whose cache lacks the objects for which hides reports true.
type bench struct {
	*Reconciler
	t     *testing.T
	now   time.Time
	hides func(client.Object) bool
}

func newBench(t *testing.T, objects ...client.Object) *bench {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.Session{})
	for _, index := range fieldindex.All() {
		builder = builder.WithIndex(index.Object, index.Field, index.Values)
	}
	live := builder.Build()
	b := &bench{t: t, now: began, hides: func(client.Object) bool { return false }}
	cached := interceptor.NewClient(live, interceptor.Funcs{Get: func(
		ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption,
	) error {
		if b.hides(o) {
			return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
		}
		return c.Get(ctx, key, o, options...)
	}})
	clock := func() time.Time { return b.now }
	b.Reconciler = &Reconciler{
		Client: cached, Live: live, Records: record.New(memory.New(), record.Options{}), Clock: clock,
		Launcher: jobspec.Launcher{Image: "launcher"}, Retention: time.Hour, MaxPerNamespace: DefaultMaxPerNamespace,
		Wakes: &wake.Source{}, SessionWakes: &wake.Source{},
	}
	return b
}

// newSession is the Session of the tests, in which a Turn is active.
func newSession(active string) *v1alpha1.Session {
	session := &v1alpha1.Session{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo", UID: "s1"}}
	if active != "" {
		session.Status.ActiveTurn = &v1alpha1.ActiveTurn{Name: active, UID: types.UID(active)}
	}
	return session
}

// build is a Tool that may run in the background.
func build() *v1alpha1.Tool {
	return &v1alpha1.Tool{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "build", UID: "b1", Generation: 1},
		Spec: v1alpha1.ToolSpec{
			Description: "Builds.", Job: &v1alpha1.JobTool{Image: "i", Background: v1alpha1.BackgroundPolicyAllow},
		},
	}
}

// newTask is a task that a call of the Turn demo-1 starts.
func newTask(call string) *background.Task {
	of := v1alpha1.ObjectIdentity{Name: "demo-1", UID: "demo-1"}
	pinned := v1alpha1.ToolCall{}
	definition.Of(build()).PinTask(&pinned)
	return &background.Task{
		ID: background.ID(of.UID, call), CallID: call, Turn: of, Root: of, Recorded: began,
		Tool: background.Tool{Name: "build", UID: pinned.ToolUID, Digest: pinned.ToolDigest},
	}
}

func (b *bench) announce(t *background.Task) {
	b.t.Helper()
	if err := b.Announce(b.t.Context(), demo, t); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) record(t *background.Task) background.Task {
	b.t.Helper()
	recorded, err := b.tasks(demo).Start(b.t.Context(), record.Cause{Step: 1, Key: t.ID}, *t, "{}")
	if err != nil {
		b.t.Fatal(err)
	}
	return recorded
}

func (b *bench) pass() ctrl.Result {
	b.t.Helper()
	result, err := b.Reconcile(b.t.Context(), ctrl.Request{NamespacedName: demoKey})
	if err != nil {
		b.t.Fatal(err)
	}
	return result
}

// session reads the Session.
func (b *bench) session() *v1alpha1.Session {
	b.t.Helper()
	session := &v1alpha1.Session{}
	if err := b.Live.Get(context.Background(), demoKey, session); err != nil {
		b.t.Fatal(err)
	}
	return session
}

// shown are the ids of the tasks that the Session is to show.
func (b *bench) shown() []string {
	b.t.Helper()
	var ids []string
	for _, t := range b.Shown(b.session()) {
		ids = append(ids, t.ID)
	}
	return ids
}

// release ends the active Turn.
func (b *bench) release() {
	b.t.Helper()
	session := b.session()
	session.Status.ActiveTurn = nil
	if err := b.Client.Status().Update(b.t.Context(), session); err != nil {
		b.t.Fatal(err)
	}
}

// hasJob reports whether a task has a Job.
func (b *bench) hasJob(t *background.Task) bool {
	b.t.Helper()
	key := types.NamespacedName{Namespace: "ns", Name: background.Name(t.ID)}
	err := b.Live.Get(b.t.Context(), key, &batchv1.Job{})
	if client.IgnoreNotFound(err) != nil {
		b.t.Fatal(err)
	}
	return err == nil
}

// A process may end, or a Turn, between the announcement of a task and its record.
// Rules: TASK-01.
func TestAnAnnouncedTaskThatIsNotRecordedIsWithdrawnWithItsTurn(t *testing.T) {
	b := newBench(t, newSession("demo-1"), build())
	task := newTask("1-0")
	b.announce(task)
	b.pass()
	if got := b.shown(); len(got) != 1 {
		t.Fatalf("while its call may record it, the Session shows %v", got)
	}
	b.release()
	b.pass()
	if got := b.shown(); len(got) != 0 {
		t.Errorf("when its Turn has ended, the Session shows %v", got)
	}
	if late := b.record(task); late.Active() {
		t.Errorf("a request that arrived late has recorded %+v", late)
	}
	b.pass()
	if b.hasJob(task) {
		t.Error("a withdrawn task has got a Job")
	}
}

// Rules: TASK-01.
func TestATaskOutlivesTheProcessThatHasRecordedIt(t *testing.T) {
	b := newBench(t, newSession("demo-1"), build())
	task := newTask("1-0")
	b.announce(task)
	b.record(task)
	b.release()
	b.pass()
	if got := b.shown(); len(got) != 1 || !b.hasJob(task) {
		t.Errorf("the Session shows %v, and the task has a Job: %t", got, b.hasJob(task))
	}
}

// Rules: TOOL-20.
func TestATaskDoesNotEndBecauseOnlyTheCacheLacksItsTool(t *testing.T) {
	b := newBench(t, newSession("demo-1"), build())
	task := newTask("1-0")
	b.announce(task)
	b.record(task)
	b.hides = func(o client.Object) bool { _, is := o.(*v1alpha1.Tool); return is }
	b.pass()
	if now, err := b.tasks(demo).Get(t.Context(), task.ID); err != nil || now.End != nil || !b.hasJob(task) {
		t.Errorf("it is %+v, %v", now, err)
	}
}

// Rules: TOOL-20.
func TestATaskThatIsDeliveredIsHiddenOnce(t *testing.T) {
	b := newBench(t, newSession("demo-1"), build())
	task, other := newTask("1-0"), newTask("1-1")
	b.announce(task)
	b.record(task)
	b.announce(other)
	if _, err := b.tasks(demo).End(t.Context(), task, tool.Changed()); err != nil {
		t.Fatal(err)
	}
	b.pass()
	if err := b.Live.Get(t.Context(), types.NamespacedName{Namespace: "ns", Name: background.Name(task.ID)},
		&v1alpha1.Turn{}); err != nil {
		t.Fatal(err)
	}
	if got := b.shown(); len(got) != 1 || got[0] != other.ID {
		t.Fatalf("the Session shows %v", got)
	}
	// Its reconciler writes that. A process that starts before it has done so finds the task by the status.
	b.hidden = hidden{}
	b.pass()
	session := b.session()
	session.Status.BackgroundTasks = b.Shown(session)
	if len(session.Status.BackgroundTasks) != 1 {
		t.Fatalf("after a restart the Session shows %+v", session.Status.BackgroundTasks)
	}
	if err := b.Client.Status().Update(t.Context(), session); err != nil {
		t.Fatal(err)
	}
	b.shown()
	if len(b.hidden.byKey) != 0 {
		t.Errorf("what is hidden is remembered: %+v", b.hidden.byKey)
	}
}

// Rules: TOOL-20.
func TestTheTasksOfASessionAndOfANamespaceAreBounded(t *testing.T) {
	b := newBench(t, newSession("demo-1"), build())
	var limit *background.LimitError
	calls := []string{"1-0", "1-1", "1-2", "1-3", "1-4"}
	for _, call := range calls {
		b.announce(newTask(call))
	}
	if err := b.Announce(t.Context(), demo, newTask("1-5")); !errors.As(err, &limit) {
		t.Errorf("a task beyond the limit of the Session: %v", err)
	}
	b.MaxPerNamespace = int32(len(calls))
	b.announce(newTask("1-4"))
	if err := b.Announce(t.Context(), demo, newTask("1-6")); !errors.As(err, &limit) {
		t.Errorf("a task beyond the limit of the namespace: %v", err)
	}
	b.MaxPerNamespace++
	_, err := b.tasks(demo).Withdraw(t.Context(), newTask("1-0").Shown(), background.NeverRecorded())
	if err != nil {
		t.Fatal(err)
	}
	b.announce(newTask("1-7"))
	shown := b.session().Status.BackgroundTasks
	if len(shown) != background.MaxActive || shown[0].ID == newTask("1-0").ID {
		t.Errorf("the Session shows %+v", shown)
	}
}

func TestWhichSessionsAreLookedAt(t *testing.T) {
	shows := func(active string, calls ...string) *v1alpha1.Session {
		session := newSession(active)
		for _, call := range calls {
			session.Status.BackgroundTasks = append(session.Status.BackgroundTasks, newTask(call).Shown())
		}
		return session
	}
	for name, test := range map[string]struct {
		before, after *v1alpha1.Session
		want          bool
	}{
		"a task is announced":        {shows("demo-1"), shows("demo-1", "1-0"), true},
		"the last task is delivered": {shows("demo-1", "1-0"), shows("demo-1"), false},
		"its Turn is released":       {shows("demo-1", "1-0"), shows("", "1-0"), true},
		"a Turn without tasks ends":  {shows("demo-1"), shows(""), false},
		"nothing has changed":        {shows("demo-1", "1-0"), shows("demo-1", "1-0"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := hasTasks().Update(event.UpdateEvent{ObjectOld: test.before, ObjectNew: test.after}); got != test.want {
				t.Errorf("it is %t", got)
			}
		})
	}
	if !hasTasks().Create(event.CreateEvent{Object: shows("", "1-0")}) ||
		hasTasks().Create(event.CreateEvent{Object: shows("")}) {
		t.Error("at its start a process looks at other Sessions than those with tasks")
	}
}
