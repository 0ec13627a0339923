//go:build e2e

package e2e_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

var _ = Describe("The launcher", alone, func() {
	It(
		"is delivered by an init container on a cluster without image volumes",
		SpecTimeout(crashLimit),
		func(ctx SpecContext) {
			runManagerWith(ctx, "--launcher-delivery=InitContainer")
			namespace := newStage(
				ctx,
				builder.Script(
					"{{tool:read}} {{tool:send}}",
					calls{call("read", arguments{"expression": "6*7"}), call("send", arguments{"expression": "7*7"})},
				),
				toolbox("read", "calculate", v1alpha1.SideEffectPure),
				toolbox("send", "calculate", v1alpha1.SideEffectAtMostOnce),
			)
			answer := answered(ctx, namespace, "demo-1")
			Expect(answer.Status.Output).To(Equal("42 49"))
			pods := podsOf(ctx, answer)
			Expect(pods).To(HaveLen(2))
			for i := range pods {
				Expect(pods[i].Spec.InitContainers).To(HaveLen(1))
				for _, volume := range pods[i].Spec.Volumes {
					Expect(volume.Image).To(BeNil(), volume.Name)
				}
				expectRestricted(&pods[i])
			}
		},
	)
})
