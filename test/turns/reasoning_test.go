package turns_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider/providertest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

var _ = Describe("A Turn of a model that reasons", func() {
	for _, api := range providertest.APIs() {
		It("sends the same prefix although the manager restarts, layers and Tools are edited, and a message steers: "+
			api.Name, func(ctx context.Context) {
			double := api.Loop("ask", `{}`)
			s := newSite(double.ServeHTTP)
			namespace := withModel(ctx, api.Spec.Provider, s, func(m *v1alpha1.Model) {
				m.Spec.Model, m.Spec.API, m.Spec.Parameters = api.Spec.Model, api.Spec.API, api.Spec.Parameters
			}, builder.ClientTool("ask").Obj())
			create(ctx, keySecret(namespace))
			create(ctx, builder.Turn("demo-1").In(namespace).Input("Please rest.").Obj())
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForTools("ask", "ask"))

			restartKit()
			harness, tool := &v1alpha1.Harness{}, builder.ClientTool("ask").Obj()
			harness.Namespace, harness.Name, tool.Namespace = namespace, "base", namespace
			change(ctx, harness, `{"spec":{"systemPrompt":"Be verbose."}}`)
			change(ctx, tool, `{"spec":{"description":"Asks somewhere else."}}`)
			for i := range 2 {
				create(ctx, builder.ToolResult(fmt.Sprintf("ann-%d", i), fmt.Sprintf("1-%d", i)).In(namespace).Result("yes").Obj())
			}
			// Between the two results the first step waits for one ask as well.
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(
				And(capstantest.WaitForTools("ask"), HaveField("Status.Iteration", int32(2))))

			restartKit()
			create(ctx, newSteer(namespace, "demo-2", "Hurry."))
			Expect(answered(ctx, namespace).Status.Output).To(Equal("Good morning."))
			Expect(double.Beginning()).To(BeEmpty())
			Expect(double.Returned()).To(Equal(2), "the thoughts of the steps before the last one")
			Expect(double.Bodies()).To(HaveLen(len(double.Script)), "no request was refused or repeated")
		})
	}
})

// restartKit ends the manager, and starts another one.
func restartKit() {
	GinkgoHelper()
	Expect(kit.Stop()).To(Succeed())
	var err error
	kit, err = capstantest.Start(context.Background(), config, kitOptions())
	Expect(err).NotTo(HaveOccurred())
}
