//go:build e2e

package e2e_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// successionLimit bounds the time from the start of a new manager's container until it leads, and until work goes on,
// when the one before it was killed. The Lease of the dead one would run for 45 s.
const successionLimit = 5 * time.Second

// expectSuccession checks that the manager acquired the Lease as soon as it had started, and returns when that was.
func expectSuccession(ctx context.Context) (started time.Time) {
	GinkgoHelper()
	m := settled(ctx)
	pod, lease := &corev1.Pod{}, &coordinationv1.Lease{}
	Expect(api.Get(ctx, m.pod, pod)).To(Succeed())
	Expect(api.Get(ctx, types.NamespacedName{Namespace: managerNamespace, Name: managerLease}, lease)).To(Succeed())
	status := statusOf(pod, managerContainer)
	Expect(status.State.Running).NotTo(BeNil())
	started = status.State.Running.StartedAt.Time
	took := lease.Spec.AcquireTime.Sub(started)
	show("led after its container's start by", took.Round(time.Millisecond).String())
	Expect(took).To(BeNumerically("<", successionLimit))
	return started
}

// expectWorkWentOn checks that the Turn ended as soon as a manager that has started could end it. responding is how
// long its model takes.
func expectWorkWentOn(started time.Time, answer *v1alpha1.Turn, responding time.Duration) {
	GinkgoHelper()
	Expect(answer.Status.Summary.FinishedAt).NotTo(BeNil())
	idle := answer.Status.Summary.FinishedAt.Sub(started) - responding
	show("went on after the container's start by", idle.Round(time.Millisecond).String())
	Expect(idle).To(BeNumerically("<", successionLimit))
}

var _ = Describe("On a full cluster", alone, func() {
	It("the manager preempts pods of a lower priority", SpecTimeout(crashLimit), func(ctx SpecContext) {
		settled(ctx)
		namespace := newStage(ctx, builder.Script("the answer"))
		comeBack := absent(ctx)
		for _, name := range []string{"large", "small"} {
			fill(ctx, namespace, name)
		}
		comeBack()
		settled(ctx)
		ask(ctx, namespace, "demo-1")
		Eventually(ctx, turn(namespace, "demo-1")).WithTimeout(takeover).Should(capstantest.HaveSucceeded())
		var left corev1.PodList
		Expect(api.List(ctx, &left, client.InNamespace(namespace))).To(Succeed())
		Expect(len(left.Items)).To(BeNumerically("<", 2), "no pod had to make room: the cluster was not full")
	})

	It("the manager preempts a tool of a lower priority class", SpecTimeout(crashLimit), func(ctx SpecContext) {
		scene := rolloutBesideTool(ctx, 1000)
		answer := scene.answer(ctx)
		expectEnding(ctx, answer, "work", v1alpha1.ToolCallStateUnknown, v1alpha1.ToolCallReasonDisruption,
			unknown, corev1.PodReasonPreemptionByScheduler, "It was not run again.")
		Expect(scene.of("work")).To(HaveLen(1), "starts of the tool")
		Expect(scene.otherStays(ctx)).To(BeTrue(), "a pod of a higher class made room too")
	})

	It(
		"the manager preempts another pod, and not a tool of its own priority class",
		SpecTimeout(crashLimit),
		func(ctx SpecContext) {
			scene := rolloutBesideTool(ctx, managerPriority)
			Expect(scene.otherStays(ctx)).To(BeFalse(), "no pod had to make room: the cluster was not full")
			scene.letGo("work")
			made := callOf(scene.answer(ctx), "work")
			Expect(made.State).To(Equal(v1alpha1.ToolCallStateSucceeded))
			Expect(made.Attempt).To(BeEquivalentTo(1))
			Expect(scene.of("work")).To(HaveLen(1), "starts of the tool")
		},
	)
})

const (
	// managerPriority is the value of the manager's PriorityClass.
	managerPriority = 1000000
	// managerCPU is what the manager's pod requests, in thousandths of a processor.
	managerCPU = 100
)

// contest is a full node on which the next manager needs the place of a tool or of another pod.
type contest struct {
	*toolServer
	asked *v1alpha1.Turn
	other *corev1.Pod
}

// rolloutBesideTool runs an AtMostOnce tool in a PriorityClass of the given value, and a pod of half the manager's
// value that takes up the rest of the node. Then it rolls the manager out, whose new pod needs the place of one of the
// two.
func rolloutBesideTool(ctx context.Context, value int32) contest {
	GinkgoHelper()
	never := corev1.PreemptNever
	class := func(name string, value int32) *schedulingv1.PriorityClass {
		meta := metav1.ObjectMeta{Name: "capstan-e2e-" + name}
		return &schedulingv1.PriorityClass{ObjectMeta: meta, Value: value, PreemptionPolicy: &never}
	}
	tools, others := class("tools", value), class("others", managerPriority/2)
	install(ctx, tools, others)
	flag := "--tool-priority-class=" + tools.Name
	runManagerWith(ctx, flag)
	w := newToolServer(ctx)
	w.hold("work")
	most := *resource.NewMilliQuantity(freeCPU(ctx)-managerCPU-managerCPU/2, resource.DecimalSI)
	work := with(corev1.ResourceList{corev1.ResourceCPU: most}, toolbox("work", "report", v1alpha1.SideEffectAtMostOnce))
	namespace := newStage(ctx, builder.Script("{{tool:work}}", calls{w.call("work")}), work)
	asked := ask(ctx, namespace, "demo-1")
	w.visited(ctx, "work", 1)
	Expect(runningPod(ctx, asked).Spec.Priority).To(HaveValue(Equal(value)))
	other := fillWith(ctx, namespace, "other", freeCPU(ctx), others.Name)
	runManagerWith(ctx, flag)
	return contest{toolServer: w, asked: asked, other: other}
}

// answer waits for the response of the Turn.
func (c contest) answer(ctx context.Context) *v1alpha1.Turn {
	GinkgoHelper()
	return succeeded(ctx, c.asked.Namespace, c.asked.Name)
}

// otherStays reports whether the other pod did not have to make room.
func (c contest) otherStays(ctx context.Context) bool {
	GinkgoHelper()
	pod := &corev1.Pod{}
	err := api.Get(ctx, keyOf(c.other), pod)
	Expect(client.IgnoreNotFound(err)).To(Succeed())
	return err == nil && pod.DeletionTimestamp == nil
}

// fill takes up CPU of the only node: the first call all but what one manager needs, the next call that too.
func fill(ctx context.Context, namespace, name string) {
	GinkgoHelper()
	free := freeCPU(ctx)
	if free > 2*managerCPU {
		free -= managerCPU
	}
	fillWith(ctx, namespace, name, free, "")
}

// freeCPU is what the pods of the only node leave of its CPU, in thousandths of a processor.
func freeCPU(ctx context.Context) int64 {
	GinkgoHelper()
	var nodes corev1.NodeList
	Expect(api.List(ctx, &nodes)).To(Succeed())
	Expect(nodes.Items).To(HaveLen(1))
	free := nodes.Items[0].Status.Allocatable.Cpu().MilliValue()
	var pods corev1.PodList
	Expect(api.List(ctx, &pods)).To(Succeed())
	for _, pod := range pods.Items {
		if pod.Spec.NodeName == "" || podOver(pod) {
			continue
		}
		for _, c := range pod.Spec.Containers {
			free -= c.Resources.Requests.Cpu().MilliValue()
		}
	}
	Expect(free).To(BeNumerically(">", 0))
	return free
}

// fillWith runs a pod that takes up CPU, in a PriorityClass; empty for the cluster's default.
func fillWith(ctx context.Context, namespace, name string, cpu int64, class string) *corev1.Pod {
	GinkgoHelper()
	pod := &corev1.Pod{ObjectMeta: named(namespace, name), Spec: probeSpec()}
	pod.Spec.RestartPolicy, pod.Spec.PriorityClassName = corev1.RestartPolicyAlways, class
	requests := corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(cpu, resource.DecimalSI)}
	pod.Spec.Containers[0].Resources.Requests = requests
	create(ctx, pod)
	Eventually(ctx, func(ctx context.Context) (string, error) {
		err := api.Get(ctx, keyOf(pod), pod)
		return pod.Spec.NodeName, err
	}).ShouldNot(BeEmpty())
	return pod
}
