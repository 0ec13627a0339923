package turns_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

var _ = Describe("The end of a Turn", func() {
	It("comes at its deadline during a model call", func(ctx context.Context) {
		namespace := newNamespace(
			ctx,
			v1alpha1.Simulation{Response: builder.Fixed("too late"), Latency: &metav1.Duration{Duration: time.Minute}},
		)
		create(ctx, builder.Session("demo").In(namespace).Obj())
		turn := builder.Turn("demo-1").In(namespace).Obj()
		turn.Spec.ActiveDeadlineSeconds = new(int64(1))
		create(ctx, turn)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveFailed("DeadlineExceeded"))
		Expect(
			kit.Turn(ctx, namespace, "demo-1")(),
		).To(HaveField("Status.Error.Message", "The turn took longer than its deadline of 1s."))
		expectReleased(ctx, namespace, "demo")
	})

	It("comes at its deadline during a tool call, and stops the running tools", func(ctx context.Context) {
		namespace := newNamespace(
			ctx,
			builder.Script("done", builder.Calls("work")),
			builder.JobTool("work", v1alpha1.SideEffectAtMostOnce).Obj(),
		)
		jobs.In(namespace, func(c capstantest.Call) (string, string, int) { <-c.Context.Done(); return "", "", 137 })
		create(ctx, builder.Session("demo").In(namespace).Obj())
		turn := builder.Turn("demo-1").In(namespace).Obj()
		turn.Spec.ActiveDeadlineSeconds = new(int64(3))
		create(ctx, turn)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveFailed("DeadlineExceeded"))
		ended, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(
			ended.Status.ToolCalls,
		).To(ConsistOf(HaveField("State", v1alpha1.ToolCallStateUnknown)), "a tool that started and was stopped")
		expectNothingRuns(ctx, namespace)
	})

	It("comes at the time limit for client results", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("done", builder.Calls("ask")), builder.ClientTool("ask").Obj())
		create(ctx, builder.Session("demo").In(namespace).Obj())
		turn := builder.Turn("demo-1").In(namespace).Obj()
		turn.Spec.WaitTimeout = &metav1.Duration{Duration: time.Second}
		create(ctx, turn)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveFailed("WaitTimeout"))
		create(ctx, builder.Turn("demo-2").In(namespace).Input("And now?").Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-2")).Should(capstantest.WaitForTools("ask"))
	})

	It("counts the wait into the deadline", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("done", builder.Calls("ask")), builder.ClientTool("ask").Obj())
		create(ctx, builder.Session("demo").In(namespace).Obj())
		turn := builder.Turn("demo-1").In(namespace).Obj()
		turn.Spec.ActiveDeadlineSeconds, turn.Spec.WaitTimeout = new(int64(2)), &metav1.Duration{Duration: time.Hour}
		create(ctx, turn)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveFailed("DeadlineExceeded"))
	})

	It("does not come before its deadline", func(ctx context.Context) {
		namespace := newNamespace(
			ctx,
			builder.Script("done", builder.Calls("work")),
			builder.JobTool("work", v1alpha1.SideEffectPure).Obj(),
		)
		create(ctx, builder.Session("demo").In(namespace).Obj())
		turn := builder.Turn("demo-1").In(namespace).Obj()
		turn.Spec.ActiveDeadlineSeconds, turn.Spec.WaitTimeout = new(int64(600)), &metav1.Duration{Duration: time.Second}
		create(ctx, turn)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
	})
})

var _ = Describe("The time to live of a Turn", func() {
	It("deletes it with its Jobs, and its messages stay", func(ctx context.Context) {
		namespace := newNamespace(
			ctx,
			builder.Script("done", builder.Calls("work")),
			builder.JobTool("work", v1alpha1.SideEffectPure).Obj(),
		)
		create(ctx, builder.Session("demo").In(namespace).Obj())
		turn := builder.Turn("demo-1").In(namespace).Obj()
		turn.Spec.TTLSecondsAfterFinished = new(int64(0))
		create(ctx, turn)
		Eventually(turnGone(ctx, namespace, "demo-1")).Should(BeTrue())
		expectReleased(ctx, namespace, "demo")
		session := &v1alpha1.Session{}
		Expect(kit.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: "demo"}, session)).To(Succeed())
		Expect(session.Status.Totals.Turns).To(BeEquivalentTo(1))
		Expect(session.Status.Totals.ToolCalls).To(BeEquivalentTo(1), "a Turn that went before its Session counted it")
		Expect(session.Status.Totals.Usage.TotalTokens).To(BeNumerically(">", 0))
		Expect(session.Status.Journal.Head).To(BeEquivalentTo(3))
	})

	It("comes from the Session, and can be set when the Turns have ended", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("done"))
		create(ctx, builder.Session("demo").In(namespace).Obj())
		create(ctx, builder.Turn("kept").In(namespace).Obj())
		create(ctx, builder.Turn("not-kept").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "kept")).Should(capstantest.HaveSucceeded())
		Eventually(kit.Turn(ctx, namespace, "not-kept")).Should(capstantest.HaveSucceeded())
		change(ctx, builder.Turn("kept").In(namespace).Input("").Obj(), `{"spec":{"ttlSecondsAfterFinished":3600}}`)
		change(ctx, builder.Session("demo").In(namespace).Obj(), `{"spec":{"turnTTL":"1s"}}`)
		Eventually(turnGone(ctx, namespace, "not-kept")).Should(BeTrue())
		Expect(kit.Turn(ctx, namespace, "kept")()).To(capstantest.HaveSucceeded(), "its own time comes first")
		change(ctx, builder.Turn("kept").In(namespace).Input("").Obj(), `{"spec":{"ttlSecondsAfterFinished":0}}`)
		Eventually(turnGone(ctx, namespace, "kept")).Should(BeTrue())
	})
})

// expectReleased waits until the Session has no active Turn.
func expectReleased(ctx context.Context, namespace, name string) {
	GinkgoHelper()
	Eventually(func() (*v1alpha1.Session, error) {
		session := &v1alpha1.Session{}
		err := kit.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, session)
		return session, err
	}).Should(HaveField("Status.ActiveTurn", BeNil()))
}

// expectNothingRuns checks that no pod of the namespace has a container that could still run.
func expectNothingRuns(ctx context.Context, namespace string) {
	GinkgoHelper()
	var pods corev1.PodList
	Expect(kit.Client.List(ctx, &pods, client.InNamespace(namespace))).To(Succeed())
	for _, pod := range pods.Items {
		Expect(pod.Status.Phase).To(Or(Equal(corev1.PodSucceeded), Equal(corev1.PodFailed)), pod.Name)
	}
	var left batchv1.JobList
	Expect(kit.Client.List(ctx, &left, client.InNamespace(namespace))).To(Succeed())
	for _, job := range left.Items {
		Expect(job.DeletionTimestamp).NotTo(BeNil(), job.Name)
	}
}

// turnGone reports whether a Turn does not exist.
func turnGone(ctx context.Context, namespace, name string) func() (bool, error) {
	return func() (bool, error) {
		_, err := kit.Turn(ctx, namespace, name)()
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	}
}

// change applies a merge patch.
func change(ctx context.Context, object client.Object, patch string) {
	GinkgoHelper()
	Expect(kit.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}
