//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/runtime/background"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// newWorkshop creates a namespace whose model starts the tool in the background when it is asked, and responds to every
// other message by repeating it.
func newWorkshop(ctx context.Context, tool *v1alpha1.Tool, args arguments) string {
	GinkgoHelper()
	raw, err := json.Marshal(args)
	Expect(err).NotTo(HaveOccurred())
	spawned := background.Wrap(tool.Name, string(raw))
	tool.Spec.Job.Background = v1alpha1.BackgroundPolicyAllow
	namespace := newNamespace(ctx)
	for _, object := range builder.Stage(namespace, v1alpha1.Simulation{
		Response: &v1alpha1.SimulatedResponse{Text: "I read: {{input}}"},
		ToolCalls: &v1alpha1.SimulatedToolCalls{Conditional: []v1alpha1.SimulatedRule{{
			Contains: "Please.", Sequence: []v1alpha1.SimulatedStep{
				{Calls: calls{{Name: background.SpawnTool, RawArguments: &spawned}}}, {},
			},
		}}},
	}, tool) {
		create(ctx, object)
	}
	session := builder.Session("demo").In(namespace).Obj()
	session.Spec.Capabilities = []v1alpha1.CapabilityReference{{Builtin: background.Capability}}
	create(ctx, session)
	return namespace
}

// tasksOf returns the background tasks that the Session shows.
func tasksOf(namespace string) func(context.Context) ([]v1alpha1.BackgroundTask, error) {
	return func(ctx context.Context) ([]v1alpha1.BackgroundTask, error) {
		session := &v1alpha1.Session{}
		err := api.Get(ctx, types.NamespacedName{Namespace: namespace, Name: "demo"}, session)
		return session.Status.BackgroundTasks, err
	}
}

// taskPods returns the pods of a background task.
func taskPods(ctx context.Context, namespace, id string) []corev1.Pod {
	GinkgoHelper()
	var pods corev1.PodList
	labels := client.MatchingLabels{v1alpha1.LabelTask: id}
	Expect(api.List(ctx, &pods, client.InNamespace(namespace), labels)).To(Succeed())
	return pods.Items
}

// Rules: TOOL-20, TASK-01.
var _ = Describe("A background task", alone, Label(hereLabel), func() {
	BeforeEach(func(ctx SpecContext) { rested(ctx) }, NodeTimeout(specLimit))
	AfterEach(func(ctx SpecContext) { settled(ctx) }, NodeTimeout(specLimit))

	It("outlives its Turn and the manager, is delivered once, and goes with its namespace", SpecTimeout(crashLimit),
		func(ctx SpecContext) {
			manager := settled(ctx)
			w := newToolServer(ctx)
			w.hold("report")
			namespace := newWorkshop(ctx, toolbox("report", "report", v1alpha1.SideEffectAtMostOnce),
				arguments{"url": w.url + "/report"})
			caller := answered(ctx, namespace, "demo-1")
			Eventually(ctx, tasksOf(namespace)).Should(HaveLen(1))
			id := background.ID(caller.UID, "1-0")
			Eventually(ctx, func() []corev1.Pod { return taskPods(ctx, namespace, id) }).WithTimeout(takeover).
				Should(ConsistOf(HaveField("Status.Phase", corev1.PodRunning)))
			w.visited(ctx, "report", 1)
			started := taskPods(ctx, namespace, id)[0].UID
			strike, survived := killed(ctx, manager)
			Expect(strike()).To(Succeed())
			Eventually(ctx, survived).WithTimeout(takeover).Should(Succeed())
			Expect(taskPods(ctx, namespace, id)).To(ConsistOf(HaveField("Status.Phase", corev1.PodRunning)),
				"the task goes on without the manager")
			w.letGo("report")

			Eventually(ctx, turn(namespace, background.Name(id))).WithTimeout(2 * takeover).
				Should(capstantest.HaveSucceeded())
			delivered := read(ctx, namespace, background.Name(id))
			Expect(delivered.Spec.Input).To(ContainSubstring("has ended: succeeded"))
			Expect(delivered.Spec.Origin.TaskOf().Turn.UID).To(Equal(caller.UID))
			Expect(delivered.Status.Output).To(HavePrefix("I read: Background task " + id))
			Eventually(ctx, tasksOf(namespace)).Should(BeEmpty())
			Expect(taskPods(ctx, namespace, id)).To(ConsistOf(HaveField("UID", started)))
			Expect(w.of("report")).To(HaveLen(1), "runs of the task")
			var turns v1alpha1.TurnList
			Expect(api.List(ctx, &turns, client.InNamespace(namespace))).To(Succeed())
			Expect(turns.Items).To(HaveLen(2))
			for step, entries := range finalEntries(ctx, delivered) {
				Expect(entries).To(Equal(1), step)
			}
			show("delivered", strings.SplitN(delivered.Spec.Input, "\n", 2)[0])

			Expect(api.Delete(ctx, &corev1.Namespace{ObjectMeta: named("", namespace)})).To(Succeed())
			Eventually(ctx, func(ctx context.Context) bool {
				return apierrors.IsNotFound(api.Get(ctx, types.NamespacedName{Name: namespace}, &corev1.Namespace{}))
			}).WithTimeout(takeover).Should(BeTrue(), "the namespace does not go away")
		})
})
