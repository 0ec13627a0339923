package turns_test

import (
	"context"
	"fmt"
	"maps"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// A change of a Tool may concern every Session of its namespace. A tenant that writes one again and again is answered
// with a bounded number of passes, and the last change still reaches every Session.
var _ = Describe("A Tool that is written repeatedly", func() {
	It("costs no pass of each Session for each write", func(ctx context.Context) {
		const sessions, writes = 300, 60
		other := builder.JobTool("other", v1alpha1.SideEffectPure).Obj()
		namespace := newNamespace(ctx, v1alpha1.Simulation{}, other)
		for i := range sessions {
			create(ctx, builder.Session(fmt.Sprint("s", i)).In(namespace).Obj())
		}
		ready := func(g Gomega, want int, status metav1.ConditionStatus) {
			var all v1alpha1.SessionList
			g.Expect(kit.Client.List(ctx, &all, client.InNamespace(namespace))).To(Succeed())
			found := 0
			for i := range all.Items {
				if meta.IsStatusConditionPresentAndEqual(all.Items[i].Status.Conditions, v1alpha1.ConditionReady, status) {
					found++
				}
			}
			g.Expect(found).To(Equal(want))
		}
		Eventually(func(g Gomega) { ready(g, sessions, metav1.ConditionTrue) }).WithTimeout(time.Minute).Should(Succeed())
		quietly(ctx, namespace)

		before, began := reconciled.In(namespace), time.Now()
		for i := range writes {
			change(ctx, other, fmt.Sprintf(`{"spec":{"description":"Does something else, number %d."}}`, i))
		}
		harness := builder.Harness("base").In(namespace).Obj()
		Expect(kit.Client.Delete(ctx, harness)).To(Succeed())
		Eventually(func(g Gomega) { ready(g, sessions, metav1.ConditionFalse) }).WithTimeout(time.Minute).Should(Succeed())
		quietly(ctx, namespace)
		passes := 0
		for n := range maps.Values(reconciled.In(namespace).Since(before).Of("session")) {
			passes += n
		}
		// The first change and the last one reach all; each Session is written once and then looked at once more. In
		// between, a hundred a second.
		most := 4*sessions + 200 + 100*int(time.Since(began).Seconds()+1)
		Expect(passes).To(BeNumerically("<=", most))
	})
})
