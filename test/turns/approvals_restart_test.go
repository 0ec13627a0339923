package turns_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/test/internal/suite"
)

// decisionsIn are the decisions that the journal of Session demo has, and whose they are.
func decisionsIn(ctx context.Context, namespace string) []string {
	GinkgoHelper()
	var found []string
	for _, entry := range entries(ctx, namespace, "demo") {
		if settled := entry.Settled; settled != nil && settled.Decision != "" {
			found = append(found, string(settled.Decision)+" by "+settled.By)
		}
	}
	return found
}

// deafening is a transport that loses the writes of Turn status while lose is set.
type deafening struct {
	lose atomic.Bool
	lost atomic.Int32
}

func (d *deafening) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if d.lose.Load() && r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/turns/") {
			d.lost.Add(1)
			return nil, errors.New("the test has cut the wire")
		}
		return next.RoundTrip(r)
	})
}

var _ = Describe("An approval", Serial, Ordered, func() {
	var separate *rest.Config

	// own starts a manager with settings of its own, which the spec's helpers use from then on.
	own := func(o capstantest.Options) *capstantest.Kit {
		GinkgoHelper()
		started, err := capstantest.Start(context.Background(), separate, o)
		Expect(err).NotTo(HaveOccurred())
		restore := kit
		kit = started
		DeferCleanup(func() {
			kit = restore
			Expect(started.Stop()).To(Succeed())
		})
		return started
	}

	BeforeAll(func() {
		separate = suite.Start().Config
	})

	waiting := func(ctx context.Context, tool *v1alpha1.Tool) string {
		GinkgoHelper()
		namespace := newNamespace(ctx, builder.Script("It says {{tool:pay}}.", builder.Calls("pay")), tool)
		create(ctx, builder.Session("demo").In(namespace).Obj())
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForApproval("pay"))
		return namespace
	}

	It("that is in the journal is used by the next process, although its ToolResult is deleted", func(
		ctx context.Context,
	) {
		wire := &deafening{}
		first := own(capstantest.Options{Transport: wire.wrap})
		namespace := waiting(ctx, guarded(builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj()))
		wire.lose.Store(true)
		yes := decision(ctx, namespace, "yes", "demo-1", "1-0", v1alpha1.DecisionApprove)
		create(ctx, yes)
		Eventually(accepted(ctx, namespace, "yes")).Should(Equal("True Accepted"))
		Eventually(wire.lost.Load).Should(BeNumerically(">", 0))
		Expect(kit.Client.Delete(ctx, yes)).To(Succeed())
		Expect(first.Stop()).To(Succeed())
		Expect(kit.Turn(ctx, namespace, "demo-1")()).To(capstantest.WaitForApproval("pay"), "the status does not know of it")
		Expect(jobNames(ctx, namespace)).To(BeEmpty(), "nothing starts before the status knows of it")

		second := own(capstantest.Options{Jobs: jobs.Run})
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		Expect(finalAnswer(ctx, namespace)).To(Equal("It says result of 1-0."))
		Expect(second.Starts(namespace, "demo-1", "1-0")).To(Equal(1))
	})

	It("that is missing becomes a rejection after a day, or after the time limit of the Tool", func(ctx context.Context) {
		clock := capstantest.NewClock(time.Now())
		own(capstantest.Options{Clock: clock})
		soon := guarded(builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj())
		soon.Spec.ApprovalTimeout = &metav1.Duration{Duration: time.Hour}
		hour, day := waiting(ctx, soon), waiting(ctx, guarded(builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj()))
		expectTimedOut := func(namespace string) {
			GinkgoHelper()
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
			Expect(
				kit.Turn(ctx, namespace, "demo-1")(),
			).To(capstantest.HaveToolCall("pay", v1alpha1.ToolCallStateNotExecuted, v1alpha1.ToolCallReasonApprovalTimeout))
			Expect(
				finalAnswer(ctx, namespace),
			).To(HavePrefix("It says The tool was not executed: it requires approval and was not approved in time."))
			create(ctx, decision(ctx, namespace, "late", "demo-1", "1-0", v1alpha1.DecisionApprove))
			Eventually(accepted(ctx, namespace, "late")).Should(Equal("False CallClosed"))
			Expect(jobNames(ctx, namespace)).To(BeEmpty())
		}
		clock.Advance(time.Hour + time.Minute)
		expectTimedOut(hour)
		Expect(kit.Turn(ctx, day, "demo-1")()).To(capstantest.WaitForApproval("pay"))
		clock.Advance(23 * time.Hour)
		expectTimedOut(day)
	})

	It("that expired does not come back after a restart, while other calls wait", func(ctx context.Context) {
		clock := capstantest.NewClock(time.Now())
		first := own(capstantest.Options{Clock: clock})
		namespace := newNamespace(ctx, builder.Script("{{tool:ask}}", builder.Calls("pay", "ask")),
			guarded(builder.JobTool("pay", v1alpha1.SideEffectPure).Obj()), builder.ClientTool("ask").Obj())
		create(ctx, builder.Session("demo").In(namespace).Obj())
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForApproval("pay"))
		clock.Advance(25 * time.Hour)
		Eventually(
			kit.Turn(ctx, namespace, "demo-1"),
		).Should(capstantest.HaveToolCall("pay", v1alpha1.ToolCallStateNotExecuted, v1alpha1.ToolCallReasonApprovalTimeout))
		Expect(first.Stop()).To(Succeed())

		own(capstantest.Options{}) // with a clock that is a day behind
		create(ctx, decision(ctx, namespace, "late", "demo-1", "1-0", v1alpha1.DecisionApprove))
		Eventually(accepted(ctx, namespace, "late")).Should(Equal("False CallClosed"))
		Expect(acceptedMessage(ctx, namespace, "late")).To(ContainSubstring("It was not approved in time."))
		create(ctx, builder.ToolResult("answer", "1-1").In(namespace).Result("yes").Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		Expect(
			kit.Turn(ctx, namespace, "demo-1")(),
		).To(capstantest.HaveToolCall("pay", v1alpha1.ToolCallStateNotExecuted, v1alpha1.ToolCallReasonApprovalTimeout))
		Expect(jobNames(ctx, namespace)).To(BeEmpty())
	})
})
