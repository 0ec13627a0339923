package turns_test

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

var _ = Describe("The memory of a Session", func() {
	// Rules: SVC-03.
	DescribeTable(
		"costs, beside a Turn with an act step",
		func(ctx context.Context, calls []v1alpha1.SimulatedToolCall, want string, records []string, reads int) {
			namespace := storageNamespace(ctx, "memory", []string{"create_memory", "recall_memories", "forget_memory"},
				map[string][]v1alpha1.SimulatedToolCall{
					"first":  {fileCall("create_memory", `{"content": "Ann lives in Bonn.", "tags": ["home"]}`)},
					"second": calls,
				})
			respond(ctx, namespace, "demo-1", "the first")
			Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseIdle))
			before, _ := requests.budgeted(namespace)
			readBefore := requests.reads(namespace)["records"]
			Expect(respond(ctx, namespace, "demo-2", "the second")).To(ContainSubstring(want))
			expectWrites(ctx, namespace, len(before), ConsistOf(slices.Concat(
				beginning, []string{turnWrite, entryWrite, turnWrite, entryWrite}, records, ending)))
			Expect(requests.reads(namespace)["records"]-readBefore).To(Equal(reads), "reads of Records")
		},
		Entry("nothing to recall, and a read of the index",
			[]v1alpha1.SimulatedToolCall{fileCall("recall_memories", `{"query": "Bonn"}`)},
			`"content":"Ann lives in Bonn."`, nil, 1),
		Entry("1 write to remember something",
			[]v1alpha1.SimulatedToolCall{fileCall("create_memory", `{"content": "Ben lives in Köln."}`)},
			`"id":"mem-`, []string{indexWrite}, 1),
		Entry("nothing to forget what does not exist, and a read of the index",
			[]v1alpha1.SimulatedToolCall{fileCall("forget_memory", `{"id": "mem-0000000000000000"}`)},
			`"existed":false`, nil, 1),
	)
})
