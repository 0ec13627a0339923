package cli_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/test/internal/suite"
)

// registering is a model that registers a resource in each Turn.
func registering() v1alpha1.Simulation {
	return v1alpha1.Simulation{
		Response: &v1alpha1.SimulatedResponse{Text: "registered"},
		ToolCalls: &v1alpha1.SimulatedToolCalls{Conditional: []v1alpha1.SimulatedRule{{
			Contains: "start", Sequence: []v1alpha1.SimulatedStep{{Calls: []v1alpha1.SimulatedToolCall{{
				Name: "register_resource",
				Arguments: &v1alpha1.JSON{
					Raw: []byte(`{"id": "box/1", "kind": "sandbox", "metadata": {"note": "one\u001b[31m\ntwo"}}`),
				},
			}}}},
		}}},
	}
}

var _ = Describe("resources", func() {
	// Rules: RES-01.
	It("are listed and selected, at the manager and without it", func(ctx context.Context) {
		namespace := suite.Namespace(ctx, kit.Client, "cli-")
		suite.Create(ctx, kit.Client, builder.Stage(namespace, registering())...)
		session := builder.Session("demo").In(namespace).Obj()
		session.Spec.Capabilities = []v1alpha1.CapabilityReference{{Builtin: "session_resources"}}
		suite.Create(ctx, kit.Client, session)
		_, edits := tokenUser(ctx, namespace, "capstan-edit")
		_, views := certificateUser(ctx, namespace, "capstan-view")
		ann, ben := as(edits, namespace), as(views, namespace)
		Expect(ben.Run(ctx, "resources", "demo").Out).To(Equal("no resources are registered\n"))
		Expect(ann.Run(ctx, "ask", "demo", "start").Code).To(Equal(0))

		for _, manager := range []string{"capstan-system", "nowhere"} {
			at := []string{"--manager-namespace", manager, "resources", "demo"}
			for _, of := range [][]string{nil, {"--kind", "sandbox", "--status", "active"}} {
				Expect(ben.Run(ctx, append(at, of...)...).Out).To(And(
					MatchRegexp(`^ID +KIND +STATUS +UPDATED +METADATA\nbox/1 +sandbox +active +20\S+ +note=one.* two\n$`),
					Not(ContainSubstring("\x1b"))))
			}
			for _, of := range [][]string{{"--kind", "browser"}, {"--kind", "sandbox", "--status", "failed"}} {
				Expect(ben.Run(ctx, append(at, of...)...).Out).To(Equal("no resources are registered\n"))
			}
			Expect(ben.Run(ctx, append(at, "-o", "json")...).Out).To(ContainSubstring(`"id":"box/1"`))
		}
		Expect(ben.Run(ctx, "resources", "demo", "--status", "odd").Err).To(ContainSubstring("--status is active"))
	})
})
