package turns_test

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

var _ = Describe("A suspended Turn", func() {
	suspend := func(ctx context.Context, namespace, name, value string) {
		GinkgoHelper()
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"suspend":`+value+`}}`))
		Expect(kit.Client.Patch(ctx, builder.Turn(name).In(namespace).Input("").Obj(), patch)).To(Succeed())
	}
	suspended := func(namespace, name string) *v1alpha1.Turn {
		turn := builder.Turn(name).In(namespace).Obj()
		turn.Spec.Suspend = ptr.To(true)
		return turn
	}
	reason := func(ctx context.Context, namespace, name string) func() string {
		return func() string {
			turn, err := kit.Turn(ctx, namespace, name)()
			if err != nil {
				return err.Error()
			}
			return reasonOf(turn, v1alpha1.ConditionSucceeded)
		}
	}

	It(
		"is not admitted and costs one write, the Turns behind it run, and it runs once it is resumed",
		func(ctx context.Context) {
			namespace := newNamespace(ctx, builder.Script("done"))
			before := startedSession(ctx, namespace)
			create(ctx, suspended(namespace, "demo-1"))
			Eventually(reason(ctx, namespace, "demo-1")).Should(Equal(v1alpha1.ReasonSuspended))
			Consistently(
				func() []string { return requests.in(namespace)[before:] },
			).WithTimeout(time.Second).
				Should(Equal([]string{turnWrite}))
			turn, err := kit.Turn(ctx, namespace, "demo-1")()
			Expect(err).NotTo(HaveOccurred())
			Expect(turn.Status.Phase).To(Equal(v1alpha1.TurnPhaseQueued))

			create(ctx, builder.Turn("demo-2").In(namespace).Input("Hello again").Obj())
			Eventually(kit.Turn(ctx, namespace, "demo-2")).Should(capstantest.HaveSucceeded())
			expectCost(ctx, namespace, before, slices.Concat([]string{turnWrite}, beginning, ending))
			Expect(reason(ctx, namespace, "demo-1")()).To(Equal(v1alpha1.ReasonSuspended))

			suspend(ctx, namespace, "demo-1", "false")
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		},
	)

	It("waits for its Session as any other once it is resumed, and ends when it is cancelled", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("done"))
		create(ctx, suspended(namespace, "demo-1"))
		create(ctx, suspended(namespace, "demo-2"))
		Eventually(reason(ctx, namespace, "demo-1")).Should(Equal(v1alpha1.ReasonSuspended))
		suspend(ctx, namespace, "demo-1", "null")
		Eventually(reason(ctx, namespace, "demo-1")).Should(Equal(v1alpha1.ReasonSessionNotFound))
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"desiredState":"Cancelled"}}`))
		Expect(kit.Client.Patch(ctx, builder.Turn("demo-2").In(namespace).Input("").Obj(), patch)).To(Succeed())
		Eventually(kit.Turn(ctx, namespace, "demo-2")).Should(capstantest.HaveFailed("Cancelled"))
	})

	It("continues when it is suspended after it has begun", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("done", builder.Calls("ask-ann")), builder.ClientTool("ask-ann").Obj())
		create(ctx, builder.Session("demo").In(namespace).Obj())
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForTools("ask-ann"))
		suspend(ctx, namespace, "demo-1", "true")
		create(ctx, builder.ToolResult("ann", "1-0").In(namespace).Result("yes").Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
	})
})
