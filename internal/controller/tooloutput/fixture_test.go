package tooloutput

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/fieldindex"
	"github.com/capstan-dev/capstan/internal/runtime/feed"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/tool/jobspec"
)

// node has the logs of pods, by the names of the pods.
type node struct {
	mu     sync.Mutex
	logs   map[string][]byte
	ended  map[string]bool
	opened []string
	open   int
	// changed is closed with the next change.
	changed chan struct{}
}

// write appends to the log of a pod.
func (n *node) write(pod, text string) {
	n.change(func() { n.logs[pod] = append(n.logs[pod], text...) })
}

// end ends the log of a pod, or what reads it now.
func (n *node) end(pod string, ended bool) {
	n.change(func() { n.ended[pod] = ended })
}

func (n *node) change(do func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	do()
	close(n.changed)
	n.changed = make(chan struct{})
}

// counts returns how many logs were opened, and how many are open.
func (n *node) counts() (opened, open int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.opened), n.open
}

// FollowToolLog implements Logs.
func (n *node) FollowToolLog(ctx context.Context, pod *corev1.Pod, most int64) (io.ReadCloser, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.opened = append(n.opened, pod.Namespace+"/"+pod.Name)
	n.open++
	ctx, cancel := context.WithCancel(ctx)
	return &reader{node: n, ctx: ctx, cancel: cancel, pod: pod.Name, most: most}, nil
}

type reader struct {
	node   *node
	ctx    context.Context
	cancel func()
	pod    string
	at     int
	most   int64
	closed bool
}

func (r *reader) Read(into []byte) (int, error) {
	for {
		r.node.mu.Lock()
		log, changed, ended := r.node.logs[r.pod], r.node.changed, r.node.ended[r.pod]
		r.node.mu.Unlock()
		log = log[:min(int64(len(log)), r.most)]
		switch {
		case r.at < len(log):
			n := copy(into, log[r.at:])
			r.at += n
			return n, nil
		case ended || int64(r.at) == r.most:
			return 0, io.EOF
		}
		select {
		case <-changed:
		case <-r.ctx.Done():
			return 0, r.ctx.Err()
		}
	}
}

func (r *reader) Close() error {
	r.cancel()
	r.node.mu.Lock()
	defer r.node.mu.Unlock()
	if r.closed {
		return errors.New("closed twice")
	}
	r.closed = true
	r.node.open--
	return nil
}

// world is a Follower with the objects that it reads.
type world struct {
	*Follower
	*node
	t      *testing.T
	client client.Client

	mu   sync.Mutex
	seen map[types.UID][]feed.Output
}

func newWorld(t *testing.T) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(
		v1alpha1.AddToScheme(scheme), batchv1.AddToScheme(scheme), corev1.AddToScheme(scheme),
	); err != nil {
		t.Fatal(err)
	}
	builder := fake.NewClientBuilder().WithScheme(scheme)
	for _, index := range fieldindex.All() {
		builder = builder.WithIndex(index.Object, index.Field, index.Values)
	}
	w := &world{t: t, client: builder.Build(), seen: map[types.UID][]feed.Output{}}
	w.node = &node{logs: map[string][]byte{}, ended: map[string]bool{}, changed: make(chan struct{})}
	w.Follower = New(Options{Client: w.client, Logs: w.node, Log: logr.Discard()})
	return w
}

// lead makes the Follower that of a leader, until the returned function has returned.
func (w *world) lead() (end func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Start(ctx) }()
	return func() {
		w.t.Helper()
		cancel()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
		if opened, open := w.counts(); open != 0 {
			w.t.Errorf("%d of %d logs are open at the end", open, opened)
		}
	}
}

// subscribe begins to follow the Session of a Turn, until the end of the test at the latest.
func (w *world) subscribe(turn *v1alpha1.Turn) (end func()) {
	uid := turn.Status.SessionUID
	end = w.Follow(journal.Session{Namespace: turn.Namespace, Name: "s", UID: uid}, func(o feed.Output) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.seen[uid] = append(w.seen[uid], o)
	})
	w.t.Cleanup(end)
	return end
}

// show passes on the status of a Turn, and waits until all that follows from it is done.
func (w *world) show(turn *v1alpha1.Turn) {
	w.Turn(turn.Status.SessionUID, turn)
	synctest.Wait()
}

// outputs returns the pieces that have come for a Session.
func (w *world) outputs(turn *v1alpha1.Turn) []feed.Output {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]feed.Output(nil), w.seen[turn.Status.SessionUID]...)
}

// text returns the output of a call, and checks that it has no gap.
func (w *world) text(turn *v1alpha1.Turn, call string) string {
	w.t.Helper()
	var b strings.Builder
	for _, o := range w.outputs(turn) {
		if o.Data.ToolCallID != call {
			continue
		}
		if o.Data.Offset != int64(b.Len()) {
			w.t.Errorf("a piece is at %d, behind %d", o.Data.Offset, b.Len())
		}
		b.WriteString(o.Data.Delta)
	}
	return b.String()
}

// expect checks how many logs were opened, and how many are open.
func (w *world) expect(opened, open int) {
	w.t.Helper()
	synctest.Wait()
	if o, n := w.counts(); o != opened || n != open {
		w.t.Errorf("%d logs were opened and %d are open, not %d and %d", o, n, opened, open)
	}
}

// turn creates a Turn with so many running calls, each with a Job and a pod.
func (w *world) turn(namespace, name string, calls int) *v1alpha1.Turn {
	w.t.Helper()
	turn := &v1alpha1.Turn{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(namespace + "-" + name),
	}}
	turn.Status.SessionUID = "session-of-" + turn.UID
	turn.Status.Plan = &v1alpha1.TurnPlan{Step: 2, Phase: v1alpha1.PlanPhaseAct}
	for i := range calls {
		call := v1alpha1.ToolCall{
			ID: fmt.Sprintf("1-%d", i), Name: "w", Executor: v1alpha1.ToolExecutorJob, Attempt: 1, Fingerprint: "f",
			State: v1alpha1.ToolCallStateRunning,
		}
		turn.Status.ToolCalls = append(turn.Status.ToolCalls, call)
		w.run(turn, call)
	}
	return turn
}

// podOf is the name of the pod of a call.
func podOf(turn *v1alpha1.Turn, call string) string { return string(turn.UID) + "-" + call }

// run creates the Job and the pod of a call.
func (w *world) run(turn *v1alpha1.Turn, call v1alpha1.ToolCall) (*batchv1.Job, *corev1.Pod) {
	w.t.Helper()
	labels := map[string]string{v1alpha1.LabelTurnUID: string(turn.UID), v1alpha1.LabelStep: "2"}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: turn.Namespace, Name: jobspec.Name(turn.UID, 2, call.ID, 1), Labels: labels,
		UID: types.UID("job-" + podOf(turn, call.ID)), Annotations: map[string]string{v1alpha1.AnnotationFingerprint: "f"},
		OwnerReferences: []metav1.OwnerReference{{Name: turn.Name, UID: turn.UID, Controller: ptr.To(true)}},
	}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: turn.Namespace, Name: podOf(turn, call.ID), Labels: labels, UID: types.UID(podOf(turn, call.ID)),
		OwnerReferences: []metav1.OwnerReference{{Name: job.Name, UID: job.UID, Controller: ptr.To(true)}},
	}}
	if err := errors.Join(w.client.Create(w.t.Context(), job), w.client.Create(w.t.Context(), pod)); err != nil {
		w.t.Fatal(err)
	}
	return job, pod
}
