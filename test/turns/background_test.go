package turns_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	backgroundcontroller "github.com/capstan-dev/capstan/internal/controller/background"
	"github.com/capstan-dev/capstan/internal/runtime/background"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// spawns is a call that starts a tool in the background.
func spawns(tool string) v1alpha1.SimulatedToolCall {
	arguments := background.Wrap(tool, `{"target":"all"}`)
	return v1alpha1.SimulatedToolCall{Name: background.SpawnTool, RawArguments: &arguments}
}

// whenTold is a model that makes the calls when the message is the one of builder.Turn, and answers every other message
// by repeating it.
func whenTold(calls ...v1alpha1.SimulatedToolCall) v1alpha1.Simulation {
	return v1alpha1.Simulation{
		Response: &v1alpha1.SimulatedResponse{Text: "I read: {{input}}"},
		ToolCalls: &v1alpha1.SimulatedToolCalls{Conditional: []v1alpha1.SimulatedRule{
			{Contains: "Start it.", Sequence: []v1alpha1.SimulatedStep{{Calls: calls}, {}}},
		}},
	}
}

// starting is a Turn whose model starts tasks.
func starting(namespace, name string) *v1alpha1.Turn {
	turn := builder.Turn(name).In(namespace).Obj()
	turn.Spec.Input = "Start it."
	return turn
}

// newWorkshop returns a namespace with a Session whose model makes these calls, and the tool build, which a function
// runs.
func newWorkshop(ctx context.Context, run capstantest.JobRunner, calls ...v1alpha1.SimulatedToolCall) string {
	GinkgoHelper()
	build := builder.JobTool("build", v1alpha1.SideEffectAtMostOnce).Obj()
	build.Spec.Job.Background = v1alpha1.BackgroundPolicyAllow
	namespace := newNamespace(ctx, whenTold(calls...), build, builder.ClientTool("ask-ann").Obj())
	if run != nil {
		jobs.In(namespace, run)
	}
	session := builder.Session("demo").In(namespace).Obj()
	session.Spec.Capabilities = []v1alpha1.CapabilityReference{{Builtin: background.Capability}}
	create(ctx, session)
	Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseStarted))
	return namespace
}

// tasksOf returns the tasks that the status of the Session shows.
func tasksOf(ctx context.Context, namespace string) func() ([]v1alpha1.BackgroundTask, error) {
	return func() ([]v1alpha1.BackgroundTask, error) {
		session := &v1alpha1.Session{}
		err := kit.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: "demo"}, session)
		return session.Status.BackgroundTasks, err
	}
}

// taskIn waits for the only task of the Session, and returns its id.
func taskIn(ctx context.Context, namespace string) string {
	GinkgoHelper()
	Eventually(tasksOf(ctx, namespace)).Should(HaveLen(1))
	tasks, err := tasksOf(ctx, namespace)()
	Expect(err).NotTo(HaveOccurred())
	return tasks[0].ID
}

// Rules: TOOL-20, TASK-01.
var _ = Describe("A background task", func() {
	It("outlives its Turn, and its end is a Turn of its Session", func(ctx context.Context) {
		ended := make(chan struct{})
		namespace := newWorkshop(ctx, func(call capstantest.Call) (string, string, int) {
			<-ended
			return "built " + call.Arguments, "", 0
		}, spawns("build"))
		create(ctx, starting(namespace, "demo-1"))
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		caller := turnOf(ctx, namespace, "demo-1")
		Expect(caller.Status.ToolCalls).To(ConsistOf(And(
			HaveField("Executor", v1alpha1.ToolExecutorTask), HaveField("Background", "build"),
			HaveField("State", v1alpha1.ToolCallStateSucceeded))))
		id := taskIn(ctx, namespace)
		Eventually(func() int { return kit.Starts(namespace, "demo-1", id) }).Should(Equal(1))

		job := &batchv1.Job{}
		Expect(kit.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: background.Name(id)}, job)).To(Succeed())
		Expect(job.Labels).NotTo(HaveKey(v1alpha1.LabelTurnUID))
		Expect(metav1.GetControllerOf(job).Kind).To(Equal("Session"))

		close(ended)
		Eventually(kit.Turn(ctx, namespace, background.Name(id))).Should(capstantest.HaveSucceeded())
		own := turnOf(ctx, namespace, background.Name(id))
		Expect(own.Spec.Input).To(ContainSubstring("built {\"target\":\"all\"}\n</tool-output "))
		Expect(own.Spec.Delivery).To(Equal(v1alpha1.DeliverySteer))
		Expect(own.Spec.Origin.TaskOf().Root.UID).To(Equal(caller.UID))
		Expect(own.Spec.SubmittedBy).To(Equal(caller.Spec.SubmittedBy))
		Eventually(tasksOf(ctx, namespace)).Should(BeEmpty())
		Expect(kit.Starts(namespace, "demo-1", id)).To(Equal(1))
		quietly(ctx, namespace)
		Expect(exists(ctx, &batchv1.Job{}, namespace, background.Name(id))()).To(BeTrue(), "its Job is kept for a while")
	})

	It("does not end a wait for a client, and its message goes into the Turn that waits", func(ctx context.Context) {
		namespace := newWorkshop(ctx, nil, spawns("build"), v1alpha1.SimulatedToolCall{Name: "ask-ann"})
		create(ctx, starting(namespace, "demo-1"))
		id := ""
		Eventually(func(g Gomega) {
			var turns v1alpha1.TurnList
			g.Expect(kit.Client.List(ctx, &turns, client.InNamespace(namespace))).To(Succeed())
			for _, turn := range turns.Items {
				if of := turn.Spec.Origin.TaskOf(); of != nil {
					id = of.ID
				}
			}
			g.Expect(id).NotTo(BeEmpty())
		}).Should(Succeed())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForTools("ask-ann"))
		quietly(ctx, namespace)
		Expect(kit.Turn(ctx, namespace, "demo-1")()).To(capstantest.WaitForTools("ask-ann"))
		Expect(kit.Answer(ctx, namespace, "demo-1", "ask-ann", "yes")).To(Succeed())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		own := turnOf(ctx, namespace, background.Name(id))
		Expect(own.Status.SteeredInto).NotTo(BeNil())
		Expect(own.Status.SteeredInto.Name).To(Equal("demo-1"))
	})

	It("is cancelled by the model, and ends once", func(ctx context.Context) {
		var stopped atomic.Int32
		namespace := newWorkshop(ctx, func(call capstantest.Call) (string, string, int) {
			<-call.Context.Done()
			stopped.Add(1)
			return "", "", 1
		}, spawns("build"))
		create(ctx, starting(namespace, "demo-1"))
		id := taskIn(ctx, namespace)
		Eventually(func() int { return kit.Starts(namespace, "demo-1", id) }).Should(Equal(1))
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		arguments := fmt.Sprintf(`{"task_id":%q}`, id)
		script := builder.Script("I did.", []v1alpha1.SimulatedToolCall{
			{Name: background.CancelTool, RawArguments: &arguments},
		})
		create(ctx, builder.Model("canceller").In(namespace).Simulated(script).Obj())
		turn := builder.Turn("demo-2").In(namespace).Obj()
		turn.Spec.Controls = &v1alpha1.TurnControls{ModelRef: &v1alpha1.LocalReference{Name: "canceller"}}
		create(ctx, turn)
		Eventually(kit.Turn(ctx, namespace, "demo-2")).Should(capstantest.HaveSucceeded())
		Eventually(kit.Turn(ctx, namespace, background.Name(id))).Should(capstantest.HaveSucceeded())
		Expect(turnOf(ctx, namespace, background.Name(id)).Spec.Input).To(ContainSubstring("has ended: canceled"))
		Eventually(tasksOf(ctx, namespace)).Should(BeEmpty())
		Expect(stopped.Load()).To(BeEquivalentTo(1))
	})

	It("ends as not executed when the cluster refuses its Job", func(ctx context.Context) {
		namespace := newWorkshop(ctx, nil, spawns("build"))
		none := corev1.ResourceList{"count/jobs.batch": resource.MustParse("0")}
		quota := &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: none},
		}
		create(ctx, quota)
		quota.Status = corev1.ResourceQuotaStatus{Hard: none, Used: none}
		Expect(kit.Client.Status().Update(ctx, quota)).To(Succeed())
		create(ctx, starting(namespace, "demo-1"))
		Eventually(func(g Gomega) {
			var turns v1alpha1.TurnList
			g.Expect(kit.Client.List(ctx, &turns, client.InNamespace(namespace))).To(Succeed())
			var delivered []string
			for _, turn := range turns.Items {
				if turn.Spec.Origin.TaskOf() != nil {
					delivered = append(delivered, turn.Spec.Input)
				}
			}
			g.Expect(delivered).To(ConsistOf(ContainSubstring("a quota of the namespace is exhausted")))
		}).Should(Succeed())
	})

	It("ends with its Session, and delivers nothing then", func(ctx context.Context) {
		namespace := newWorkshop(ctx, func(call capstantest.Call) (string, string, int) {
			<-call.Context.Done()
			return "", "", 1
		}, spawns("build"))
		create(ctx, starting(namespace, "demo-1"))
		id := taskIn(ctx, namespace)
		Eventually(func() int { return kit.Starts(namespace, "demo-1", id) }).Should(Equal(1))
		session := &v1alpha1.Session{}
		Expect(kit.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: "demo"}, session)).To(Succeed())
		Expect(kit.Client.Delete(ctx, session)).To(Succeed())
		Eventually(exists(ctx, &v1alpha1.Session{}, namespace, "demo")).Should(BeFalse())
		quietly(ctx, namespace)
		Consistently(exists(ctx, &v1alpha1.Turn{}, namespace, background.Name(id))).WithTimeout(2 * time.Second).
			Should(BeFalse())
	})

	It("is delivered although the result is long, of which the message has the beginning", func(ctx context.Context) {
		namespace := newWorkshop(ctx, func(capstantest.Call) (string, string, int) {
			return strings.Repeat("0123456789abcdef\n", 3000), "", 0
		}, spawns("build"))
		create(ctx, starting(namespace, "demo-1"))
		Eventually(func(g Gomega) {
			var turns v1alpha1.TurnList
			g.Expect(kit.Client.List(ctx, &turns, client.InNamespace(namespace))).To(Succeed())
			var delivered []string
			for _, turn := range turns.Items {
				if turn.Spec.Origin.TaskOf() != nil {
					delivered = append(delivered, turn.Spec.Input)
				}
			}
			g.Expect(delivered).To(ConsistOf(And(ContainSubstring("Its result has 51000 bytes"),
				WithTransform(func(s string) int { return len(s) }, BeNumerically("<", 17<<10)))))
		}).Should(Succeed())
	})

	It("is listed and read by the model", func(ctx context.Context) {
		ended := make(chan struct{})
		namespace := newWorkshop(ctx, func(capstantest.Call) (string, string, int) {
			<-ended
			return strings.Repeat("0123456789abcdef\n", 1200), "", 0
		}, spawns("build"))
		create(ctx, starting(namespace, "demo-1"))
		id := taskIn(ctx, namespace)
		Eventually(func() int { return kit.Starts(namespace, "demo-1", id) }).Should(Equal(1))
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		Expect(readingTasks(ctx, namespace, "demo-2", id)).To(And(
			ContainSubstring(`[{"task_id":"`+id+`","tool":"build","state":"running"`),
			Not(ContainSubstring("0123456789abcdef\\n"))))
		close(ended)
		Eventually(kit.Turn(ctx, namespace, background.Name(id))).Should(capstantest.HaveSucceeded())
		Expect(readingTasks(ctx, namespace, "demo-3", id)).To(And(
			ContainSubstring(`"state":"succeeded"`), ContainSubstring(strings.Repeat(`0123456789abcdef\n`, 1200)+`"`)))
	})

	It("is delivered when a refusal of its Turn is over", func(ctx context.Context) {
		namespace := newWorkshop(ctx, nil, spawns("build"))
		const counted = "count/turns.capstan.dev"
		one := corev1.ResourceList{counted: resource.MustParse("1")}
		quota := &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "one"}, Spec: corev1.ResourceQuotaSpec{Hard: one},
		}
		create(ctx, quota)
		create(ctx, starting(namespace, "demo-1"))
		quota.Status = corev1.ResourceQuotaStatus{Hard: one, Used: one}
		Expect(kit.Client.Status().Update(ctx, quota)).To(Succeed())
		id := taskIn(ctx, namespace)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		refused := requests.in(namespace)
		Eventually(func() int { return countOf(requests.in(namespace), agentTurnWrite) }).Should(
			BeNumerically(">", countOf(refused, agentTurnWrite)+1), "the refused Turn is not tried again")
		Expect(tasksOf(ctx, namespace)()).To(HaveLen(1), "a task counts until it is delivered")
		Expect(kit.Client.Delete(ctx, quota)).To(Succeed())
		Eventually(kit.Turn(ctx, namespace, background.Name(id))).Should(capstantest.HaveSucceeded())
		Expect(turnOf(ctx, namespace, background.Name(id)).Spec.Input).To(ContainSubstring("has ended: succeeded"))
		Eventually(tasksOf(ctx, namespace)).Should(BeEmpty())
		Expect(kit.Starts(namespace, "demo-1", id)).To(Equal(1))
	})

	It("is not started beyond the ceiling of the namespace", SpecPriority(10), func(ctx context.Context) {
		ended := make(chan struct{})
		namespace := newWorkshop(ctx, func(call capstantest.Call) (string, string, int) {
			select {
			case <-ended:
			case <-call.Context.Done():
			}
			return "built", "", 0
		}, slices.Repeat([]v1alpha1.SimulatedToolCall{spawns("build")}, background.MaxActive)...)
		const sessions = backgroundcontroller.DefaultMaxPerNamespace / background.MaxActive
		for i := range sessions {
			name := fmt.Sprintf("demo%d", i)
			session := builder.Session(name).In(namespace).Obj()
			session.Spec.Capabilities = []v1alpha1.CapabilityReference{{Builtin: background.Capability}}
			create(ctx, session)
			turn := starting(namespace, name+"-1")
			turn.Spec.SessionRef.Name = name
			create(ctx, turn)
		}
		for i := range sessions {
			Eventually(kit.Turn(ctx, namespace, fmt.Sprintf("demo%d-1", i))).WithTimeout(time.Minute).
				Should(capstantest.HaveSucceeded())
		}
		create(ctx, starting(namespace, "demo-1"))
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		Expect(turnOf(ctx, namespace, "demo-1").Status.ToolCalls).To(And(HaveLen(background.MaxActive), HaveEach(And(
			HaveField("State", v1alpha1.ToolCallStateNotExecuted),
			HaveField("Reason", v1alpha1.ToolCallReasonBackgroundLimit)))))
		Expect(tasksOf(ctx, namespace)()).To(BeEmpty())
		close(ended)
		Eventually(func(g Gomega) {
			var all v1alpha1.SessionList
			g.Expect(kit.Client.List(ctx, &all, client.InNamespace(namespace))).To(Succeed())
			g.Expect(all.Items).To(HaveEach(HaveField("Status.BackgroundTasks", BeEmpty())))
		}).WithTimeout(time.Minute).Should(Succeed())
		create(ctx, starting(namespace, "demo-2"))
		Eventually(kit.Turn(ctx, namespace, "demo-2")).Should(capstantest.HaveSucceeded())
		Expect(turnOf(ctx, namespace, "demo-2").Status.ToolCalls).To(
			HaveEach(HaveField("State", v1alpha1.ToolCallStateSucceeded)))
	})
})

// readingTasks runs a Turn whose model lists the tasks and reads one, and returns the results.
func readingTasks(ctx context.Context, namespace, name, id string) string {
	GinkgoHelper()
	arguments := fmt.Sprintf(`{"task_id":%q}`, id)
	script := builder.Script("I did.", []v1alpha1.SimulatedToolCall{
		{Name: background.ListTool}, {Name: background.ReadTool, RawArguments: &arguments},
	})
	create(ctx, builder.Model(name).In(namespace).Simulated(script).Obj())
	turn := builder.Turn(name).In(namespace).Obj()
	turn.Spec.Controls = &v1alpha1.TurnControls{ModelRef: &v1alpha1.LocalReference{Name: name}}
	create(ctx, turn)
	Eventually(kit.Turn(ctx, namespace, name)).Should(capstantest.HaveSucceeded())
	var results []string
	for _, entry := range journalOf(ctx, namespace) {
		for _, e := range entry.Events {
			if e.Type == event.TypeToolCompleted && entry.Turn.Name == name {
				completed, err := event.Decode[event.ToolCompleted](e)
				Expect(err).NotTo(HaveOccurred())
				results = append(results, completed.Result[0].Text)
			}
		}
	}
	return strings.Join(results, "\n")
}
