package turn

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
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

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/executor"
	"github.com/capstan-dev/capstan/internal/controller/fieldindex"
	"github.com/capstan-dev/capstan/internal/controller/wake"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/invocation"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	journalmemory "github.com/capstan-dev/capstan/internal/runtime/journal/memory"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/modelcall"
	"github.com/capstan-dev/capstan/internal/runtime/step"
	"github.com/capstan-dev/capstan/internal/runtime/tool/inputschema"
	"github.com/capstan-dev/capstan/internal/runtime/tool/jobspec"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// world is a namespace with a Session whose active Turn is demo-1, on an API server without watches. The model makes
// the configured calls in its first step and then responds with "done". The tests play the Job controller and the
// kubelet.
type world struct {
	t      *testing.T
	client client.Client
	store  journal.Store
	server *httptest.Server
	hooks  interceptor.Funcs

	mu    sync.Mutex
	now   time.Time
	next  int
	asked []model.Request
	calls []string
	sent  map[string]int
	// managers counts the processes. The first one has admitted the Turn.
	managers int
	// during runs in each model call.
	during func()
	// respond returns the response of the server of HTTP tools; nil for the result of the tool by its name.
	respond func(name string) string
	// ceiling is the memory for conversations in use; 0 for no limit.
	ceiling int64
}

const (
	testNamespace = "ns"
	turnName      = "demo-1"
)

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, store: journalmemory.New(), now: moment.Time, sent: map[string]int{}}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	api := fake.NewClientBuilder().WithScheme(scheme).
		WithStatusSubresource(&v1alpha1.Session{}, &v1alpha1.Turn{}, &v1alpha1.ToolResult{}, &batchv1.Job{}, &corev1.Pod{})
	w.client = interceptor.NewClient(indexed(api).Build(), interceptor.Funcs{Create: w.creating})
	return w
}

// indexed adds the indexes of the cache to a fake client.
func indexed(api *fake.ClientBuilder) *fake.ClientBuilder {
	for _, index := range fieldindex.All() {
		api = api.WithIndex(index.Object, index.Field, index.Values)
	}
	return api
}

// begin creates the given Tools, all of which the model calls, in order, and the other objects that the Turn needs.
func (w *world) begin(tools ...*v1alpha1.Tool) *world {
	w.t.Helper()
	harness := builder.Harness("base").Obj()
	for _, definition := range tools {
		w.create(definition)
		w.calls = append(w.calls, definition.Name)
		harness.Spec.Tools = append(harness.Spec.Tools, v1alpha1.LocalReference{Name: definition.Name})
	}
	w.create(harness)
	w.create(&v1alpha1.Model{
		ObjectMeta: metav1.ObjectMeta{Name: "m", Annotations: map[string]string{v1alpha1.AnnotationDefaultModel: "true"}},
		Spec:       v1alpha1.ModelSpec{Provider: "Test"},
	})
	session := builder.Session("demo").Obj()
	w.create(session)
	turn := w.newTurn(turnName, "Hello")
	w.create(turn)
	now := event.MicroTime(w.present())
	session.Status.ActiveTurn = &v1alpha1.ActiveTurn{
		Name: turn.Name, UID: turn.UID, OpenedAtOrdinal: 1, AdmittedAt: &now, AdmittedUID: turn.UID,
	}
	w.updateStatus(session)
	return w
}

func (w *world) newTurn(name, input string) *v1alpha1.Turn {
	return builder.Turn(name).Input(input).Obj()
}

// creating sets the fields that an API server sets on every object.
func (w *world) creating(
	ctx context.Context,
	c client.WithWatch,
	object client.Object,
	options ...client.CreateOption,
) error {
	w.mu.Lock()
	w.next++
	n := w.next
	w.mu.Unlock()
	object.SetUID(types.UID(fmt.Sprintf("uid-%d", n)))
	object.SetGeneration(1)
	object.SetCreationTimestamp(metav1.NewTime(w.present().Truncate(time.Second)))
	return c.Create(ctx, object, options...)
}

func (w *world) present() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(time.Millisecond)
	return w.now
}

func (w *world) sleep(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func (w *world) create(object client.Object) {
	w.t.Helper()
	object.SetNamespace(testNamespace)
	if err := w.client.Create(w.t.Context(), object); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) updateStatus(object client.Object) {
	w.t.Helper()
	if err := w.client.Status().Update(w.t.Context(), object); err != nil {
		w.t.Fatal(err)
	}
}

// change edits the spec of the Turn or of another object.
func (w *world) change(object client.Object, edit func()) {
	w.t.Helper()
	if err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		w.t.Fatal(err)
	}
	edit()
	object.SetGeneration(object.GetGeneration() + 1)
	if err := w.client.Update(w.t.Context(), object); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) cancel() {
	turn := w.turn()
	w.change(turn, func() { turn.Spec.DesiredState = v1alpha1.DesiredStateCancelled })
}

func (w *world) turn() *v1alpha1.Turn {
	w.t.Helper()
	return w.turnNamed(turnName)
}

func (w *world) turnNamed(name string) *v1alpha1.Turn {
	w.t.Helper()
	turn := &v1alpha1.Turn{}
	if err := w.client.Get(w.t.Context(), types.NamespacedName{Namespace: testNamespace, Name: name}, turn); err != nil {
		w.t.Fatal(err)
	}
	return turn
}

func (w *world) call(name string) v1alpha1.ToolCall {
	w.t.Helper()
	for _, call := range w.turn().Status.ToolCalls {
		if call.Name == name {
			return call
		}
	}
	return v1alpha1.ToolCall{}
}

func (w *world) session() *v1alpha1.Session {
	w.t.Helper()
	session := &v1alpha1.Session{}
	if err := w.client.Get(
		w.t.Context(),
		types.NamespacedName{Namespace: testNamespace, Name: "demo"},
		session,
	); err != nil {
		w.t.Fatal(err)
	}
	return session
}

// transcript returns the conversation in the journal, by the name of the tool or the role.
func (w *world) transcript() []event.Message {
	w.t.Helper()
	view, err := journal.New(w.store, journal.Options{Clock: w.present}).
		View(w.t.Context(), turnstate.JournalOf(w.session()), 0)
	if err != nil {
		w.t.Fatal(err)
	}
	return view.Messages
}

// resultText returns the journal's text for the model about the first call of a tool; empty without one.
func (w *world) resultText(name string) string {
	w.t.Helper()
	for _, m := range w.transcript() {
		if m.ToolName == name {
			return m.Error + m.PlainText()
		}
	}
	return ""
}

// Generate implements model.Driver.
func (w *world) Generate(_ context.Context, r model.Request) (*model.Response, error) {
	if w.during != nil {
		w.during()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, r)
	if len(w.asked) > 1 || len(w.calls) == 0 {
		return &model.Response{Text: "done", FinishReason: model.FinishStop}, nil
	}
	response := &model.Response{FinishReason: model.FinishToolCalls}
	for i, name := range w.calls {
		response.ToolCalls = append(
			response.ToolCalls,
			model.ToolCall{ProviderID: fmt.Sprintf("p%d", i), Name: name, Arguments: "{}"},
		)
	}
	return response, nil
}

// manager is a process that leads.
type manager struct {
	*Reconciler
	w     *world
	woken chan struct{}
	// ended counts the activities that have ended.
	ended  atomic.Int32
	models *fairshare.Pool
}

// manager starts a process with an empty memory. skew is how far its clock is ahead.
func (w *world) manager(skew time.Duration) *manager {
	w.t.Helper()
	m := &manager{w: w, woken: make(chan struct{}, 1024)}
	clock := func() time.Time { return w.present().Add(skew) }
	options := egress.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	if w.server != nil {
		options.Roots = x509.NewCertPool()
		options.Roots.AddCert(w.server.Certificate())
	}
	pools := executor.Pools{
		Models: fairshare.NewPool(fairshare.Options{PerNamespace: fairshare.Amount{Bytes: w.ceiling}}),
		Tools:  fairshare.NewPool(fairshare.Options{}),
	}
	m.models = pools.Models
	activities := executor.NewExecutor(pools, func(types.NamespacedName) {
		m.ended.Add(1)
		m.woken <- struct{}{}
	})
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		_ = activities.Start(ctx)
	}()
	w.t.Cleanup(func() {
		stop()
		<-stopped
	})
	w.managers++
	first := w.managers == 1
	c := interceptor.NewClient(w.client.(client.WithWatch), w.hooks)
	m.Reconciler = &Reconciler{
		Admitted:     func(*v1alpha1.Session, types.UID) bool { return first },
		Client:       c,
		Live:         c,
		Activities:   activities,
		Clock:        clock,
		Wakes:        &wake.Source{},
		Logs:         noLogs{},
		JobRetention: time.Hour,
		Turns:        fairshare.NewTurns(fairshare.TurnsOptions{Active: 8}),
		Launcher:     jobspec.Launcher{Image: "launcher"},
		Steps: &step.Runner{
			Runner: invocation.Runner{
				Log:    journal.New(w.store, journal.Options{Clock: clock}),
				Clock:  clock,
				Egress: egress.New(options),
				Secrets: func(_ context.Context, _, name string) (*corev1.Secret, error) {
					return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
				},
			},
			Options: modelcall.Options{
				Models: model.Registry{"Test": func(*v1alpha1.Model, model.Access) (model.Driver, error) { return w, nil }},
			},
			Validator: inputschema.NewValidator(),
		},
	}
	return m
}

type noLogs struct{}

func (noLogs) ToolLog(context.Context, *corev1.Pod) (io.ReadCloser, error) {
	return nil, errors.New("there are no logs")
}

// pass reconciles the Turn once.
func (m *manager) pass() (ctrl.Result, error) {
	return m.passOf(turnName)
}

func (m *manager) passOf(name string) (ctrl.Result, error) {
	return m.Reconcile(
		m.w.t.Context(),
		ctrl.Request{NamespacedName: types.NamespacedName{Namespace: testNamespace, Name: name}},
	)
}

// until reconciles the Turn, plays the cluster, and advances the clock when the reconciler requests it, until a
// condition is met. It fails when nothing wakes the Turn any more.
func (m *manager) until(what string, is func() bool) {
	m.w.t.Helper()
	m.run(what, is, true)
}

// withoutCluster is like until in a cluster in which no Job gets a pod, and no pod runs.
func (m *manager) withoutCluster(what string, is func() bool) {
	m.w.t.Helper()
	m.run(what, is, false)
}

func (m *manager) run(what string, is func() bool, cluster bool) {
	m.w.t.Helper()
	var last error
	for range 500 {
		if is() {
			return
		}
		before := m.w.turn().ResourceVersion
		next, err := m.pass()
		if last = err; err != nil {
			m.w.sleep(time.Second)
			continue
		}
		if is() {
			return
		}
		played := cluster && m.w.play()
		switch {
		case played, m.w.turn().ResourceVersion != before:
		case journalStall(m.w.turn()) != "" && next.RequeueAfter > 0:
			m.w.sleep(next.RequeueAfter) // No result of an activity is taken before.
		case m.Activities.Len() > 0:
			select {
			case <-m.woken:
			case <-time.After(10 * time.Second):
				m.w.t.Fatalf("no activity ends; waiting for: %s", what)
			}
		case next.RequeueAfter > 0:
			m.w.sleep(next.RequeueAfter)
		default:
			status := m.w.turn().Status
			m.w.t.Fatalf(
				"nothing wakes the Turn any more: phase %s, %s; waiting for: %s",
				status.Phase,
				status.Summary.Calls,
				what,
			)
		}
	}
	m.w.t.Fatalf("500 passes are not enough; waiting for: %s; last error: %v", what, last)
}
