package turns_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

var _ = Describe("A Turn that was deleted", func() {
	It("has the outcome of the deleted one when it is created again", func(ctx context.Context) {
		namespace := newNamespace(
			ctx,
			builder.Script("The answer.", builder.Calls("work")),
			builder.JobTool("work", v1alpha1.SideEffectAtMostOnce).Obj(),
		)
		started := make(chan string, 8)
		jobs.In(namespace, func(c capstantest.Call) (string, string, int) { started <- c.ID; return "worked", "", 0 })
		before := startedSession(ctx, namespace)
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		expectReleased(ctx, namespace, "demo")
		head := sessionOf(ctx, namespace, "demo")
		spent, _ := requests.budgeted(namespace)
		Expect(spent).To(HaveLen(before + len(beginning) + len(actingFirst(1, v1alpha1.SideEffectAtMostOnce)) + len(ending)))

		Expect(kit.Client.Delete(ctx, builder.Turn("demo-1").In(namespace).Input("").Obj())).To(Succeed())
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		again, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(reasonOf(again, v1alpha1.ConditionSucceeded)).To(Equal("AlreadyRan"))
		Expect(again.Status.Output).To(Equal("The answer."))
		Expect(again.Status.Summary.Calls).To(Equal("1/1"))
		expectCost(ctx, namespace, len(spent), []string{sessionWrite, turnWrite, sessionWrite})
		after := sessionOf(ctx, namespace, "demo")
		Expect(after.Status.Totals).To(Equal(head.Status.Totals), "it counts once")
		Expect(after.Status.Journal).To(Equal(head.Status.Journal), "it is in the log once")
		Expect(started).To(HaveLen(1), "its tool has run once")
	})

	It("has its failure as well", func(ctx context.Context) {
		namespace := newNamespace(
			ctx,
			v1alpha1.Simulation{
				Response: &v1alpha1.SimulatedResponse{
					Type: v1alpha1.SimulatedResponseTypeError, Code: v1alpha1.ErrorCodeProviderMisconfigured, Text: "no key",
				},
			},
		)
		create(ctx, builder.Session("demo").In(namespace).Obj())
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveFailed("ProviderMisconfigured"))
		Expect(kit.Client.Delete(ctx, builder.Turn("demo-1").In(namespace).Input("").Obj())).To(Succeed())
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveFailed("AlreadyRan"))
		Expect(
			kit.Turn(ctx, namespace, "demo-1")(),
		).To(HaveField("Status.Error.Code", v1alpha1.ErrorCodeProviderMisconfigured))
	})

	It("leaves its name to its message", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("done"))
		create(ctx, builder.Session("demo").In(namespace).Obj())
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		Expect(kit.Client.Delete(ctx, builder.Turn("demo-1").In(namespace).Input("").Obj())).To(Succeed())
		create(ctx, builder.Turn("demo-1").In(namespace).Input("Something else").Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveFailed("NameReused"))
		create(ctx, builder.Turn("demo-2").In(namespace).Input("Something else").Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-2")).Should(capstantest.HaveSucceeded())
	})

	It("while it ran has its end in the log, and is not run again", func(ctx context.Context) {
		namespace := newNamespace(
			ctx,
			builder.Script("done", builder.Calls("work")),
			builder.JobTool("work", v1alpha1.SideEffectAtMostOnce).Obj(),
		)
		started := make(chan string, 8)
		jobs.In(namespace, func(c capstantest.Call) (string, string, int) {
			started <- c.ID
			<-c.Context.Done()
			return "", "", 137
		})
		create(ctx, builder.Session("demo").In(namespace).Obj())
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(started).Should(Receive())
		Expect(kit.Client.Delete(ctx, builder.Turn("demo-1").In(namespace).Input("").Obj())).To(Succeed())
		expectReleased(ctx, namespace, "demo")
		Expect(sessionOf(ctx, namespace, "demo").Status.Totals.ToolCalls).To(BeEquivalentTo(1))
		errors := toolErrors(ctx, namespace)
		Expect(errors).To(HaveLen(1))
		Expect(errors[0]).To(ContainSubstring("The outcome of this tool call is unknown"), "its pod has started")
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveFailed("AlreadyRan"))
		Expect(
			kit.Turn(ctx, namespace, "demo-1")(),
		).To(HaveField("Status.Error.Message", "The Turn was deleted while it ran."))
		Expect(started).NotTo(Receive())
	})

	It(
		"before its first response runs when it is created again",
		func(ctx context.Context) {
			namespace := newNamespace(
				ctx,
				v1alpha1.Simulation{Response: builder.Fixed("done"), Latency: &metav1.Duration{Duration: 2e9}},
			)
			create(ctx, builder.Session("demo").In(namespace).Obj())
			create(ctx, builder.Turn("demo-1").In(namespace).Obj())
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(HaveField("Status.Phase", v1alpha1.TurnPhaseReason))
			Expect(kit.Client.Delete(ctx, builder.Turn("demo-1").In(namespace).Input("").Obj())).To(Succeed())
			create(ctx, builder.Turn("demo-1").In(namespace).Obj())
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
			Expect(kit.Turn(ctx, namespace, "demo-1")()).To(WithTransform(func(t *v1alpha1.Turn) string {
				return reasonOf(t, v1alpha1.ConditionSucceeded)
			}, Equal("EndTurn")))
		},
	)

	It("stops although another finalizer blocks its deletion", func(ctx context.Context) {
		namespace := newNamespace(
			ctx,
			builder.Script("done", builder.Calls("work")),
			builder.JobTool("work", v1alpha1.SideEffectAtMostOnce).Obj(),
		)
		started := make(chan string, 8)
		jobs.In(namespace, func(c capstantest.Call) (string, string, int) {
			started <- c.ID
			<-c.Context.Done()
			return "", "", 137
		})
		create(ctx, builder.Session("demo").In(namespace).Obj())
		turn := builder.Turn("demo-1").In(namespace).Obj()
		turn.Finalizers = []string{"example.org/another"}
		create(ctx, turn)
		Eventually(started).Should(Receive())
		Expect(kit.Client.Delete(ctx, builder.Turn("demo-1").In(namespace).Input("").Obj())).To(Succeed())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveFailed("Cancelled"))
		expectNothingRuns(ctx, namespace)
		expectReleased(ctx, namespace, "demo")
		change(ctx, builder.Turn("demo-1").In(namespace).Input("").Obj(), `{"metadata":{"finalizers":null}}`)
		Eventually(turnGone(ctx, namespace, "demo-1")).Should(BeTrue())
	})
})

// toolErrors are the errors of tools in the journals of a namespace.
func toolErrors(ctx context.Context, namespace string) []string {
	GinkgoHelper()
	var errors []string
	for _, entry := range journalOf(ctx, namespace) {
		messages, err := event.MessagesOf(entry.Events)
		Expect(err).NotTo(HaveOccurred())
		for _, m := range messages {
			if m.ToolCallID != "" && m.Error != "" {
				errors = append(errors, m.Error)
			}
		}
	}
	return errors
}

var _ = Describe("A Session that was deleted", func() {
	It(
		"deletes the Turns that it has admitted, and keeps those that wait for a Session with its name",
		func(ctx context.Context) {
			namespace := newNamespace(
				ctx,
				builder.Script("done", builder.Calls("work")),
				builder.JobTool("work", v1alpha1.SideEffectAtMostOnce).Obj(),
			)
			started := make(chan string, 8)
			jobs.In(namespace, func(c capstantest.Call) (string, string, int) {
				started <- c.ID
				if c.Turn == "finished" || c.Turn == "queued" {
					return "worked", "", 0
				}
				<-c.Context.Done()
				return "", "", 137
			})
			create(ctx, builder.Session("demo").In(namespace).Obj())
			create(ctx, builder.Turn("finished").In(namespace).Obj())
			Eventually(kit.Turn(ctx, namespace, "finished")).Should(capstantest.HaveSucceeded())
			create(ctx, builder.Turn("running").In(namespace).Obj())
			Eventually(started).Should(Receive())
			Eventually(started).Should(Receive())
			create(ctx, builder.Turn("queued").In(namespace).Obj())
			Eventually(kit.Turn(ctx, namespace, "queued")).Should(HaveField("Status.Phase", v1alpha1.TurnPhaseQueued))

			Expect(kit.Client.Delete(ctx, builder.Session("demo").In(namespace).Obj())).To(Succeed())
			Eventually(turnGone(ctx, namespace, "finished")).Should(BeTrue())
			Eventually(turnGone(ctx, namespace, "running")).Should(BeTrue())
			Eventually(kit.Turn(ctx, namespace, "queued")).Should(WithTransform(func(t *v1alpha1.Turn) string {
				return reasonOf(t, v1alpha1.ConditionSucceeded)
			}, Equal("SessionNotFound")))

			create(ctx, builder.Session("demo").In(namespace).Obj())
			Eventually(kit.Turn(ctx, namespace, "queued")).Should(capstantest.HaveSucceeded())
		},
	)

	It("and created again at once is another conversation", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("done"))
		create(ctx, builder.Session("demo").In(namespace).Obj())
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		turn, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		// Times of creation have no fractions of a second, and one of the same second may be that of a restored Turn.
		Eventually(func() bool {
			Expect(kit.Client.Delete(ctx, builder.Session("demo").In(namespace).Obj())).To(Succeed())
			session := builder.Session("demo").In(namespace).Obj()
			create(ctx, session)
			return turn.CreationTimestamp.Before(&session.CreationTimestamp)
		}).Should(BeTrue())
		Eventually(turnGone(ctx, namespace, "demo-1")).Should(BeTrue())
		create(ctx, builder.Turn("demo-1").In(namespace).Input("Something else").Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		Expect(sessionOf(ctx, namespace, "demo").Status.Journal.Head).To(BeNumerically("<=", 1))
	})

	It("while no manager ran is noticed by the next one", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("done"))
		create(ctx, builder.Session("demo").In(namespace).Obj())
		for i := range 20 {
			create(ctx, builder.Turn(fmt.Sprintf("demo-%d", i)).In(namespace).Obj())
		}
		Eventually(kit.Turn(ctx, namespace, "demo-19")).Should(capstantest.HaveSucceeded())
		Expect(kit.Stop()).To(Succeed())
		Expect(kit.Client.Delete(ctx, builder.Session("demo").In(namespace).Obj())).To(Succeed())
		var err error
		kit, err = capstantest.Start(context.Background(), config, kitOptions())
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() (int, error) {
			var left v1alpha1.TurnList
			err := kit.Client.List(ctx, &left, client.InNamespace(namespace))
			return len(left.Items), err
		}).Should(BeZero())
	})
})

func sessionOf(ctx context.Context, namespace, name string) *v1alpha1.Session {
	GinkgoHelper()
	session := &v1alpha1.Session{}
	Expect(kit.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, session)).To(Succeed())
	return session
}

// reasonOf is the reason of a condition.
func reasonOf(turn *v1alpha1.Turn, kind string) string {
	for _, c := range turn.Status.Conditions {
		if c.Type == kind {
			return c.Reason
		}
	}
	return ""
}
