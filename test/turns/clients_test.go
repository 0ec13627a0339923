package turns_test

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

var _ = Describe("Client tools", func() {
	var namespace string

	// waiting starts a Turn that asks for two client tools at once.
	waiting := func(ctx context.Context) {
		namespace = newNamespace(
			ctx,
			builder.Script("Ann said {{tool:ask-ann}}, Bob said {{tool:ask-bob}}.", builder.Calls("ask-ann", "ask-bob")),
			builder.ClientTool("ask-ann").Obj(),
			builder.ClientTool("ask-bob").Obj(),
		)
		create(ctx, builder.Session("demo").In(namespace).Obj())
		create(ctx, builder.Turn("demo-1").In(namespace).Input("What do they say?").Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForTools("ask-ann", "ask-bob"))
	}

	It(
		"waits with a condition that names the calls, shows it on the Session, and continues after all results",
		func(ctx context.Context) {
			waiting(ctx)
			turn, err := kit.Turn(ctx, namespace, "demo-1")()
			Expect(err).NotTo(HaveOccurred())
			Expect(turn.Status.Phase).To(Equal(v1alpha1.TurnPhaseWaitingForToolResults))
			Expect(
				conditionOf(turn, v1alpha1.ConditionWaitingForToolResults).Message,
			).To(ContainSubstring("1-0 (ask-ann), 1-1 (ask-bob)"))
			Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseWaitingForToolResults))

			create(ctx, builder.ToolResult("bob", "1-1").In(namespace).Result("no").Obj())
			Eventually(accepted(ctx, namespace, "bob")).Should(Equal("True Accepted"))
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForTools("ask-ann"))

			create(ctx, builder.ToolResult("ann", "1-0").In(namespace).Result("yes").Obj())
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
			Eventually(accepted(ctx, namespace, "ann")).Should(Equal("True Accepted"))
			turn, err = kit.Turn(ctx, namespace, "demo-1")()
			Expect(err).NotTo(HaveOccurred())
			Expect(turn.Status.Output).To(Equal("Ann said yes, Bob said no."))
			Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseIdle))
		},
	)

	// Rules: CLIENT-04.
	It("keeps a partial result although its ToolResult is deleted", func(ctx context.Context) {
		waiting(ctx)
		bob := builder.ToolResult("bob", "1-1").In(namespace).Result("no").Obj()
		create(ctx, bob)
		Eventually(accepted(ctx, namespace, "bob")).Should(Equal("True Accepted"))
		Expect(kit.Client.Delete(ctx, bob)).To(Succeed())
		create(ctx, builder.ToolResult("ann", "1-0").In(namespace).Result("yes").Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		turn, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(turn.Status.Output).To(Equal("Ann said yes, Bob said no."))
	})

	It(
		"keeps a partial result although its Session waits for clients no longer, also across a restart",
		func(ctx context.Context) {
			waiting(ctx)
			create(ctx, builder.ToolResult("bob", "1-1").In(namespace).Result("no").Obj())
			Eventually(accepted(ctx, namespace, "bob")).Should(Equal("True Accepted"))
			Expect(kit.Stop()).To(Succeed())
			session := sessionOf(ctx, namespace, "demo")
			session.Spec.ClientTools = v1alpha1.ClientToolsPolicyFollowHints
			Expect(kit.Client.Update(ctx, session)).To(Succeed())
			var err error
			kit, err = capstantest.Start(context.Background(), config, kitOptions())
			Expect(err).NotTo(HaveOccurred())
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
			turn, err := kit.Turn(ctx, namespace, "demo-1")()
			Expect(err).NotTo(HaveOccurred())
			Expect(turn.Status.Output).To(HaveSuffix("Bob said no."))
			Expect(turn.Status.ToolCalls[0].State).To(Equal(v1alpha1.ToolCallStateNotExecuted))
		},
	)

	// Rules: CLIENT-04.
	It("refuses unknown, duplicate, replaced and late results with a reason", func(ctx context.Context) {
		waiting(ctx)
		create(ctx, builder.ToolResult("wrong", "9-9").In(namespace).Result("?").Obj())
		Eventually(accepted(ctx, namespace, "wrong")).Should(Equal("False UnknownCall"))
		Expect(acceptedMessage(ctx, namespace, "wrong")).To(
			ContainSubstring("It is waiting for: 1-0 (ask-ann), 1-1 (ask-bob)."))

		other := builder.ToolResult("replaced", "1-0").In(namespace).Result("?").Obj()
		other.Spec.TurnRef.UID = "00000000-0000-0000-0000-000000000000"
		create(ctx, other)
		Eventually(accepted(ctx, namespace, "replaced")).Should(Equal("False TurnReplaced"))

		create(ctx, builder.ToolResult("bob", "1-1").In(namespace).Result("no").Obj())
		Eventually(accepted(ctx, namespace, "bob")).Should(Equal("True Accepted"))
		create(ctx, builder.ToolResult("bob-again", "1-1").In(namespace).Result("maybe").Obj())
		Eventually(accepted(ctx, namespace, "bob-again")).Should(Equal("False AlreadyAnswered"))

		create(ctx, builder.ToolResult("ann", "1-0").In(namespace).Result("yes").Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		create(ctx, builder.ToolResult("late", "3-0").In(namespace).Result("?").Obj())
		Eventually(accepted(ctx, namespace, "late")).Should(Equal("False CallClosed"))
	})

	It("keeps a result that is created before its Turn", func(ctx context.Context) {
		namespace = newNamespace(
			ctx,
			builder.Script("It is {{tool:ask-ann}}.", builder.Calls("ask-ann")),
			builder.ClientTool("ask-ann").Obj(),
		)
		create(ctx, builder.ToolResult("early", "1-0").In(namespace).Result("early").Obj())
		Eventually(accepted(ctx, namespace, "early")).Should(Equal("Unknown TurnNotFound"))
		create(ctx, builder.Turn("demo-1").In(namespace).Input("What is it?").Obj())
		create(ctx, builder.Session("demo").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		Eventually(accepted(ctx, namespace, "early")).Should(Equal("True Accepted"))
	})

	It(
		"deletes ToolResults with their Turn, once, and refuses one that names its UID when it is applied again",
		func(ctx context.Context) {
			waiting(ctx)
			turn, err := kit.Turn(ctx, namespace, "demo-1")()
			Expect(err).NotTo(HaveOccurred())
			ann := func() *v1alpha1.ToolResult {
				result := builder.ToolResult("ann", "1-0").In(namespace).Result("yes").Obj()
				result.Spec.TurnRef.UID = turn.UID
				return result
			}
			create(ctx, ann())
			create(ctx, builder.ToolResult("bob", "1-1").In(namespace).Result("no").Obj())
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
			Expect(kit.Client.Delete(ctx, turn)).To(Succeed())
			Eventually(func() bool {
				return apierrors.IsNotFound(kit.Client.Get(ctx, client.ObjectKeyFromObject(ann()), &v1alpha1.ToolResult{}))
			}).Should(BeTrue())
			create(ctx, ann())
			Eventually(accepted(ctx, namespace, "ann")).Should(Equal("False TurnNotFound"))
			Consistently(accepted(ctx, namespace, "ann")).WithTimeout(500 * time.Millisecond).Should(Equal("False TurnNotFound"))
			Eventually(func() bool {
				bob := client.ObjectKey{Namespace: namespace, Name: "bob"}
				return apierrors.IsNotFound(kit.Client.Get(ctx, bob, &v1alpha1.ToolResult{}))
			}).Should(BeTrue(), "it names no UID, but the Turn has accepted it")
			create(ctx, builder.ToolResult("bob", "1-1").In(namespace).Result("no").Obj())
			Eventually(accepted(ctx, namespace, "bob")).Should(Equal("Unknown TurnNotFound"), "a Turn of the name may come")
			deletions := slices.DeleteFunc(
				requests.in(namespace),
				func(write string) bool { return write != "DELETE toolresults" },
			)
			Expect(deletions).To(HaveLen(2))
		},
	)

	It("reports a client's error to the model", func(ctx context.Context) {
		namespace = newNamespace(
			ctx,
			builder.Script("It is {{tool:ask-ann}}.", builder.Calls("ask-ann")),
			builder.ClientTool("ask-ann").Obj(),
		)
		create(ctx, builder.Session("demo").In(namespace).Obj())
		create(ctx, builder.Turn("demo-1").In(namespace).Input("What is it?").Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForTools("ask-ann"))
		failed := builder.ToolResult("ann", "1-0").In(namespace).Result("").Obj()
		failed.Spec.Result, failed.Spec.Error = nil, ptr.To("Ann is away")
		create(ctx, failed)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		turn, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(turn.Status.Output).To(Equal("It is Ann is away."))
	})

	DescribeTable("a Session that follows hints", func(ctx context.Context, hint string, waits bool) {
		namespace = newNamespace(
			ctx,
			builder.Script("It is {{tool:ask-ann}}.", builder.Calls("ask-ann")),
			builder.ClientTool("ask-ann").Obj(),
		)
		session := builder.Session("demo").In(namespace).Obj()
		session.Spec.ClientTools = v1alpha1.ClientToolsPolicyFollowHints
		if hint != "" {
			session.Spec.Hints = map[string]v1alpha1.JSON{"setup_connection": {Raw: []byte(hint)}}
		}
		create(ctx, session)
		create(ctx, builder.Turn("demo-1").In(namespace).Input("What is it?").Obj())
		if waits {
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForTools("ask-ann"))
			return
		}
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		turn, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(turn.Status.Output).To(ContainSubstring("not executed"))
		Expect(turn.Status.ToolCalls[0].State).To(Equal(v1alpha1.ToolCallStateNotExecuted))
	},
		// Rules: TURN-12.
		Entry("waits when setup_connection is true", "true", true),
		// Rules: TURN-12.
		Entry("goes on when it is the string true", `"true"`, false),
		// Rules: TURN-12.
		Entry("goes on when it is false", "false", false),
		// Rules: CLIENT-06, TURN-12.
		Entry("goes on without it", "", false),
	)
})
