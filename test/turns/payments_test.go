package turns_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/runtime/payment/x402"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	double "github.com/capstan-dev/capstan/internal/testing/x402"
)

// payerKey is that of the example of EIP-712, and payer its account.
const (
	payerKey = "c85ef7d79691fe79573b1a7064c19c1a9819ebdbd1faaab1a8ec92344438aaf4"
	payer    = "0xcd2a3d9f938e13cd947ec05abc7fe734df8dd826"
	seller   = "0x209693bc6afc0c5328ba36faf03c514ef312287c"
)

// store is a seller with its site, and the chain.
type store struct {
	*double.Seller
	site *site
}

func newStore() *store {
	GinkgoHelper()
	payee, err := x402.ParseAddress(seller)
	Expect(err).NotTo(HaveOccurred())
	account, err := x402.ParseAddress(payer)
	Expect(err).NotTo(HaveOccurred())
	s := &store{Seller: &double.Seller{Chain: double.NewChain(x402.Base, time.Now), Price: 10_000, Payee: payee}}
	s.Chain.Fund(account, 1_000_000_000)
	s.site = newSite(s.ServeHTTP)
	return s
}

// tool is a Tool that buys at the shop.
func (s *store) tool(class v1alpha1.SideEffect) *v1alpha1.Tool {
	tool := s.site.tool("buy", class)
	tool.Spec.HTTP.Payment = &v1alpha1.HTTPPayment{
		Rail: v1alpha1.PaymentRailX402Base, MaxAmount: "0.02", MaxAmountPerTurn: "0.03",
		WalletRef: v1alpha1.SecretKeyReference{Name: "wallet", Key: "key"},
	}
	return tool
}

// open begins a Turn that calls a tool of the shop this many times, one after another.
func (s *store) open(ctx context.Context, tool *v1alpha1.Tool, calls int) string {
	GinkgoHelper()
	var steps [][]v1alpha1.SimulatedToolCall
	for range calls {
		steps = append(steps, builder.Calls("buy"))
	}
	namespace := newNamespace(ctx, builder.Script("Told: {{tool:buy}}", steps...), tool)
	create(ctx,
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "wallet", Annotations: map[string]string{
				v1alpha1.AnnotationWalletMaxPerDay: "1",
				v1alpha1.AnnotationAllowedHosts:    s.site.Listener.Addr().String(),
			}},
			StringData: map[string]string{"key": payerKey},
		},
		builder.Session("demo").In(namespace).Obj(),
		builder.Turn("demo-1").In(namespace).Input("Buy").Obj(),
	)
	return namespace
}

// paid is what a Turn has paid, as its totals have it.
func paid(amount string) types.GomegaMatcher {
	return ConsistOf(v1alpha1.Cost{Currency: "USD", Amount: amount})
}

// Rules: PAY-01.
var _ = Describe("Payments for HTTP tools", Serial, Ordered, func() {
	another := onOwnServer(
		capstantest.Options{EgressAllow: loopback, EgressRoots: testRoots(), NoJobPlayer: true, Payments: true},
	)

	It("are made once, and have a receipt, and the model sees nothing of them", func(ctx context.Context) {
		kit = another()
		s := newStore()
		var sent atomic.Value
		s.Content = func(w http.ResponseWriter, r *http.Request) {
			sent.Store(r.Header.Get(x402.HeaderSignature))
			_, _ = w.Write([]byte("sold for " + r.Header.Get(x402.HeaderSignature)))
		}
		namespace := s.open(ctx, s.tool(v1alpha1.SideEffectAtMostOnce), 1)
		turn := answered(ctx, namespace)
		Expect(turn).To(capstantest.HaveToolCall("buy", v1alpha1.ToolCallStateSucceeded, v1alpha1.ToolCallReasonCompleted))
		Expect(turn.Status.Output).To(ContainSubstring("sold for [redacted]"))
		Expect(s.Chain.Sum()).To(BeEquivalentTo(10_000))
		Expect(turn.Status.Summary.Payments).To(paid("0.01"))
		Eventually(func() ([]v1alpha1.Cost, error) {
			session := &v1alpha1.Session{}
			err := kit.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "demo"}, session)
			return session.Status.Totals.Payments, err
		}).Should(paid("0.01"))

		var records v1alpha1.RecordList
		Expect(kit.Client.List(ctx, &records, client.InNamespace(namespace))).To(Succeed())
		Expect(records.Items).To(HaveLen(2), "the ledgers of the Session and of the wallet")
		for what, object := range map[string]any{
			"the Turn": turn, "the log": journalOf(ctx, namespace), "the records": records,
		} {
			raw, err := json.Marshal(object)
			Expect(err).NotTo(HaveOccurred())
			Expect(string(raw)).NotTo(Or(ContainSubstring(payerKey), ContainSubstring(sent.Load().(string))), what)
			if what == "the log" {
				Expect(strings.Count(string(raw), s.Chain.Paid()[0].Transaction)).To(BeNumerically(">=", 1), "the receipt")
			}
		}
		Expect(managerLog.contains(payerKey)).To(BeFalse(), "the manager has logged the key")
	})

	It("stop at the limit of the Turn", func(ctx context.Context) {
		kit = another()
		s := newStore()
		turn := answered(ctx, s.open(ctx, s.tool(v1alpha1.SideEffectAtMostOnce), 5))
		Expect(s.Chain.Sum()).To(BeEquivalentTo(30_000))
		Expect(turn.Status.Summary.Payments).To(paid("0.03"))
		Expect(turn.Status.Output).To(ContainSubstring("of the 0.03 USD that the tool may pay in a Turn, 0 USD are left"))
	})

	It("are refused above the limit of the tool", func(ctx context.Context) {
		kit = another()
		s := newStore()
		s.Price = 20_001
		turn := answered(ctx, s.open(ctx, s.tool(v1alpha1.SideEffectAtMostOnce), 1))
		Expect(turn).To(capstantest.HaveToolCall("buy", v1alpha1.ToolCallStateFailed, v1alpha1.ToolCallReasonPaymentRefused))
		Expect(s.Payments()).To(BeZero())
		Expect(turn.Status.Summary.Payments).To(BeEmpty())
	})

	DescribeTable("count once when the manager ends after the settlement", func(
		ctx context.Context, class v1alpha1.SideEffect, state v1alpha1.ToolCallState,
	) {
		s := newStore()
		var n atomic.Int32
		settled := make(chan struct{})
		s.AfterSettlement = func(w http.ResponseWriter, r *http.Request) bool {
			if n.Add(1) > 1 {
				return false
			}
			close(settled)
			untilGone(w, r)
			return true
		}
		kit = another()
		namespace := s.open(ctx, s.tool(class), 1)
		Eventually(settled).Should(BeClosed())
		Expect(kit.Stop()).To(Succeed())

		kit = another()
		turn := answered(ctx, namespace)
		Expect(turn.Status.ToolCalls[0].State).To(Equal(state))
		Expect(s.Chain.Paid()).To(HaveLen(1))
		Expect(turn.Status.Summary.Payments).To(paid("0.01"))
	},
		Entry("of an AtMostOnce call, which is not repeated", v1alpha1.SideEffectAtMostOnce, v1alpha1.ToolCallStateUnknown),
		Entry("of an Idempotent call, which is repeated", v1alpha1.SideEffectIdempotent, v1alpha1.ToolCallStateFailed),
	)
})

// Rules: PAY-01.
var _ = Describe("A manager without payments", func() {
	It("pays nothing", func(ctx context.Context) {
		s := newStore()
		turn := answered(ctx, s.open(ctx, s.tool(v1alpha1.SideEffectAtMostOnce), 1))
		Expect(turn).To(capstantest.HaveToolCall("buy", v1alpha1.ToolCallStateFailed, v1alpha1.ToolCallReasonPaymentRefused))
		Expect(s.Payments()).To(BeZero())
	})
})
