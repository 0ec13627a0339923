package turns_test

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
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

	// Rules: SVC-03.
	It("is used by the Sessions that it is shared with, and by no other one", func(ctx context.Context) {
		steps := map[string][]v1alpha1.SimulatedToolCall{
			"note":   {fileCall("create_memory", `{"content": "Ann lives in Bonn."}`)},
			"recall": {fileCall("recall_memories", `{}`)},
			"forget": {fileCall("forget_memory", `{"id": "mem-0000000000000000"}`)},
		}
		script := fileScript(steps)
		script.Response = builder.Fixed("{{tool:create_memory}}{{tool:recall_memories}}{{tool:forget_memory}}")
		namespace := newNamespace(ctx, script)
		elsewhere := newNamespace(ctx, script)
		for name, config := range map[string]string{
			"keeper": `{"share": "Namespace"}`, "reader": `{"session": "keeper"}`, "private": "",
			"curious": `{"session": "private"}`,
		} {
			session := builder.Session(name).In(namespace).Obj()
			session.Spec.Capabilities = []v1alpha1.CapabilityReference{{Builtin: "memory"}}
			if config != "" {
				session.Spec.Capabilities[0].Config = &v1alpha1.JSON{Raw: []byte(config)}
			}
			create(ctx, session)
		}
		foreign := builder.Session("reader").In(elsewhere).Obj()
		foreign.Spec.Capabilities = []v1alpha1.CapabilityReference{
			{Builtin: "memory", Config: &v1alpha1.JSON{Raw: []byte(`{"session": "keeper"}`)}},
		}
		create(ctx, foreign)
		says := func(namespace, session, text string) string {
			turn := builder.Turn(session + "-" + text).In(namespace).Session(session).Input(text).Obj()
			create(ctx, turn)
			return finished(ctx, namespace, turn.Name).Status.Output
		}
		Expect(says(namespace, "reader", "note")).To(ContainSubstring(`"id":"mem-`))
		Expect(says(namespace, "keeper", "recall")).To(ContainSubstring("Ann lives in Bonn."))
		Expect(says(namespace, "reader", "recall")).To(ContainSubstring("Ann lives in Bonn."))
		Expect(says(namespace, "private", "recall")).To(ContainSubstring(`"matches":0`))
		const refused = "does not exist, or does not share its memory with this one"
		for _, text := range []string{"note", "recall", "forget"} {
			Expect(says(namespace, "curious", text)).To(ContainSubstring(refused))
			Expect(says(elsewhere, "reader", text)).To(ContainSubstring(refused))
		}
		Expect(recordsOf(ctx, namespace)).To(HaveEach(HaveField("Spec.Session", "keeper")))
		Expect(recordsOf(ctx, elsewhere)).To(BeEmpty())
	})
})
