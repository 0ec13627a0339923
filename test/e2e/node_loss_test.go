//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

const (
	// lossLimit bounds the spec in which the node is lost: a node counts as lost after 50 s, and its pods are evicted
	// 30 s later.
	lossLimit = 6 * time.Minute
	// givenUp is how long after the node was lost every call is decided or tried again.
	givenUp = 3 * time.Minute
)

var _ = Describe("The result of a tool", alone, Label(hereLabel), func() {
	It(
		"that cannot be read any more is reported as lost, and the tool is not started again",
		SpecTimeout(crashLimit),
		func(ctx SpecContext) {
			tools := map[string]v1alpha1.SideEffect{"read": v1alpha1.SideEffectPure, "send": v1alpha1.SideEffectAtMostOnce}
			w := newToolServer(ctx)
			// More than a termination message holds, so that the log is needed.
			w.padding = 8 << 10
			w.hold("read", "send")
			namespace := newStage(ctx, builder.Script("{{tool:read}} {{tool:send}}", calls{w.call("read"), w.call("send")}),
				toolbox("read", "report", tools["read"]), toolbox("send", "report", tools["send"]))
			asked := ask(ctx, namespace, "demo-1")
			Eventually(ctx, w.started("read", "send")).Should(BeTrue())

			comeBack := absent(ctx)
			w.letGo("read", "send")
			Eventually(
				ctx,
				func() []corev1.Pod { return podsOf(ctx, asked) },
			).Should(And(HaveLen(len(tools)), HaveEach(HaveField("Status.Phase", corev1.PodSucceeded))))
			for _, pod := range podsOf(ctx, asked) {
				logs, err := filepath.Glob(filepath.Join(podLogs(&pod), v1alpha1.ToolContainerName, "*"))
				Expect(err).NotTo(HaveOccurred())
				Expect(logs).To(HaveLen(1), needsHere)
				Expect(os.Remove(logs[0])).To(Succeed())
			}
			comeBack()

			back := time.Now()
			answer := succeeded(ctx, namespace, "demo-1")
			show("answered after the manager was back for", time.Since(back).Round(time.Millisecond).String())
			expectEnding(
				ctx,
				answer,
				"read",
				v1alpha1.ToolCallStateFailed,
				v1alpha1.ToolCallReasonOutputLost,
				"The tool ran to its end, but its output was lost",
				"It is safe to call it again.",
			)
			expectEnding(
				ctx,
				answer,
				"send",
				v1alpha1.ToolCallStateFailed,
				v1alpha1.ToolCallReasonOutputLost,
				"The tool ran to its end, but its output was lost",
				"It was not run again.",
			)
			Expect(
				counted(ctx, v1alpha1.ToolCallStateFailed, v1alpha1.ToolCallReasonOutputLost),
			).To(BeNumerically("==", len(tools)), "the manager's metric")
			for name := range tools {
				Expect(w.of(name)).To(HaveLen(1), "starts of tool %s", name)
			}
		},
	)
})

var _ = Describe("When its node is lost", alone, Label(hereLabel), func() {
	It(
		"a call ends with its known outcome, and one with side effect AtMostOnce never starts twice",
		SpecTimeout(lossLimit),
		func(ctx SpecContext) {
			w := newToolServer(ctx)
			w.hold("read", "send", "pay", "late")
			stage := func(call string, class v1alpha1.SideEffect, timeout time.Duration) (string, *containers) {
				work := within(timeout, toolbox(call, "report", class))
				if call == "late" {
					work = startingWithin(impatience, work)
				}
				namespace := newStage(ctx, builder.Script("{{tool:"+call+"}}", calls{w.call(call)}), work)
				return namespace, watchContainers(ctx, namespace)
			}
			// May run again; runs only once and ends while the node is away; runs only once and should have ended long ago;
			// is to start when the node is gone.
			read, _ := stage("read", v1alpha1.SideEffectPure, 5*time.Minute)
			send, sendRan := stage("send", v1alpha1.SideEffectAtMostOnce, 5*time.Minute)
			pay, payRan := stage("pay", v1alpha1.SideEffectAtMostOnce, time.Minute)
			late, lateRan := stage("late", v1alpha1.SideEffectAtMostOnce, 5*time.Minute)
			reading := ask(ctx, read, "demo-1")
			for _, turn := range []*v1alpha1.Turn{reading, ask(ctx, send, "demo-1"), ask(ctx, pay, "demo-1")} {
				runningPod(ctx, turn)
			}
			Eventually(ctx, w.started("read", "send", "pay")).Should(BeTrue())
			before := counted(ctx, v1alpha1.ToolCallStateUnknown, v1alpha1.ToolCallReasonNodeLost)

			anotherNode(ctx)
			goOn := stopKubelet()
			lost := time.Now()
			since := func(what string) { show(what+" after", time.Since(lost).Round(time.Second).String()) }
			ask(ctx, late, "demo-1")
			w.letGo("send")

			Eventually(ctx, finishedTurn(late)).WithTimeout(givenUp).Should(BeTrue())
			since("calls that had not started ended as not executed after")
			expectEnding(
				ctx,
				read1(ctx, late),
				"late",
				v1alpha1.ToolCallStateUnknown,
				v1alpha1.ToolCallReasonNodeLost,
				unknown,
				"its node has not confirmed its end",
			)
			Eventually(ctx, finishedTurn(pay)).WithTimeout(givenUp).Should(BeTrue())
			since("the calls that should have ended were decided")
			expectEnding(
				ctx,
				read1(ctx, pay),
				"pay",
				v1alpha1.ToolCallStateUnknown,
				v1alpha1.ToolCallReasonNodeLost,
				unknown,
				"its node stopped reporting",
			)
			again := secondAttempt(ctx, reading, givenUp)
			since("the second attempt of the call that may run again")
			Expect(again.Reason).To(Equal(v1alpha1.ToolCallReasonNodeLost))
			Expect(stateOf(read1(ctx, send))(ctx)).To(HavePrefix("Running"), "the node may come back with its result")

			goOn()
			w.letGo("pay", "late")
			back := time.Now()
			sent := succeeded(ctx, send, "demo-1")
			show(
				"the end of a call while the node was away was recorded, after its return, within",
				time.Since(back).Round(time.Millisecond).String(),
			)
			Expect(sent.Status.Output).To(Equal(w.of("send")[0].receipt))
			Expect(callOf(sent, "send").State).To(Equal(v1alpha1.ToolCallStateSucceeded))
			Eventually(ctx, func() []visit { return w.of("read") }).Should(HaveLen(2), "starts of tool read")
			w.letGo("read")
			result := succeeded(ctx, read, "demo-1")
			show(
				"the call that may run again had run, after the node was back, within",
				time.Since(back).Round(time.Millisecond).String(),
			)
			Expect(callOf(result, "read").Attempt).To(BeEquivalentTo(2))
			Expect(result.Status.Output).To(Equal(w.of("read")[1].receipt))
			settled(ctx)
			// Metrics come by way of the kubelet.
			Expect(
				counted(ctx, v1alpha1.ToolCallStateUnknown, v1alpha1.ToolCallReasonNodeLost),
			).To(BeNumerically("==", before+2), "the manager's metric")

			for name, ran := range map[string]*containers{"send": sendRan, "pay": payRan} {
				Expect(w.of(name)).To(HaveLen(1), "starts of tool %s", name)
				Expect(ran.counts()).To(Equal(map[string]int{"1-0": 1}), "containers that ran for tool %s", name)
			}
			Expect(len(w.of("late"))).To(BeNumerically("<=", 1), "starts of tool late")
			Expect(lateRan.counts()["1-0"]).To(BeNumerically("<=", 1), "containers that ran for tool late")
			for _, namespace := range []string{pay, late} {
				Eventually(ctx, func(ctx context.Context) (int, error) {
					pods, err := allPods(ctx, namespace)
					return len(slices.DeleteFunc(pods, podOver)), err
				}).Should(BeZero(), "something of the call is still there that may run")
			}
		},
	)
})

// anotherNode lets the cluster have a second node that is well, for the rest of the spec: where all nodes are lost,
// Kubernetes takes the fault for its own and abandons no pod. Nothing can run on this node: it consists of a lease.
func anotherNode(ctx context.Context) {
	GinkgoHelper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}, Spec: corev1.NodeSpec{Unschedulable: true}}
	install(ctx, node)
	now, base := metav1.Now(), node.DeepCopy()
	node.Status.Conditions = []corev1.NodeCondition{
		{
			Type:               corev1.NodeReady,
			Status:             corev1.ConditionTrue,
			Reason:             "Ready",
			LastHeartbeatTime:  now,
			LastTransitionTime: now,
		},
	}
	Expect(api.Status().Patch(ctx, node, client.MergeFrom(base))).To(Succeed())
	seconds, holder := int32(40), node.Name
	lease := &coordinationv1.Lease{
		ObjectMeta: named(corev1.NamespaceNodeLease, node.Name),
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity:       &holder,
			LeaseDurationSeconds: &seconds,
			RenewTime:            &metav1.MicroTime{Time: now.Time},
		},
	}
	install(ctx, lease)
	renewing, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(5 * time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-renewing.Done():
				return
			case at := <-ticker.C:
				patch := fmt.Appendf(nil, `{"spec":{"renewTime":%q}}`, at.UTC().Format(metav1.RFC3339Micro))
				_ = api.Patch(renewing, lease.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
			}
		}
	}()
	DeferCleanup(func() {
		stop()
		<-done
	})
}

func podOver(pod corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// read1 is the Turn demo-1 of a namespace.
func read1(ctx context.Context, namespace string) *v1alpha1.Turn {
	GinkgoHelper()
	return read(ctx, namespace, "demo-1")
}

// finishedTurn returns a function that reports whether the Turn demo-1 of a namespace has ended.
func finishedTurn(namespace string) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		turn := &v1alpha1.Turn{}
		err := api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "demo-1"}, turn)
		return turn.Status.Phase == v1alpha1.TurnPhaseSucceeded, err
	}
}
