package turns_test

import (
	"context"
	"fmt"
	"sort"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

var _ = Describe("The order of Turns", func() {
	It("is natural for ten Turns of one Session that were applied together", func(ctx context.Context) {
		namespace := newNamespace(
			ctx,
			v1alpha1.Simulation{Response: &v1alpha1.SimulatedResponse{Type: v1alpha1.SimulatedResponseTypeEcho}},
		)
		// Creation times are in seconds, and the order between seconds is another spec's concern: Turns that were not
		// all made in one, as kubectl apply mostly does, are made again. Without a Session none of them runs.
		var turns v1alpha1.TurnList
		Eventually(func() bool {
			for _, i := range []int{10, 3, 1, 7, 2, 9, 4, 8, 6, 5} {
				create(ctx, builder.Turn(fmt.Sprintf("demo-%d", i)).In(namespace).Input(fmt.Sprintf("message %d", i)).Obj())
			}
			Expect(kit.Client.List(ctx, &turns, client.InNamespace(namespace))).To(Succeed())
			for _, turn := range turns.Items {
				if turn.CreationTimestamp != turns.Items[0].CreationTimestamp {
					Expect(kit.Client.DeleteAllOf(ctx, &v1alpha1.Turn{}, client.InNamespace(namespace))).To(Succeed())
					return false
				}
			}
			return len(turns.Items) == 10
		}).Should(BeTrue())
		create(ctx, builder.Session("demo").In(namespace).Obj())
		for i := 1; i <= 10; i++ {
			Eventually(kit.Turn(ctx, namespace, fmt.Sprintf("demo-%d", i))).Should(capstantest.HaveSucceeded())
		}
		Expect(kit.Client.List(ctx, &turns, client.InNamespace(namespace))).To(Succeed())
		sort.Slice(turns.Items, func(i, j int) bool {
			return turns.Items[i].Status.Summary.FinishedAt.Before(turns.Items[j].Status.Summary.FinishedAt)
		})
		for i, turn := range turns.Items {
			Expect(turn.Name).To(Equal(fmt.Sprintf("demo-%d", i+1)))
			Expect(turn.Status.Output).To(Equal(fmt.Sprintf("message %d", i+1)))
		}
	})

	It("accepts objects in any order and names missing ones", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("done"))
		create(ctx, builder.Turn("demo-1").In(namespace).Session("late").Obj())
		Eventually(func() (string, error) {
			turn, err := kit.Turn(ctx, namespace, "demo-1")()
			return conditionOf(turn, v1alpha1.ConditionSucceeded).Message, err
		}).Should(ContainSubstring(`Session "late" does not exist`))
		session := builder.Session("late").In(namespace).Obj()
		session.Spec.HarnessRef.Name = "later"
		session.Spec.AgentRef = &v1alpha1.LocalReference{Name: "helper"}
		create(ctx, session)
		message := func() (string, error) {
			err := kit.Client.Get(ctx, client.ObjectKeyFromObject(session), session)
			if len(session.Status.Conditions) == 0 {
				return "", err
			}
			return session.Status.Conditions[0].Reason + ": " + session.Status.Conditions[0].Message, err
		}
		Eventually(
			message,
		).Should(
			And(
				HavePrefix(`HarnessNotFound: Harness "later" does not exist.`), ContainSubstring(`Agent "helper" does not exist.`),
			),
		)
		Eventually(phaseOf(ctx, namespace, "late")).Should(Equal(v1alpha1.SessionPhasePending))
		harness := &v1alpha1.Harness{}
		harness.Namespace, harness.Name = namespace, "later"
		harness.Spec.Tools = []v1alpha1.LocalReference{{Name: "word-count"}}
		create(ctx, harness)
		Eventually(message).Should(ContainSubstring(`AgentNotFound: Agent "helper"`))
		agent := &v1alpha1.Agent{}
		agent.Namespace, agent.Name = namespace, "helper"
		create(ctx, agent)
		Eventually(message).Should(ContainSubstring(`ToolNotFound: Tool "word-count"`))
		tool := builder.JobTool("word-count", v1alpha1.SideEffectPure).Obj()
		tool.Namespace = namespace
		create(ctx, tool)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
	})
})

var _ = Describe("Cancelling", func() {
	cancel := func(ctx context.Context, namespace, name string) {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"desiredState":"Cancelled"}}`))
		turn := &v1alpha1.Turn{}
		turn.Namespace, turn.Name = namespace, name
		Expect(kit.Client.Patch(ctx, turn, patch)).To(Succeed())
	}

	It("ends a Turn in the middle of a model call, with one entry, and the next Turn runs", func(ctx context.Context) {
		namespace := newNamespace(ctx, v1alpha1.Simulation{Response: builder.Fixed("late"), Latency: seconds(3600)})
		create(ctx, builder.Session("demo").In(namespace).Obj())
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(turnPhase(ctx, namespace, "demo-1")).Should(Equal(v1alpha1.TurnPhaseReason))
		create(ctx, builder.Turn("demo-2").In(namespace).Input("Hello again").Obj())
		cancel(ctx, namespace, "demo-1")
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveFailed("Cancelled"))
		Eventually(turnPhase(ctx, namespace, "demo-2")).Should(Equal(v1alpha1.TurnPhaseReason))
		Expect(eventTypes(ctx, namespace, "demo")).To(Equal([]string{
			"input.message", "session.activated", "turn.started", "turn.failed", "session.idled",
		}))
	})

	It("ends a queued Turn at once and the Turn before it continues", func(ctx context.Context) {
		namespace := newNamespace(ctx, v1alpha1.Simulation{Response: builder.Fixed("late"), Latency: seconds(3600)})
		create(ctx, builder.Session("demo").In(namespace).Obj())
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(turnPhase(ctx, namespace, "demo-1")).Should(Equal(v1alpha1.TurnPhaseReason))
		create(ctx, builder.Turn("demo-2").In(namespace).Input("Hello again").Obj())
		cancel(ctx, namespace, "demo-2")
		Eventually(kit.Turn(ctx, namespace, "demo-2")).Should(capstantest.HaveFailed("Cancelled"))
		Expect(turnPhase(ctx, namespace, "demo-1")()).To(Equal(v1alpha1.TurnPhaseReason))
	})

	It("ends a Turn that waits for a client", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("never", builder.Calls("ask-ann")), builder.ClientTool("ask-ann").Obj())
		create(ctx, builder.Session("demo").In(namespace).Obj())
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForTools("ask-ann"))
		cancel(ctx, namespace, "demo-1")
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveFailed("Cancelled"))
		turn, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(turn.Status.ToolCalls[0].State).To(Equal(v1alpha1.ToolCallStateNotExecuted))
	})

	It("of a Turn that is deleted while it runs frees its Session", func(ctx context.Context) {
		namespace := newNamespace(ctx, v1alpha1.Simulation{Response: builder.Fixed("late"), Latency: seconds(3600)})
		create(ctx, builder.Session("demo").In(namespace).Obj())
		turn := builder.Turn("demo-1").In(namespace).Obj()
		create(ctx, turn)
		Eventually(turnPhase(ctx, namespace, "demo-1")).Should(Equal(v1alpha1.TurnPhaseReason))
		create(ctx, builder.Turn("demo-2").In(namespace).Input("Hello again").Obj())
		Expect(kit.Client.Delete(ctx, turn)).To(Succeed())
		Eventually(turnPhase(ctx, namespace, "demo-2")).Should(Equal(v1alpha1.TurnPhaseReason))
		Expect(eventTypes(ctx, namespace, "demo")).To(Equal([]string{"turn.failed", "session.idled"}))
	})
})

// turnPhase returns a function that reads where a Turn stands.
func turnPhase(ctx context.Context, namespace, name string) func() (v1alpha1.TurnPhase, error) {
	return func() (v1alpha1.TurnPhase, error) {
		turn, err := kit.Turn(ctx, namespace, name)()
		return turn.Status.Phase, err
	}
}

func seconds(n int) *metav1.Duration {
	return &metav1.Duration{Duration: time.Duration(n) * time.Second}
}
