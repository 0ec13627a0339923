package gitops_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

var _ = Describe("A LeasedResource", func() {
	It("is finished while its lease holds, and when it is abandoned", func(ctx context.Context) {
		lease := &v1alpha1.LeasedResource{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: newNamespace(ctx), Name: "vm", Finalizers: []string{v1alpha1.FinalizerLease},
			},
			Spec: v1alpha1.LeasedResourceSpec{
				DesiredState: v1alpha1.LeaseDesiredStateActive, Provider: "example.com", Type: "vm", ExternalID: "vm-1",
				Duration: metav1.Duration{Duration: time.Hour}, SessionRef: v1alpha1.ObjectIdentity{Name: "demo", UID: "1"},
				Turn: "demo-1", Tool: "start", User: "ann",
				Cleanup: v1alpha1.LeaseCleanup{ToolRef: v1alpha1.LocalReference{Name: "clean"}},
			},
		}
		create(ctx, lease)
		Eventually(record.history(lease)).Should(HaveExactElements(progressing, finished))
		change(ctx, lease, func(l *v1alpha1.LeasedResource) {
			l.Spec.DesiredState = v1alpha1.LeaseDesiredStateAbandoned
		})
		Eventually(record.history(lease)).Should(HaveExactElements(progressing, finished, progressing, finished))
	})
})
