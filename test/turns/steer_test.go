package turns_test

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

var _ = Describe("A message that steers", func() {
	// reasoning has the events of a model call.
	reasoning := []string{
		event.TypeReasonStarted,
		event.TypeOutputMessageStarted,
		event.TypeLLMGeneration,
		event.TypeOutputMessageCompleted,
		event.TypeReasonCompleted,
	}

	// echoing answers with the last message of the user, after a while.
	echoing := func() v1alpha1.Simulation {
		return v1alpha1.Simulation{
			Response: &v1alpha1.SimulatedResponse{Type: v1alpha1.SimulatedResponseTypeEcho, Prefix: "You said: "},
			Latency:  seconds(1),
		}
	}

	// Rules: STEER-01.
	It("goes into the Turn that reasons, for one write and one more model call", func(ctx context.Context) {
		namespace := newNamespace(ctx, echoing())
		before := startedSession(ctx, namespace)
		create(ctx, builder.Turn("demo-1").In(namespace).Input("Ann?").Obj())
		Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseActive))
		create(ctx, newSteer(namespace, "demo-2", "No, Bob."))
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())

		turn, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(turn.Status.Output).To(Equal("You said: No, Bob."))
		Expect(turn.Status.Iteration).To(BeEquivalentTo(2))
		steer, err := kit.Turn(ctx, namespace, "demo-2")()
		Expect(err).NotTo(HaveOccurred())
		Expect(steer).To(capstantest.HaveSteered("demo-1"))
		Expect(steer.Status.SessionUID).To(Equal(turn.Status.SessionUID))
		Expect(
			conditionOf(steer, v1alpha1.ConditionSucceeded).Message,
		).To(Equal(`The message was steered into the active Turn "demo-1", which has the response.`))
		Expect(eventTypes(ctx, namespace, "demo")).To(Equal(slices.Concat(
			[]string{
				event.TypeInputMessage,
				event.TypeSessionActivated,
				event.TypeTurnStarted,
			},
			reasoning,
			[]string{event.TypeInputMessage},
			reasoning,
			[]string{event.TypeTurnCompleted, event.TypeSessionIdled},
		)))
		expectWrites(
			ctx,
			namespace,
			before,
			ConsistOf(slices.Concat(beginning, []string{turnWrite, entryWrite}, ending, times(1, turnWrite))),
		)

		session := &v1alpha1.Session{}
		Expect(kit.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "demo"}, session)).To(Succeed())
		Expect(session.Status.Totals.Turns).To(BeEquivalentTo(1))
	})

	It("is read after the running tools have ended, and stops none of them", func(ctx context.Context) {
		started, release := make(chan struct{}), make(chan struct{})
		namespace := newNamespace(
			ctx,
			builder.Script("{{tool:work}}; {{input}}", builder.Calls("work")),
			builder.JobTool("work", v1alpha1.SideEffectAtMostOnce).Obj(),
		)
		jobs.In(namespace, func(capstantest.Call) (string, string, int) {
			close(started)
			<-release
			return "done", "", 0
		})
		create(ctx, builder.Session("demo").In(namespace).Obj())
		create(ctx, builder.Turn("demo-1").In(namespace).Input("Work.").Obj())
		Eventually(started).Should(BeClosed())
		create(ctx, newSteer(namespace, "demo-2", "And then rest."))
		Consistently(
			kit.Turn(ctx, namespace, "demo-2"),
		).WithTimeout(seconds(1).Duration).
			Should(HaveField("Status.Phase", v1alpha1.TurnPhaseQueued))
		close(release)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		Expect(kit.Turn(ctx, namespace, "demo-1")()).To(HaveField("Status.Output", "done; And then rest."))
		Eventually(kit.Turn(ctx, namespace, "demo-2")).Should(capstantest.HaveSteered("demo-1"))
	})

	// Rules: CLIENT-05.
	It("ends the wait for client tools, which a message that is queued does not", func(ctx context.Context) {
		namespace := newNamespace(
			ctx,
			builder.Script("{{input}}: {{tool:ask-ann}}, {{tool:ask-bob}}", builder.Calls("ask-ann", "ask-bob")),
			builder.ClientTool("ask-ann").Obj(),
			builder.ClientTool("ask-bob").Obj(),
		)
		create(ctx, builder.Session("demo").In(namespace).Obj())
		create(ctx, builder.Turn("demo-1").In(namespace).Input("Ask both.").Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForTools("ask-ann", "ask-bob"))
		create(ctx, builder.ToolResult("ann", "1-0").In(namespace).Result("yes").Obj())
		Eventually(accepted(ctx, namespace, "ann")).Should(Equal("True Accepted"))
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForTools("ask-bob"))
		create(ctx, builder.Turn("demo-2").In(namespace).Input("Later.").Obj())
		Consistently(
			kit.Turn(ctx, namespace, "demo-1"),
		).WithTimeout(seconds(1).Duration).
			Should(capstantest.WaitForTools("ask-bob"))

		create(ctx, newSteer(namespace, "demo-3", "Never mind Bob"))
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		turn, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(turn.Status.Output).To(Equal("Never mind Bob: yes, Cancelled: user sent a new message"))
		Expect(
			turn.Status.ToolCalls[1],
		).To(And(HaveField("State", v1alpha1.ToolCallStateNotExecuted), HaveField("Reason", "Steered")))
		Expect(kit.Turn(ctx, namespace, "demo-3")()).To(capstantest.HaveSteered("demo-1"))
		create(ctx, builder.ToolResult("bob", "1-1").In(namespace).Result("no").Obj())
		Eventually(accepted(ctx, namespace, "bob")).Should(Equal("False CallClosed"))
		Eventually(kit.Turn(ctx, namespace, "demo-2")).Should(capstantest.WaitForTools("ask-ann", "ask-bob"))
	})

	It("is queued where no Turn runs, and where it came before the one that runs", func(ctx context.Context) {
		namespace := newNamespace(ctx, echoing())
		create(ctx, builder.Turn("demo-1").In(namespace).Input("one").Obj())
		create(ctx, newSteer(namespace, "demo-2", "two"))
		create(ctx, builder.Session("demo").In(namespace).Obj())
		for name, text := range map[string]string{"demo-1": "one", "demo-2": "two"} {
			Eventually(kit.Turn(ctx, namespace, name)).Should(capstantest.HaveSucceeded())
			Expect(kit.Turn(ctx, namespace, name)()).To(HaveField("Status.Output", "You said: "+text))
		}
		create(ctx, newSteer(namespace, "demo-3", "three"))
		Eventually(kit.Turn(ctx, namespace, "demo-3")).Should(capstantest.HaveSucceeded())
		Expect(kit.Turn(ctx, namespace, "demo-3")()).To(HaveField("Status.Output", "You said: three"))
	})

	It("is queued when the Turn ends without another model call", func(ctx context.Context) {
		namespace := newNamespace(ctx, echoing())
		session := builder.Session("demo").In(namespace).Obj()
		session.Spec.MaxIterations = new(int32(1))
		create(ctx, session)
		create(ctx, builder.Turn("demo-1").In(namespace).Input("one").Obj())
		Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseActive))
		create(ctx, newSteer(namespace, "demo-2", "two"))
		Eventually(kit.Turn(ctx, namespace, "demo-2")).Should(capstantest.HaveSucceeded())
		Expect(
			kit.Turn(ctx, namespace, "demo-2")(),
		).To(And(HaveField("Status.Output", "You said: two"), HaveField("Status.SteeredInto", BeNil())))
		Expect(
			kit.Turn(ctx, namespace, "demo-1")(),
		).To(HaveField("Status.Plan.StopReason", v1alpha1.StopReasonMaxTurnRequests))
	})

	It("is not delivered again when its Turn is deleted and created again", func(ctx context.Context) {
		namespace := newNamespace(ctx, echoing())
		create(ctx, builder.Session("demo").In(namespace).Obj())
		create(ctx, builder.Turn("demo-1").In(namespace).Input("one").Obj())
		Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseActive))
		steer := newSteer(namespace, "demo-2", "two")
		create(ctx, steer)
		Eventually(kit.Turn(ctx, namespace, "demo-2")).Should(capstantest.HaveSteered("demo-1"))
		Expect(kit.Client.Delete(ctx, steer)).To(Succeed())
		create(ctx, newSteer(namespace, "demo-2", "two"))
		Eventually(kit.Turn(ctx, namespace, "demo-2")).Should(capstantest.HaveSucceeded())
		again, err := kit.Turn(ctx, namespace, "demo-2")()
		Expect(err).NotTo(HaveOccurred())
		Expect(conditionOf(again, v1alpha1.ConditionSucceeded).Reason).To(Equal(v1alpha1.ReasonAlreadyRan))
		Expect(again.Status.SteeredInto).To(HaveField("Name", "demo-1"))
		messages := 0
		for _, kind := range eventTypes(ctx, namespace, "demo") {
			if kind == event.TypeInputMessage {
				messages++
			}
		}
		Expect(messages).To(Equal(2))
	})

	It("can be cancelled and deleted while it waits", func(ctx context.Context) {
		release := make(chan struct{})
		namespace := newNamespace(
			ctx,
			builder.Script("{{input}}", builder.Calls("work")),
			builder.JobTool("work", v1alpha1.SideEffectPure).Obj(),
		)
		jobs.In(namespace, func(capstantest.Call) (string, string, int) {
			<-release
			return "done", "", 0
		})
		create(ctx, builder.Session("demo").In(namespace).Obj())
		create(ctx, builder.Turn("demo-1").In(namespace).Input("Work.").Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(HaveField("Status.Phase", v1alpha1.TurnPhaseAct))
		cancelled, deleted := newSteer(namespace, "demo-2", "Not this."), newSteer(namespace, "demo-3", "Nor this.")
		create(ctx, cancelled)
		create(ctx, deleted)
		Expect(kit.Client.Delete(ctx, deleted)).To(Succeed())
		Expect(
			kit.Client.Patch(
				ctx,
				cancelled,
				client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"desiredState":"Cancelled"}}`)),
			),
		).To(Succeed())
		Eventually(kit.Turn(ctx, namespace, "demo-2")).Should(HaveField("Status.Phase", v1alpha1.TurnPhaseCancelled))
		close(release)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		Expect(kit.Turn(ctx, namespace, "demo-1")()).To(HaveField("Status.Output", "Work."))
	})

	It("answers with the Model that the message names from then on", func(ctx context.Context) {
		namespace := newNamespace(ctx, echoing())
		other := &v1alpha1.Model{
			Spec: v1alpha1.ModelSpec{
				Provider:   v1alpha1.ModelProviderSimulated,
				Simulation: new(builder.Script("the other one")),
			},
		}
		other.Namespace, other.Name = namespace, "other"
		create(ctx, other)
		create(ctx, builder.Session("demo").In(namespace).Obj())
		create(ctx, builder.Turn("demo-1").In(namespace).Input("one").Obj())
		Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseActive))
		steer := newSteer(namespace, "demo-2", "two")
		steer.Spec.Controls = &v1alpha1.TurnControls{ModelRef: &v1alpha1.LocalReference{Name: "other"}}
		create(ctx, steer)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		Expect(kit.Turn(ctx, namespace, "demo-1")()).To(HaveField("Status.Output", "the other one"))
	})
})

// newSteer is a message for the Turn that runs.
func newSteer(namespace, name, input string) *v1alpha1.Turn {
	turn := builder.Turn(name).In(namespace).Input(input).Obj()
	turn.Spec.Delivery = v1alpha1.DeliverySteer
	return turn
}
