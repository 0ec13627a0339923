package policies_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/background"
	"github.com/capstan-dev/capstan/internal/runtime/tool/jobspec"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// taskSession is the Session of taskOf.
var taskSession = background.Session{Namespace: teamA, Name: "demo", UID: "s1"}

// endedTask is a background task of a Session in teamA.
func endedTask() *background.Task {
	of := v1alpha1.ObjectIdentity{Name: "demo-1", UID: "t1"}
	return &background.Task{
		ID: background.ID(of.UID, "1-0"), Tool: background.Tool{Name: "work", UID: "u1", Digest: "d"}, Turn: of,
		CallID: "1-0", Root: of, SubmittedBy: "ann",
		End: &background.End{State: v1alpha1.ToolCallStateSucceeded, Fence: "0011223344556677"},
	}
}

func taskTurn() *v1alpha1.Turn { return background.NewTurn(taskSession, endedTask(), "done") }

// taskJob is the Job of a background task.
func taskJob() *batchv1.Job {
	t, caller := endedTask(), builder.Turn("demo-1").In(teamA).Obj()
	caller.UID = "t1"
	return jobspec.Build(jobspec.Params{
		Turn: caller, Session: "demo", Call: t.Call(), ToolName: "work",
		Tool:     &builder.JobTool("work", v1alpha1.SideEffectPure).Obj().Spec,
		Launcher: jobspec.Launcher{Image: "launcher", Delivery: jobspec.DeliveryInitContainer},
		Task:     jobspec.TaskRef{ID: t.ID, Job: background.Name(t.ID), Owner: background.Owner(taskSession)},
	})
}

var _ = Describe("The policies on the manager and background tasks", func() {
	const (
		others = "the manager may create only Turns of sub-agents, of background tasks and of Schedules, and change only " +
			"those of sub-agents and of Schedules."
		place = "the manager may create the Turn of a background task only in the Session of the task, which owns it, and " +
			"under the name of the task."
		shape = "the manager may create Jobs of background tasks only with their labels, with the Session as their " +
			"controller and with the scheduling gate."
	)

	It("let it create the Turn that delivers an end, and change it in no way", func(ctx context.Context) {
		own := stored(ctx, as(managerUser), taskTurn())
		refuses(updating(ctx, managerAsAdmin(), own, func(t *v1alpha1.Turn) {
			t.Spec.DesiredState = v1alpha1.DesiredStateCancelled
		}), others)
		for what, change := range map[string]func(*v1alpha1.Turn){
			"under another name":   func(t *v1alpha1.Turn) { t.Name = "task-0000000000000000" },
			"without an owner":     func(t *v1alpha1.Turn) { t.OwnerReferences = nil },
			"of another Session":   func(t *v1alpha1.Turn) { t.OwnerReferences[0].UID = "s2" },
			"in another Session":   func(t *v1alpha1.Turn) { t.Spec.SessionRef.Name = "theirs" },
			"that is queued":       func(t *v1alpha1.Turn) { t.Spec.Delivery = v1alpha1.DeliveryQueue },
			"that is cancelled":    func(t *v1alpha1.Turn) { t.Spec.DesiredState = v1alpha1.DesiredStateCancelled },
			"with controls":        func(t *v1alpha1.Turn) { t.Spec.Controls = &v1alpha1.TurnControls{Locale: "de"} },
			"without its label":    func(t *v1alpha1.Turn) { t.Labels = nil },
			"with another's label": func(t *v1alpha1.Turn) { t.Labels[v1alpha1.LabelTask] = "0000000000000000" },
			"with a finalizer":     func(t *v1alpha1.Turn) { t.Finalizers = []string{"example.org/held"} },
			"with an annotation":   func(t *v1alpha1.Turn) { t.Annotations = map[string]string{"a": "b"} },
		} {
			By(what)
			turn := taskTurn()
			change(turn)
			refuses(creating(ctx, managerAsAdmin(), turn), place)
		}
	})

	It("let it create and delete the Job of a task, and only in its shape", func(ctx context.Context) {
		own := stored(ctx, as(managerUser), taskJob())
		accepts(func() error { return as(managerUser).Delete(ctx, own.DeepCopy(), client.DryRunAll) })
		for what, change := range map[string]func(*batchv1.Job){
			"under another name":  func(j *batchv1.Job) { j.Name = "task-0000000000000000" },
			"without an owner":    func(j *batchv1.Job) { j.OwnerReferences = nil },
			"of a Turn":           func(j *batchv1.Job) { j.OwnerReferences[0].Kind = "Turn" },
			"of no controller":    func(j *batchv1.Job) { j.OwnerReferences[0].Controller = nil },
			"with a Turn's label": func(j *batchv1.Job) { j.Labels[v1alpha1.LabelTurnUID] = "t1" },
			"with a pod of a Turn": func(j *batchv1.Job) {
				j.Spec.Template.Labels[v1alpha1.LabelTurnUID] = "t1"
			},
			"with a pod of another task": func(j *batchv1.Job) {
				j.Spec.Template.Labels[v1alpha1.LabelTask] = "0000000000000000"
			},
			"without the gate": func(j *batchv1.Job) { j.Spec.Template.Spec.SchedulingGates = nil },
			"with another gate": func(j *batchv1.Job) {
				j.Spec.Template.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.org/other"}}
			},
		} {
			By(what)
			job := taskJob()
			change(job)
			refuses(creating(ctx, managerAsAdmin(), job), shape)
		}
	})
})
