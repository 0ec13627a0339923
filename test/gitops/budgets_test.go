package gitops_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

var _ = Describe("A Budget and a Schedule", func() {
	It("are finished when they are ready", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		budget := builder.Budget("all", "1000").In(namespace).Tokens().Obj()
		schedule := &v1alpha1.Schedule{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "yearly"},
			Spec: v1alpha1.ScheduleSpec{
				Schedule: "@yearly", SessionRef: &v1alpha1.LocalReference{Name: "demo"},
				Turn: v1alpha1.ScheduledTurn{Input: "Hello"},
			},
		}
		create(ctx, builder.Session("demo").In(namespace).Obj(), budget, schedule)
		Eventually(record.history(budget)).Should(HaveExactElements(progressing, finished))
		Eventually(record.history(schedule)).Should(HaveExactElements(progressing, finished))
	})
})
