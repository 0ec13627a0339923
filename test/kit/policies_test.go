package kit_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/test/internal/suite"
)

var _ = Describe("The policies of an installation", func() {
	It("hold for the test's own client, and let the kit run Turns", func(ctx context.Context) {
		// They hold for the whole cluster, so that they get one of their own.
		cfg := suite.Start().Config
		strict, err := capstantest.Start(context.Background(), cfg, capstantest.Options{
			Policies: true,
			Jobs:     func(capstantest.Call) (string, string, int) { return "worked", "", 0 },
		})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(strict.Stop()).To(Succeed()) })

		meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "default", Name: name} }
		model := &v1alpha1.Model{ObjectMeta: meta("simulated"), Spec: v1alpha1.ModelSpec{
			Provider:   v1alpha1.ModelProviderSimulated,
			Simulation: new(builder.Script("{{tool:work}} {{tool:ask}} {{tool:pay}}", builder.Calls("work", "ask", "pay"))),
		}}
		model.Annotations = map[string]string{v1alpha1.AnnotationDefaultModel: "true"}
		for _, object := range []client.Object{
			model,
			&v1alpha1.Tool{
				ObjectMeta: meta("work"),
				Spec: v1alpha1.ToolSpec{
					Description: "Works.", Job: &v1alpha1.JobTool{Image: "example.org/work:1", Command: []string{"/work"}},
				},
			},
			&v1alpha1.Tool{
				ObjectMeta: meta("ask"), Spec: v1alpha1.ToolSpec{Description: "Asks.", Client: &v1alpha1.ClientTool{}},
			},
			&v1alpha1.Tool{ObjectMeta: meta("pay"), Spec: v1alpha1.ToolSpec{
				Description: "Pays.", Policy: v1alpha1.ToolPolicyRequiresApproval, Job: &v1alpha1.JobTool{
					Image: "example.org/pay:1", Command: []string{"/pay"},
				},
			}},
			&v1alpha1.Harness{
				ObjectMeta: meta("base"),
				Spec: v1alpha1.HarnessSpec{
					ConfigLayer: v1alpha1.ConfigLayer{Tools: []v1alpha1.LocalReference{{Name: "work"}, {Name: "ask"}, {Name: "pay"}}},
				},
			},
			&v1alpha1.Session{
				ObjectMeta: meta("demo"), Spec: v1alpha1.SessionSpec{HarnessRef: v1alpha1.LocalReference{Name: "base"}},
			},
			&v1alpha1.Turn{
				ObjectMeta: meta("demo-1"),
				Spec:       v1alpha1.TurnSpec{SessionRef: v1alpha1.LocalReference{Name: "demo"}, Input: "Hello"},
			},
		} {
			Expect(strict.Client.Create(ctx, object)).To(Succeed())
		}
		Eventually(strict.Turn(ctx, "default", "demo-1")).Should(capstantest.WaitForTools("ask"))
		yes := "Yes."
		answer := func(submittedBy string) *v1alpha1.ToolResult {
			return &v1alpha1.ToolResult{ObjectMeta: meta("answer"), Spec: v1alpha1.ToolResultSpec{
				TurnRef: v1alpha1.TurnReference{Name: "demo-1"}, CallID: "1-1", Result: &yes, SubmittedBy: submittedBy,
			}}
		}
		Expect(strict.Client.Create(ctx, answer("another-user"))).To(MatchError(ContainSubstring("submittedBy")))
		Expect(strict.Client.Create(ctx, answer(""))).To(Succeed())
		Expect(strict.Approve(ctx, "default", "demo-1", "pay")).To(Succeed(), "the kit decides in its own name")
		Eventually(strict.Turn(ctx, "default", "demo-1")).Should(capstantest.HaveSucceeded())
		turn, err := strict.Turn(ctx, "default", "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(turn.Status.Output).To(Equal("worked Yes. worked"))

		By("refusing objects that only the manager writes")
		forged := client.RawPatch(types.MergePatchType, []byte(`{"status":{"output":"forged"}}`))
		Expect(strict.Client.Status().Patch(ctx, turn, forged)).To(MatchError(ContainSubstring("denied request")))
		Expect(strict.Client.Create(ctx, &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default",
				Name:      "forged",
				Labels:    map[string]string{v1alpha1.LabelTurnUID: string(turn.UID)},
			},
			Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever,
				Containers:    []corev1.Container{{Name: "tool", Image: "example.org/forged:1"}},
			}}},
		})).To(MatchError(ContainSubstring("denied request")))
	})
})
