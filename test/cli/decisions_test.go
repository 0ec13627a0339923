package cli_test

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/test/internal/suite"
)

func inNamespace(namespace string) client.ListOption { return client.InNamespace(namespace) }

var _ = Describe("approve and reject", func() {
	// waiting starts a Turn whose call waits for approval.
	waiting := func(ctx context.Context, arguments string) string {
		GinkgoHelper()
		namespace := stage(ctx, work("Then: {{tool:work}}", arguments), guarded(worker()))
		suite.Create(ctx, kit.Client, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForApproval("work"))
		return namespace
	}

	It("ask before an approval, and not without a terminal", func(ctx context.Context) {
		namespace := waiting(ctx, `{"euros":40}`)
		_, kubeconfig := certificateUser(ctx, namespace, "capstan-approve")
		ann := as(kubeconfig, namespace)
		r := ann.Run(ctx, "approve", "demo-1")
		Expect(r.Code).To(Equal(1))
		Expect(r.Out).To(MatchRegexp(`(?s)1-0  work  of Turn demo-1 in Session demo.*arguments  \{"euros":40\}`))
		Expect(r.Err).To(ContainSubstring("repeat the command with --yes"))

		t := ann.Open(ctx, "approve", "demo-1", "1-0")
		Eventually(t).Should(gbytes.Say(`\[y/N\]`))
		t.Type("n\n")
		Expect(t.Code()).To(Equal(1))
		Expect(t.Text()).To(ContainSubstring("Nothing was decided."))
		Expect(kit.Turn(ctx, namespace, "demo-1")()).To(capstantest.WaitForApproval("work"))

		Expect(ann.Run(ctx, "approve", "demo-1", "2-0", "--yes").Err).To(ContainSubstring("does not wait for approval"))
		r = ann.Run(ctx, "approve", "demo-1", "--all", "--yes")
		Expect(r.Code).To(Equal(0))
		Expect(r.Out).To(ContainSubstring("Call 1-0 (work) approved."))
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		Expect(ann.Run(ctx, "approve", "demo-1", "--yes").Err).To(ContainSubstring("has no call that waits for approval"))
	})

	It("show arguments of any length, also without the right to read the journal", func(ctx context.Context) {
		long := strings.Repeat("x", 8<<10) + "end"
		namespace := waiting(ctx, `{"text":"`+long+`"}`)
		_, reads := certificateUser(ctx, namespace, "capstan-approve", "capstan-view")
		_, decides := certificateUser(ctx, namespace, "capstan-approve")
		Expect(as(reads, namespace).Run(ctx, "approve", "demo-1").Out).To(ContainSubstring(long))
		Expect(as(decides, namespace).Run(ctx, "approve", "demo-1").Out).To(ContainSubstring(long))
		for _, kubeconfig := range []string{reads, decides} {
			r := as(kubeconfig, namespace).Run(ctx, "approve", "demo-1", "--manager-namespace", "nowhere")
			Expect(strings.Contains(r.Out, long)).To(Equal(kubeconfig == reads))
		}
		r := as(decides, namespace).Run(ctx, "approve", "demo-1", "--manager-namespace", "nowhere")
		Expect(r.Out).To(And(ContainSubstring("NOT ALL ARGUMENTS ARE SHOWN"), Not(ContainSubstring("xend"))))
		Expect(r.Err).To(ContainSubstring("cannot be read"))
	})

	It("reject", func(ctx context.Context) {
		namespace := waiting(ctx, `{}`)
		_, kubeconfig := tokenUser(ctx, namespace, "capstan-approve")
		r := as(kubeconfig, namespace).Run(ctx, "reject", "demo-1", "--reason", "It is too dear.")
		Expect(r.Code).To(Equal(0))
		Expect(r.Out).To(ContainSubstring("Call 1-0 (work) rejected."))
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		Expect(root(namespace).Run(ctx, "log", "demo").Out).To(ContainSubstring("who has rejected it: It is too dear."))
		Expect(kit.ToolResultText(ctx, namespace, "demo-1", "1-0")()).To(ContainSubstring("It is too dear."))
	})

	It("are refused to those without the right", func(ctx context.Context) {
		namespace := waiting(ctx, `{}`)
		for _, role := range []string{"capstan-edit", "capstan-view"} {
			_, kubeconfig := certificateUser(ctx, namespace, role)
			r := as(kubeconfig, namespace).Run(ctx, "approve", "demo-1", "--yes")
			Expect(r.Code).To(Equal(1))
			Expect(r.Err).To(ContainSubstring("The role capstan-approve permits it"))
		}
		_, kubeconfig := certificateUser(ctx, namespace)
		r := as(kubeconfig, namespace).Run(ctx, "approve", "demo-1", "--yes")
		Expect(r.Err).To(And(ContainSubstring("forbidden"), ContainSubstring("capstan-view")))
	})
})

var _ = Describe("answer", func() {
	It("sends the result of a client tool", func(ctx context.Context) {
		namespace := stage(ctx, builder.Script("Ann says {{tool:ask-ann}}", builder.Calls("ask-ann")),
			builder.ClientTool("ask-ann").Obj())
		suite.Create(ctx, kit.Client, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForTools("ask-ann"))
		_, kubeconfig := certificateUser(ctx, namespace, "capstan-edit")
		ann := as(kubeconfig, namespace)
		r := ann.Run(ctx, "answer", "demo-1")
		Expect(r.Out).To(ContainSubstring("answer demo-1 1-0 --result TEXT"))
		r = ann.Pipe(ctx, "yes", "answer", "demo-1", "--file", "-")
		Expect(r.Code).To(Equal(0))
		var done *v1alpha1.Turn
		Eventually(func() (*v1alpha1.Turn, error) {
			var err error
			done, err = kit.Turn(ctx, namespace, "demo-1")()
			return done, err
		}).Should(capstantest.HaveSucceeded())
		Expect(done.Status.Output).To(Equal("Ann says yes"))
	})
})
