package cli_test

import (
	"context"
	"regexp"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/test/internal/suite"
)

// remembering is a model that remembers something in each Turn that it is told to keep.
func remembering() v1alpha1.Simulation {
	return v1alpha1.Simulation{
		Response: &v1alpha1.SimulatedResponse{Text: "remembered"},
		ToolCalls: &v1alpha1.SimulatedToolCalls{Conditional: []v1alpha1.SimulatedRule{{
			Contains: "keep", Sequence: []v1alpha1.SimulatedStep{{Calls: []v1alpha1.SimulatedToolCall{{
				Name: "create_memory",
				Arguments: &v1alpha1.JSON{
					Raw: []byte(`{"content": "one\u001b[31m\ntwo", "kind": "preference", "tags": ["Home"]}`),
				},
			}}}},
		}}},
	}
}

var _ = Describe("memory", func() {
	// Rules: SVC-03.
	It("is listed, printed and forgotten, and read without the manager", func(ctx context.Context) {
		namespace := suite.Namespace(ctx, kit.Client, "cli-")
		suite.Create(ctx, kit.Client, builder.Stage(namespace, remembering())...)
		session := builder.Session("demo").In(namespace).Obj()
		session.Spec.Capabilities = []v1alpha1.CapabilityReference{{Builtin: "memory"}}
		suite.Create(ctx, kit.Client, session)
		_, edits := tokenUser(ctx, namespace, "capstan-edit")
		_, views := certificateUser(ctx, namespace, "capstan-view")
		ann, ben := as(edits, namespace), as(views, namespace)
		Expect(ben.Run(ctx, "memory", "ls", "demo").Out).To(Equal("nothing is remembered\n"))
		Expect(ann.Run(ctx, "ask", "demo", "keep").Code).To(Equal(0))

		id := regexp.MustCompile(`mem-[0-9a-f]{16}`).FindString(ben.Run(ctx, "memory", "ls", "demo").Out)
		Expect(id).NotTo(BeEmpty())
		for _, manager := range []string{"capstan-system", "nowhere"} {
			at := []string{"--manager-namespace", manager}
			Expect(ben.Run(ctx, append(at, "memory", "ls", "demo")...).Out).To(And(
				MatchRegexp(`^ID +KIND +CREATED +FORGOTTEN +TAGS +CONTENT\n`+id+` +preference +20\S+ +home +one.* two\n$`),
				Not(ContainSubstring("\x1b"))))
			Expect(ben.Run(ctx, append(at, "memory", "ls", "demo", "-o", "json")...).Out).
				To(ContainSubstring(`"content":"one\u001b[31m\ntwo"`))
			Expect(ben.Run(ctx, append(at, "memory", "get", "demo", id)...).Out).To(And(
				MatchRegexp(`id +`+id+`\nkind +preference\ncreated +20\S+\ntags +home\n`),
				ContainSubstring(`one\x1b[31m`)))
			none := ben.Run(ctx, append(at, "memory", "get", "demo", "mem-none")...)
			Expect(none.Code).To(Equal(1))
			Expect(none.Err).To(ContainSubstring(`there is no memory "mem-none"`))
		}
		refused := ben.Run(ctx, "memory", "forget", "demo", id)
		Expect(refused.Code).To(Equal(1))
		Expect(refused.Err).To(ContainSubstring(`cannot delete resource "sessions/memory"`))
		Expect(ann.Run(ctx, "--manager-namespace", "nowhere", "memory", "forget", "demo", id).Code).To(Equal(1))
		Expect(ann.Run(ctx, "memory", "forget", "demo", id).Out).To(Equal(id + " is forgotten.\n"))
		Expect(ben.Run(ctx, "memory", "ls", "demo").Out).To(Equal("nothing is remembered\n"))
		Expect(ben.Run(ctx, "memory", "ls", "demo", "--all").Out).
			To(MatchRegexp(id + ` +preference +20\S+ +20\S+ +home `))
	})
})
