package turns_test

import (
	"context"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// buildTool is a Job tool that gets the files in /src, and returns those in /src and /bin.
func buildTool(class v1alpha1.SideEffect) *v1alpha1.Tool {
	tool := builder.JobTool("build", class).Obj()
	tool.Spec.Job.Files = &v1alpha1.JobFiles{
		Inputs: []v1alpha1.JobFilePath{"/src"}, Outputs: []v1alpha1.JobFilePath{"/src", "/workspace/bin"},
	}
	return tool
}

// buildNamespace is a namespace with a Session that has a file /src/a, and a model that calls the tool.
func buildNamespace(ctx context.Context, tool *v1alpha1.Tool, build ...v1alpha1.SimulatedToolCall) string {
	GinkgoHelper()
	large := strings.Repeat("x", 90_000)
	script := fileScript(map[string][]v1alpha1.SimulatedToolCall{
		"write": {fileCall("write_file", `{"path": "/src/a", "content": "source"}`)},
		"build": build,
		"read":  {fileCall("read_file", `{"path": "/bin/a"}`)},
		"more": {
			fileCall("write_file", `{"path": "/src/b", "content": "`+large+`"}`),
			fileCall("write_file", `{"path": "/src/c", "content": "`+large+`"}`),
		},
	})
	script.Response = builder.Fixed("Told: {{tool:build}}{{tool:read_file}}")
	namespace := newNamespace(ctx, script, tool)
	session := builder.Session("demo").In(namespace).Obj()
	session.Spec.Capabilities = []v1alpha1.CapabilityReference{{Builtin: "session_file_system"}}
	create(ctx, session)
	Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseStarted))
	respond(ctx, namespace, "demo-1", "write")
	Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseIdle))
	return namespace
}

var _ = Describe("The files of a Job", func() {
	DescribeTable(
		"cost 1 write, and 1 for each that is larger than 4 KiB",
		func(ctx context.Context, class v1alpha1.SideEffect) {
			namespace := buildNamespace(ctx, buildTool(class), builder.Call("build"))
			jobs.In(namespace, func(call capstantest.Call) (string, string, int) {
				call.Files["/bin/a"] = append([]byte("built of "), call.Files["/src/a"]...)
				call.Files["/bin/large"] = []byte(strings.Repeat("x", 5_000))
				return "built", "", 0
			})
			before := len(requests.in(namespace))
			Expect(respond(ctx, namespace, "demo-2", "build")).To(HavePrefix("Told: built"))
			expectWrites(ctx, namespace, before, ConsistOf(slices.Concat(
				beginning, actingFirst(1, class), []string{blobWrite, indexWrite}, ending)))
			Expect(respond(ctx, namespace, "demo-3", "read")).To(ContainSubstring(`"content":"built of source"`))
		},
		Entry("of a Pure tool", v1alpha1.SideEffectPure),
		Entry("of an AtMostOnce tool", v1alpha1.SideEffectAtMostOnce),
	)

	It("are not written over what has changed meanwhile, which the result names", func(ctx context.Context) {
		namespace := buildNamespace(ctx, buildTool(v1alpha1.SideEffectPure), builder.Call("build"),
			fileCall("write_file", `{"path": "/src/a", "content": "newer"}`))
		jobs.In(namespace, func(call capstantest.Call) (string, string, int) {
			indexes := func() int { return strings.Count(strings.Join(requests.in(namespace), "\n"), indexWrite) }
			Eventually(indexes).Should(Equal(1), "the other call of the step has not written its file")
			call.Files["/src/a"] = []byte("formatted")
			return "built", "", 0
		})
		Expect(respond(ctx, namespace, "demo-2", "build")).To(
			HavePrefix("Told: built\n\n[Not copied to the session: /src/a (changed meanwhile).]"))
	})

	It("that are too large keep the call from starting", func(ctx context.Context) {
		namespace := buildNamespace(ctx, buildTool(v1alpha1.SideEffectAtMostOnce), builder.Call("build"))
		respond(ctx, namespace, "demo-2", "more")
		respond(ctx, namespace, "demo-3", "build")
		Expect(kit.Turn(ctx, namespace, "demo-3")()).To(capstantest.HaveToolCall(
			"build", v1alpha1.ToolCallStateNotExecuted, v1alpha1.ToolCallReasonFilesTooLarge))
		var made batchv1.JobList
		Expect(kit.Client.List(ctx, &made, client.InNamespace(namespace))).To(Succeed())
		Expect(made.Items).To(BeEmpty())
	})
})
