package cli_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/test/internal/suite"
)

// storing is a model that sets a value in each Turn.
func storing() v1alpha1.Simulation {
	return v1alpha1.Simulation{
		Response: &v1alpha1.SimulatedResponse{Text: "stored"},
		ToolCalls: &v1alpha1.SimulatedToolCalls{Conditional: []v1alpha1.SimulatedRule{{
			Contains: "keep", Sequence: []v1alpha1.SimulatedStep{{Calls: []v1alpha1.SimulatedToolCall{{
				Name:      "set_value",
				Arguments: &v1alpha1.JSON{Raw: []byte(`{"key": "notes/a b", "value": "one\u001b[31m\ntwo"}`)},
			}}}},
		}}},
	}
}

var _ = Describe("storage", func() {
	// Rules: KV-01.
	It("is listed and printed, at the manager and without it", func(ctx context.Context) {
		namespace := suite.Namespace(ctx, kit.Client, "cli-")
		suite.Create(ctx, kit.Client, builder.Stage(namespace, storing())...)
		session := builder.Session("demo").In(namespace).Obj()
		session.Spec.Capabilities = []v1alpha1.CapabilityReference{{Builtin: "session_storage"}}
		suite.Create(ctx, kit.Client, session)
		_, edits := tokenUser(ctx, namespace, "capstan-edit")
		_, views := certificateUser(ctx, namespace, "capstan-view")
		ann, ben := as(edits, namespace), as(views, namespace)
		Expect(ben.Run(ctx, "storage", "ls", "demo").Out).To(Equal("nothing is stored\n"))
		Expect(ann.Run(ctx, "ask", "demo", "keep").Code).To(Equal(0))

		for _, manager := range []string{"capstan-system", "nowhere"} {
			at := []string{"--manager-namespace", manager}
			for _, of := range [][]string{{"demo"}, {"demo", "values"}} {
				list := ben.Run(ctx, append(append(at, "storage", "ls"), of...)...)
				Expect(list.Out).To(MatchRegexp(`^SERVICE +KEY +BYTES +CHANGED\nvalues +notes/a b +12 +20`))
			}
			Expect(ben.Run(ctx, append(at, "storage", "ls", "demo", "-o", "json")...).Out).
				To(ContainSubstring(`"key":"notes/a b"`))
			Expect(ben.Run(ctx, append(at, "storage", "get", "demo", "values", "notes/a b")...).Out).
				To(Equal("one\x1b[31m\ntwo"))
			none := ben.Run(ctx, append(at, "storage", "get", "demo", "values", "none")...)
			Expect(none.Code).To(Equal(1))
			Expect(none.Err).To(ContainSubstring(`no "none" in values`))
			Expect(ben.Run(ctx, append(at, "storage", "ls", "demo", "nothing")...).Err).
				To(ContainSubstring(`the service "nothing" does not exist`))
		}
		t := ben.Open(ctx, "storage", "get", "demo", "values", "notes/a b")
		Expect(t.Code()).To(Equal(0))
		Expect(t.Text()).To(ContainSubstring(`one\x1b[31m`))
	})
})
