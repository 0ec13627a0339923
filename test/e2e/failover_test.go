//go:build e2e

package e2e_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/capstantest"
)

// successionLimit bounds the time from the start of a new manager's container until it leads, when the one before it
// was killed. The Lease of the dead one would run for 45 s.
const successionLimit = 5 * time.Second

// expectSuccession checks that the manager acquired the Lease as soon as it had started.
func expectSuccession(ctx context.Context) {
	GinkgoHelper()
	m := settled(ctx)
	pod, lease := &corev1.Pod{}, &coordinationv1.Lease{}
	Expect(api.Get(ctx, m.pod, pod)).To(Succeed())
	Expect(api.Get(ctx, types.NamespacedName{Namespace: managerNamespace, Name: managerLease}, lease)).To(Succeed())
	status := statusOf(pod, managerContainer)
	Expect(status.State.Running).NotTo(BeNil())
	took := lease.Spec.AcquireTime.Sub(status.State.Running.StartedAt.Time)
	show("led after its container's start by", took.Round(time.Millisecond).String())
	Expect(took).To(BeNumerically("<", successionLimit))
}

var _ = Describe("On a full cluster", Serial, func() {
	It("the manager makes room for itself among other pods", SpecTimeout(crashLimit), func(ctx SpecContext) {
		settled(ctx)
		namespace := newStage(ctx, script("the answer"))
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
})

// fill takes up CPU of the only node: the first call all but what one manager needs, the next call that too.
func fill(ctx context.Context, namespace, name string) {
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
	const manager = 100
	if free > 2*manager {
		free -= manager
	}
	Expect(free).To(BeNumerically(">", 0))
	pod := &corev1.Pod{ObjectMeta: named(namespace, name), Spec: probeSpec()}
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(free, resource.DecimalSI)}
	create(ctx, pod)
	Eventually(ctx, func(ctx context.Context) (string, error) {
		err := api.Get(ctx, keyOf(pod), pod)
		return pod.Spec.NodeName, err
	}).ShouldNot(BeEmpty())
}
