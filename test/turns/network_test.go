package turns_test

import (
	"context"
	"net/netip"
	"os"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

const networkWrite = "POST networkpolicies"

// None of the clusters that these tests run on enforces NetworkPolicies. What is shown here is that the objects are
// there in time.
var _ = Describe("A tool without network", func() {
	secluded := func(name string) *v1alpha1.Tool {
		tool := builder.JobTool(name, v1alpha1.SideEffectPure).Obj()
		tool.Spec.Job.Network = v1alpha1.NetworkReachNone
		return tool
	}

	It("starts when the NetworkPolicy is there, which is made once in a namespace", func(ctx context.Context) {
		namespace := newNamespace(
			ctx,
			builder.Script("done", builder.Calls("count", "count"), builder.Calls("count")),
			secluded("count"),
		)
		before := startedSession(ctx, namespace)
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())

		writes := requests.in(namespace)[before:]
		Expect(slices.Index(writes, networkWrite)).To(BeNumerically("<", slices.Index(writes, jobWrite)))
		Expect(countOf(writes, networkWrite)).To(Equal(1))
		Expect(countOf(writes, jobWrite)).To(Equal(3))

		policy := &networkingv1.NetworkPolicy{}
		Expect(
			kit.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: v1alpha1.NetworkPolicyNone}, policy),
		).To(Succeed())
		Expect(policy.OwnerReferences).To(BeEmpty(), "it must outlast the Turn")
		Expect(policy.Spec).To(Equal(networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"capstan.dev/network": "None"}},
			PolicyTypes: []networkingv1.PolicyType{"Ingress", "Egress"},
		}))
		var pods corev1.PodList
		Expect(
			kit.Client.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{"capstan.dev/network": "None"}),
		).To(Succeed())
		Expect(pods.Items).To(HaveLen(3))
	})

	It("adds no write for a tool with network", func(ctx context.Context) {
		namespace := newNamespace(
			ctx,
			builder.Script("done", builder.Calls("count")),
			builder.JobTool("count", v1alpha1.SideEffectPure).Obj(),
		)
		startedSession(ctx, namespace)
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		Expect(requests.in(namespace)).NotTo(ContainElement(networkWrite))
	})

	It("is not started while a NetworkPolicy lets it use the network", func(ctx context.Context) {
		namespace := newNamespace(
			ctx,
			builder.Script("done", builder.Calls("count", "fetch")),
			secluded("count"),
			builder.JobTool("fetch", v1alpha1.SideEffectPure).Obj(),
		)
		create(ctx, &networkingv1.NetworkPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "names-for-all"},
			Spec: networkingv1.NetworkPolicySpec{
				PolicyTypes: []networkingv1.PolicyType{
					networkingv1.PolicyTypeEgress,
				},
				Egress: []networkingv1.NetworkPolicyEgressRule{{}},
			},
		})
		startedSession(ctx, namespace)
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())

		turn, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(
			turn.Status.ToolCalls[0],
		).To(And(HaveField("State", v1alpha1.ToolCallStateNotExecuted), HaveField("Reason", "NetworkOpen"),
			HaveField("Preview", ContainSubstring(`NetworkPolicy "names-for-all" permits network traffic of the tool's pod`))))
		Expect(turn.Status.ToolCalls[1]).To(HaveField("State", v1alpha1.ToolCallStateSucceeded))
		Expect(countOf(requests.in(namespace), jobWrite)).To(Equal(1))
	})
})

var _ = Describe("The example config/tool-network", func() {
	It(
		"selects the pods of tools, denies private addresses, and denies all traffic to tools without network",
		func(ctx context.Context) {
			cut := builder.JobTool("count", v1alpha1.SideEffectPure).Obj()
			cut.Spec.Job.Network = v1alpha1.NetworkReachNone
			namespace := newNamespace(
				ctx,
				builder.Script("done", builder.Calls("count", "fetch")),
				cut,
				builder.JobTool("fetch", v1alpha1.SideEffectPure).Obj(),
			)
			content, err := os.ReadFile("../../config/tool-network/network_policy.yaml")
			Expect(err).NotTo(HaveOccurred())
			policy := &networkingv1.NetworkPolicy{}
			Expect(yaml.UnmarshalStrict(content, policy)).To(Succeed())
			policy.Namespace = namespace
			create(ctx, policy)
			startedSession(ctx, namespace)
			create(ctx, builder.Turn("demo-1").In(namespace).Obj())
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
			turn, err := kit.Turn(ctx, namespace, "demo-1")()
			Expect(err).NotTo(HaveOccurred())
			Expect(
				turn.Status.ToolCalls,
			).To(
				HaveEach(HaveField("State", v1alpha1.ToolCallStateSucceeded)),
				"the tool without network is cut off, or it would not run",
			)

			selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
			Expect(err).NotTo(HaveOccurred())
			var pods corev1.PodList
			Expect(
				kit.Client.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: selector}),
			).To(Succeed())
			Expect(
				pods.Items,
			).To(ConsistOf(HaveField("Labels", HaveKeyWithValue(v1alpha1.LabelCall, "1-1"))), "the pod of fetch alone")
			Expect(policy.Spec.PolicyTypes).To(ConsistOf(networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress))
			Expect(policy.Spec.Ingress).To(BeEmpty())
			for _, address := range []string{
				"169.254.169.254", "10.96.0.1", "172.18.0.2", "192.168.0.1", "100.100.100.200", "168.63.129.16", "fd00:ec2::254",
				"fe80::1",
			} {
				Expect(reachable(policy, address)).To(BeFalse(), address)
			}
			for _, address := range []string{"93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"} {
				Expect(reachable(policy, address)).To(BeTrue(), address)
			}
		},
	)
})

// reachable reports whether a NetworkPolicy lets pods reach an address, by its ranges.
func reachable(policy *networkingv1.NetworkPolicy, address string) bool {
	GinkgoHelper()
	within := func(cidr string) bool {
		prefix, err := netip.ParsePrefix(cidr)
		Expect(err).NotTo(HaveOccurred())
		return prefix.Contains(netip.MustParseAddr(address))
	}
	for _, rule := range policy.Spec.Egress {
		for _, peer := range rule.To {
			if peer.IPBlock != nil && within(peer.IPBlock.CIDR) && !slices.ContainsFunc(peer.IPBlock.Except, within) {
				return true
			}
		}
	}
	return false
}

func countOf(writes []string, write string) int {
	return len(slices.DeleteFunc(slices.Clone(writes), func(w string) bool { return w != write }))
}
