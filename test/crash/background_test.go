package crash_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/runtime/background"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/record/kubernetes"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

const (
	// taskShown: the status of a Session shows a background task before the task has a Job, and until the Turn exists
	// that delivers its end.
	taskShown = "TaskShown"
	// taskDelivered: the end of a background task is delivered by one Turn, as what it was.
	taskDelivered = "TaskDelivered"
)

// backgrounds are conversations with background tasks (TOOL-20, TASK-01). The ids of tasks differ in each run.
var backgrounds = slices.Concat(
	[]scenario{
		{
			name:       "a background task that outlives its Turn",
			simulation: spawning(nil),
			tools:      inBackground(),
			session:    withTasks,
			tool:       endAfterTheTurn,
			varies:     true,
		},
		{
			name:       "a background task whose end goes into its Turn, which waits for a client",
			simulation: spawning([]string{"ask-ann"}),
			tools:      inBackground(builder.ClientTool("ask-ann").Obj()),
			session:    withTasks,
			drive: func(ctx context.Context, r *run) error {
				if err := r.await(ctx, r.tasksAreDelivered); err != nil {
					return err
				}
				return respondTo("1-1")(ctx, r)
			},
			varies: true,
		},
	},
	threeEnds("a background task, and a client that does not answer", scenario{
		simulation: spawning([]string{"ask-ann"}),
		tools:      inBackground(builder.ClientTool("ask-ann").Obj()),
		session:    withTasks,
		tool:       endAfterTheTurn,
		ripe:       isRunning,
	}),
)

// spawning is a model that starts the tool build in the background, beside calls of other tools, when the user writes.
func spawning(others []string) v1alpha1.Simulation {
	arguments := background.Wrap("build", `{}`)
	calls := []v1alpha1.SimulatedToolCall{{Name: background.SpawnTool, RawArguments: &arguments}}
	for _, name := range others {
		calls = append(calls, v1alpha1.SimulatedToolCall{Name: name})
	}
	return v1alpha1.Simulation{
		Response: builder.Fixed("done"),
		ToolCalls: &v1alpha1.SimulatedToolCalls{Conditional: []v1alpha1.SimulatedRule{
			{Contains: "Hello from", Sequence: []v1alpha1.SimulatedStep{{Calls: calls}, {}}},
		}},
	}
}

func inBackground(others ...*v1alpha1.Tool) func() []*v1alpha1.Tool {
	build := builder.JobTool("build", v1alpha1.SideEffectAtMostOnce).Obj()
	build.Spec.Job.Background = v1alpha1.BackgroundPolicyAllow
	return given(append(others, build)...)
}

func withTasks(s *v1alpha1.SessionSpec) {
	s.Capabilities = []v1alpha1.CapabilityReference{{Builtin: background.Capability}}
}

// endAfterTheTurn is a tool that ends when the first Turn has ended or is gone.
func endAfterTheTurn(r *run, call capstantest.Call) string {
	r.toolStarted()
	for {
		if turn := r.seen.turn(r.namespace, "demo-1"); turn.UID == "" || ended(turn) {
			return "built"
		}
		select {
		case <-call.Context.Done():
			return "never"
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// tasksAreDelivered reports whether a Turn exists for each background task, and at least one.
func (r *run) tasksAreDelivered() error {
	h := r.seen.snapshot(r.namespace)
	if len(h.taskIDs()) == 0 {
		return errors.New("no background task was started")
	}
	for _, id := range h.taskIDs() {
		if len(h.deliveries(id)) == 0 {
			return fmt.Errorf("the end of background task %s was not delivered", id)
		}
	}
	return nil
}

// tasksAreOver reports whether the Session shows no background task, and the Turns that deliver their ends have ended.
func (r *run) tasksAreOver() error {
	if shown := r.seen.session(r.namespace).Status.BackgroundTasks; len(shown) > 0 {
		return fmt.Errorf("the Session shows the background task %s", shown[0].ID)
	}
	h := r.seen.snapshot(r.namespace)
	for _, id := range h.taskIDs() {
		if turn := newest(h.turns, background.Name(id)); turn != nil && !ended(turn) {
			return fmt.Errorf("Turn %s is in phase %s, step %d", turn.Name, turn.Status.Phase, step(turn))
		}
	}
	return nil
}

// tasksAreFree checks that the records of the Session have no background task that is active, so that all of its places
// are free, and that each task that has ended was delivered.
func (r *run) tasksAreFree(ctx context.Context) error {
	h := r.seen.snapshot(r.namespace)
	if len(h.taskIDs()) == 0 {
		return nil
	}
	objects, err := kubernetes.ForConfig(config, nil)
	if err != nil {
		return err
	}
	session := r.seen.session(r.namespace)
	of := background.Session{Namespace: r.namespace, Name: session.Name, UID: session.UID}
	all, err := background.Of(record.New(objects, record.Options{}), of, time.Now).List(ctx, false)
	for i := range all {
		switch {
		case all[i].Active():
			return fmt.Errorf("%s: background task %s is active when all is over", taskDelivered, all[i].ID)
		case !all[i].Withdrawn() && len(h.deliveries(all[i].ID)) == 0:
			return fmt.Errorf("%s: background task %s counts as delivered, and no Turn delivers it", taskDelivered, all[i].ID)
		}
	}
	return err
}

// taskIDs are the ids of all background tasks of which anything was ever seen.
func (h *history) taskIDs() []string {
	var ids []string
	add := func(id string) {
		if id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	for _, at := range h.sessions {
		for _, t := range at.object.Status.BackgroundTasks {
			add(t.ID)
		}
	}
	for _, at := range h.jobs {
		add(at.object.Labels[v1alpha1.LabelTask])
	}
	for _, at := range h.turns {
		if of := at.object.Spec.Origin.TaskOf(); of != nil {
			add(of.ID)
		}
	}
	return ids
}

// deliveries are the Turns that deliver the end of a background task, as they were created, by UID.
func (h *history) deliveries(id string) map[types.UID]version[*v1alpha1.Turn] {
	found := map[types.UID]version[*v1alpha1.Turn]{}
	for _, at := range h.turns {
		if of := at.object.Spec.Origin.TaskOf(); of == nil || of.ID != id {
			continue
		}
		if _, known := found[at.object.UID]; !known {
			found[at.object.UID] = at
		}
	}
	return found
}

// taskStarts is how many pods of a background task have started, and whether one has ended without an error.
func (h *history) taskStarts(id string) (starts int, succeeded bool) {
	started := map[types.UID]bool{}
	for _, at := range h.pods {
		if at.object.Labels[v1alpha1.LabelTask] != id {
			continue
		}
		if hasStarted(at.object) {
			started[at.object.UID] = true
		}
		succeeded = succeeded || at.object.Status.Phase == corev1.PodSucceeded
	}
	return len(started), succeeded
}

// checkTasks checks the background tasks.
func (e *evidence) checkTasks(v *findings) {
	for _, id := range e.taskIDs() {
		starts, succeeded := e.taskStarts(id)
		if starts > 1 {
			v.fail(startedOnce, "background task %s started %d times", id, starts)
		}
		e.checkShown(v, id)
		delivered := e.deliveries(id)
		if len(delivered) > 1 {
			v.fail(taskDelivered, "the end of background task %s is delivered by %d Turns", id, len(delivered))
		}
		for _, at := range delivered {
			message := at.object.Spec.Input
			switch {
			case starts > 0 && strings.Contains(message, "was not executed"):
				v.fail(notExecutedNeverStarted, "background task %s has started, and its message is %q", id, message)
			case starts == 0 && strings.Contains(message, "has ended: succeeded"):
				v.fail(succeededStarted, "background task %s has not started, and its message is %q", id, message)
			case succeeded && !strings.Contains(message, "has ended: succeeded"):
				v.fail(taskDelivered, "background task %s has succeeded, and its message is %q", id, message)
			}
		}
	}
}

// checkShown checks the moments at which the status of the Session begins and ceases to show a background task. One
// that was withdrawn before it was recorded has no Job, and no Turn.
func (e *evidence) checkShown(v *findings, id string) {
	first, hid := forever, int64(0)
	shown := false
	for _, at := range e.sessions {
		now := slices.ContainsFunc(at.object.Status.BackgroundTasks, func(t v1alpha1.BackgroundTask) bool {
			return t.ID == id
		})
		if now {
			first = min(first, at.revision)
		}
		if shown && !now && !at.deleted {
			hid = at.revision
		}
		shown = now
	}
	job := forever
	for _, at := range e.jobs {
		if at.object.Labels[v1alpha1.LabelTask] == id {
			job = min(job, at.revision)
		}
	}
	if job < first {
		v.fail(taskShown, "background task %s has a Job, and no status had shown it", id)
	}
	delivered := forever
	for _, at := range e.deliveries(id) {
		delivered = min(delivered, at.revision)
	}
	if hid > 0 && hid < delivered && (job < forever || delivered < forever) {
		v.fail(taskShown, "the Session shows background task %s no longer, and its end was not delivered", id)
	}
}

// hideEarly makes the Session forget a background task whose Job is created.
func hideEarly(_ context.Context, r *run, d *pendingRequest) (bool, error) {
	job, ok := d.object.(*batchv1.Job)
	if !ok || job.Labels[v1alpha1.LabelTask] == "" {
		return false, nil
	}
	d.after = func(ctx context.Context) error {
		return changeStatus(ctx, r.newSession(), `{"status":{"backgroundTasks":null}}`)
	}
	return true, nil
}

// deliverTwice creates each Turn that delivers the end of a background task twice.
func deliverTwice(ctx context.Context, _ *run, d *pendingRequest) (bool, error) {
	turn, ok := d.object.(*v1alpha1.Turn)
	if !ok {
		return false, nil
	}
	second := turn.DeepCopy()
	second.Name += "-again"
	return true, client.IgnoreAlreadyExists(user.Create(ctx, second))
}
