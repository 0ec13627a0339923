//go:build e2e

package e2e_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// That packets are stopped is up to the network plugin of the cluster, and the plain bridge of this one stops none.
var _ = Describe("A network access list", func() {
	It(
		"keeps a Session waiting until its Jobs have no network, and then lets them run",
		SpecTimeout(specLimit),
		func(ctx SpecContext) {
			namespace := newStage(ctx,
				builder.Script("{{tool:echo}}", calls{call("echo", arguments{"text": "hello"})}),
				toolbox("echo", "echo", v1alpha1.SideEffectAtMostOnce))
			kubectl(ctx, "wait", "--namespace", namespace, "session/demo", "--for=condition=Ready", "--timeout=30s")
			kubectl(
				ctx,
				"patch",
				"--namespace",
				namespace,
				"session/demo",
				"--type=merge",
				"--patch",
				`{"spec":{"networkAccess":{"allowed":["*.example.org"]}}}`,
			)
			kubectl(ctx, "wait", "--namespace", namespace, "session/demo", "--for=condition=Ready=false", "--timeout=30s")
			show("a Session that cannot be used", kubectl(ctx, "get", "--namespace", namespace, "sessions", "--output=wide"))
			ask(ctx, namespace, "demo-1")

			kubectl(
				ctx,
				"patch",
				"--namespace",
				namespace,
				"tool/echo",
				"--type=merge",
				"--patch",
				`{"spec":{"job":{"network":"None"}}}`,
			)
			answer := succeeded(ctx, namespace, "demo-1")
			pods := podsOf(ctx, answer)
			Expect(pods).To(HaveLen(1))
			Expect(pods[0].Labels).To(HaveKeyWithValue(v1alpha1.LabelNetwork, string(v1alpha1.NetworkReachNone)))
			policy := &networkingv1.NetworkPolicy{ObjectMeta: named(namespace, v1alpha1.NetworkPolicyNone)}
			Expect(api.Get(ctx, keyOf(policy), policy)).To(Succeed())
			Expect(
				policy.CreationTimestamp.Time,
			).NotTo(BeTemporally(">", pods[0].CreationTimestamp.Time), "the pod is older than the policy that isolates it")
		},
	)
})
