package turns_test

import (
	"context"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// storageNamespace is a namespace with a Session that has a capability, and a model that makes the calls of a step in
// each Turn whose message has a key, and responds with the results of tools.
func storageNamespace(
	ctx context.Context, capability string, tools []string, steps map[string][]v1alpha1.SimulatedToolCall,
) string {
	GinkgoHelper()
	script := fileScript(steps)
	script.Response = builder.Fixed("{{tool:" + strings.Join(tools, "}}{{tool:") + "}}")
	namespace := newNamespace(ctx, script)
	session := builder.Session("demo").In(namespace).Obj()
	session.Spec.Capabilities = []v1alpha1.CapabilityReference{{Builtin: capability}}
	create(ctx, session)
	Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseStarted))
	return namespace
}

var _ = Describe("The values of a Session", func() {
	// Rules: KV-01.
	DescribeTable(
		"cost, beside a Turn with an act step",
		func(ctx context.Context, calls []v1alpha1.SimulatedToolCall, records []string, reads int) {
			namespace := storageNamespace(ctx, "session_storage", []string{"get_value", "set_value", "delete_value"},
				map[string][]v1alpha1.SimulatedToolCall{
					"first":  {fileCall("set_value", `{"key": "city", "value": "Bonn"}`)},
					"second": calls,
				})
			respond(ctx, namespace, "demo-1", "the first")
			Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseIdle))
			before, _ := requests.budgeted(namespace)
			readBefore := requests.reads(namespace)["records"]
			Expect(respond(ctx, namespace, "demo-2", "the second")).To(ContainSubstring(`"key":"city"`))
			expectWrites(ctx, namespace, len(before), ConsistOf(slices.Concat(
				beginning, []string{turnWrite, entryWrite, turnWrite, entryWrite}, records, ending)))
			Expect(requests.reads(namespace)["records"]-readBefore).To(Equal(reads), "reads of Records")
		},
		Entry("nothing to read a value, and a read of the index",
			[]v1alpha1.SimulatedToolCall{fileCall("get_value", `{"key": "city"}`)}, nil, 1),
		Entry("1 write to set a value",
			[]v1alpha1.SimulatedToolCall{fileCall("set_value", `{"key": "city", "value": "Köln"}`)},
			[]string{indexWrite}, 1),
		Entry("1 write for each change",
			[]v1alpha1.SimulatedToolCall{
				fileCall("delete_value", `{"key": "city"}`), fileCall("set_value", `{"key": "city", "value": "Köln"}`),
			}, []string{indexWrite, indexWrite}, 2),
	)
})
