package turns_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/capstantest/providers"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// A manager that starts finds out by itself what has changed while none ran, also of objects that send it no event.
var _ = Describe("The conditions that an earlier manager has set", Serial, Ordered, func() {
	const soon = 5 * time.Second
	another := onOwnServer(
		capstantest.Options{
			Providers: providers.All(), EgressAllow: loopback, EgressRoots: testRoots(), NoJobPlayer: true,
		},
	)

	It("follow the Secret of a Model that was removed, and made again, while no manager ran", func(ctx context.Context) {
		s := newSite(anthropicText("Hi."))
		kit = another()
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "conditions-"}}
		create(ctx, namespace)
		for _, object := range whole(namespace.Name, s) {
			create(ctx, object)
		}
		create(ctx, builder.Turn("demo-1").In(namespace.Name).Obj())
		Eventually(kit.Turn(ctx, namespace.Name, "demo-1")).Should(capstantest.HaveSucceeded())
		model := condition(ctx, &v1alpha1.Model{}, namespace.Name, "model", v1alpha1.ConditionReady)
		session := condition(ctx, &v1alpha1.Session{}, namespace.Name, "demo", v1alpha1.ConditionReady)
		turn := condition(ctx, &v1alpha1.Turn{}, namespace.Name, "demo-2", v1alpha1.ConditionSucceeded)
		Expect(model()).To(HaveField("Status", metav1.ConditionTrue))
		Expect(kit.Stop()).To(Succeed())

		Expect(kit.Client.Delete(ctx, keySecret(namespace.Name))).To(Succeed())
		create(ctx, builder.Turn("demo-2").In(namespace.Name).Input("Hello again").Obj())
		kit = another()
		missing := HaveField("Message", ContainSubstring(`Secret "provider" does not exist`))
		Eventually(func(g Gomega) {
			g.Expect(model()).To(And(
				HaveField("Status", metav1.ConditionFalse), HaveField("Reason", v1alpha1.ReasonSecretMissing), missing,
			))
			g.Expect(session()).To(And(HaveField("Status", metav1.ConditionFalse), missing))
			// It may have begun before the Model was looked at, and waits for the key then.
			g.Expect(turn()).To(And(
				HaveField("Status", metav1.ConditionUnknown),
				HaveField("Reason", BeElementOf(v1alpha1.ReasonSessionNotReady, v1alpha1.ReasonSecretMissing)), missing,
			))
		}).WithTimeout(soon).Should(Succeed())
		Expect(s.requests()).To(HaveLen(1), "no model is called without its key")
		Expect(kit.Stop()).To(Succeed())

		create(ctx, keySecret(namespace.Name))
		kit = another()
		Eventually(func(g Gomega) {
			g.Expect(model()).To(HaveField("Status", metav1.ConditionTrue))
			g.Expect(session()).To(HaveField("Status", metav1.ConditionTrue))
			g.Expect(turn()).To(And(
				HaveField("Status", metav1.ConditionTrue), HaveField("Reason", string(v1alpha1.StopReasonEndTurn)),
			))
		}).WithTimeout(soon).Should(Succeed())
	})
})
