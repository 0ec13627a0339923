package turns_test

import (
	"context"
	"encoding/json"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

var _ = Describe("Configuration", func() {
	// layered makes an Agent and a Session with prompts of a size, and a Tool with arguments and a Model with a script
	// of that size.
	layered := func(ctx context.Context, size int) string {
		GinkgoHelper()
		simulation := builder.Script("done", builder.Calls("work"))
		raw := `{"text":"` + strings.Repeat("s", size) + `"}`
		simulation.ToolCalls.Sequence[0].Calls[0].RawArguments = &raw
		definition := builder.JobTool("work", v1alpha1.SideEffectAtMostOnce).Obj()
		definition.Spec.InputSchema = &v1alpha1.JSON{Raw: []byte(`{"description":"` +
			strings.Repeat("i", min(size, 30<<10)) + `","properties":{"text":{"type":"string"}},"type":"object"}`)}
		for rest := size; rest > 0; rest -= 2 << 10 {
			definition.Spec.Job.Args = append(definition.Spec.Job.Args, strings.Repeat("a", min(rest, 2<<10)))
		}
		namespace := newNamespace(ctx, simulation, definition)
		harness := &v1alpha1.Harness{}
		Expect(kit.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "base"}, harness)).To(Succeed())
		without := client.MergeFrom(harness.DeepCopy())
		harness.Spec.SystemPrompt = "Harness: " + strings.Repeat("h", size)
		Expect(kit.Client.Patch(ctx, harness, without)).To(Succeed())
		create(
			ctx,
			builder.Agent("helper").
				In(namespace).
				Layer(v1alpha1.ConfigLayer{SystemPrompt: "Agent: " + strings.Repeat("g", size)}).
				Obj(),
		)
		session := builder.Session("demo").In(namespace).Obj()
		session.Spec.AgentRef = &v1alpha1.LocalReference{Name: "helper"}
		session.Spec.SystemPrompt = "Session: " + strings.Repeat("s", size)
		create(ctx, session)
		return namespace
	}
	promptOf := func(size int) string {
		return "Harness: " + strings.Repeat("h", size) + "\n\nAgent: " + strings.Repeat("g", size) +
			"\n\nSession: " + strings.Repeat("s", size)
	}
	play := func(ctx context.Context, namespace, name string) []capstantest.Prompt {
		GinkgoHelper()
		create(ctx, builder.Turn(name).In(namespace).Obj())
		given := prompts.of(ctx, namespace, name)
		Expect(given).To(HaveLen(2))
		return given
	}

	It("of a usual size costs no read", func(ctx context.Context) {
		const size = 1900
		namespace := layered(ctx, size)
		for _, name := range []string{"demo-1", "demo-2"} {
			Expect(play(ctx, namespace, name)[1].System).To(HavePrefix(promptOf(size)))
		}
		Expect(requests.configReads(namespace)).To(BeEmpty())
	})

	It("that is large is read once for all Turns, and again when it has changed", func(ctx context.Context) {
		const size = 60 << 10
		namespace := layered(ctx, size)
		once := map[string]int{
			"harnesses/base":   1,
			"agents/helper":    1,
			"sessions/demo":    1,
			"models/simulated": 1,
			"tools/work":       1,
		}
		for _, name := range []string{"demo-1", "demo-2"} {
			for _, given := range play(ctx, namespace, name) {
				Expect(given.System).To(HavePrefix(promptOf(size)))
			}
			Expect(requests.configReads(namespace)).To(Equal(once), "after "+name)
		}
		var made batchv1.JobList
		Expect(kit.Client.List(ctx, &made, client.InNamespace(namespace))).To(Succeed())
		Expect(made.Items).To(HaveLen(2))
		for _, job := range made.Items {
			raw, err := json.Marshal(job.Spec.Template.Spec.Containers)
			Expect(err).NotTo(HaveOccurred())
			Expect(strings.Count(string(raw), "a")).To(BeNumerically(">=", size))
		}

		agent := &v1alpha1.Agent{}
		Expect(kit.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "helper"}, agent)).To(Succeed())
		before := client.MergeFrom(agent.DeepCopy())
		agent.Spec.SystemPrompt = "Agent: changed " + strings.Repeat("g", size)
		Expect(kit.Client.Patch(ctx, agent, before)).To(Succeed())
		Expect(play(ctx, namespace, "demo-3")[0].System).To(ContainSubstring("Agent: changed ggg"))
		once["agents/helper"] = 2
		Expect(requests.configReads(namespace)).To(Equal(once), "after the change")
	})
})
