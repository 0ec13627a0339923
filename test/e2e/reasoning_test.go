//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider/providertest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

var _ = Describe("A Turn of a model that reasons", alone, Label(hereLabel), func() {
	It(
		"continues with its reasoning after the manager dies between two steps",
		SpecTimeout(crashLimit),
		func(ctx SpecContext) {
			doubles, served := map[string]*providertest.Double{}, http.NewServeMux()
			for _, api := range providertest.APIs() {
				doubles[api.Name] = api.Loop("nap", `{"seconds":2}`)
				served.Handle("/"+api.Name+"/", doubles[api.Name])
			}
			server := newModelServer(ctx, served)
			runManagerWith(ctx, "--egress-allow-cidr="+server.address+"/32")
			namespace := newStage(ctx, builder.Script(""), toolbox("nap", "sleep", v1alpha1.SideEffectPure))
			Expect(secretFor(ctx, api, namespace, "provider")).To(Succeed())
			for _, of := range providertest.APIs() {
				model := &v1alpha1.Model{ObjectMeta: named(namespace, of.Name), Spec: of.Spec}
				model.Spec.BaseURL = server.url + "/" + of.Name
				model.Spec.SecretKeyRef = &v1alpha1.SecretKeyReference{Name: "provider", Key: "key"}
				create(ctx, model)
				Expect(talk(ctx, api, namespace, of.Name, 1, of.Name, "Please rest.")).To(Succeed())
			}
			for step := 1; step <= 2; step++ {
				Eventually(ctx, func() error {
					for name, double := range doubles {
						if double.Minted() < step {
							return fmt.Errorf("%s has responded %d times", name, double.Minted())
						}
					}
					return nil
				}).WithTimeout(takeover).Should(Succeed())
				dies(ctx)
			}
			for name, double := range doubles {
				Eventually(ctx, turn(namespace, name+"-1")).WithTimeout(takeover).Should(capstantest.HaveSucceeded())
				Expect(read(ctx, namespace, name+"-1").Status.Output).To(Equal("Good morning."))
				Expect(double.Beginning()).To(BeEmpty(), name)
				Expect(double.Returned()).To(Equal(2), "the thoughts of the steps before the last one, by %s", name)
			}
		},
	)
})

// dies deletes the manager's pods without grace, and waits for the next one to lead.
func dies(ctx context.Context) {
	GinkgoHelper()
	pods, err := managerPods(ctx)
	Expect(err).NotTo(HaveOccurred())
	for i := range pods {
		Expect(client.IgnoreNotFound(api.Delete(ctx, &pods[i], client.GracePeriodSeconds(0)))).To(Succeed())
	}
	settled(ctx)
}
