//go:build e2e

package e2e_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

var _ = Describe("The files of a Session", func() {
	It("are written by the model, changed by a Job, and read again", SpecTimeout(specLimit), func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		edit := toolbox("edit", "append", v1alpha1.SideEffectAtMostOnce)
		edit.Spec.Job.Files = &v1alpha1.JobFiles{
			Inputs: []v1alpha1.JobFilePath{"/src"}, Outputs: []v1alpha1.JobFilePath{"/src"},
		}
		script := builder.Script(
			"{{tool:read_file}}",
			calls{
				call("write_file", arguments{"path": "/src/main.txt", "content": "first\n"}),
			},
			calls{
				call("edit", arguments{"path": "src/main.txt", "line": "second"}),
				call("emit", arguments{"bytes": 200_000}),
			},
			calls{call("read_file", arguments{"path": "/src/main.txt"})},
		)
		for _, object := range builder.Stage(
			namespace, script, edit, toolbox("emit", "emit", v1alpha1.SideEffectPure),
		) {
			create(ctx, object)
		}
		session := builder.Session("demo").In(namespace).Obj()
		session.Spec.Capabilities = []v1alpha1.CapabilityReference{{Builtin: "session_file_system"}}
		create(ctx, session)
		ended := answered(ctx, namespace, "demo-1")
		Expect(ended.Status.Output).To(ContainSubstring(`"content":"first\nsecond\n"`))
		Expect(resultText(outcomes(ctx, ended)["edit"])).To(Equal("appended\n"))
		Expect(resultText(outcomes(ctx, ended)["emit"])).To(
			ContainSubstring("of 200000 bytes. It is complete in the file /outputs/demo-1."))
	})
})
