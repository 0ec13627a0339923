package gitops_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
)

var _ = Describe("A Turn", func() {
	It("is progressing until it waits for somebody, and finished once it has answered", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		first := turn(namespace, "demo-1")
		talk := session(namespace)
		create(ctx, first, talk)
		Eventually(record.story(talk)).Should(HaveExactElements(progressing))
		harness := stage(
			ctx,
			namespace,
			simulation("{{tool:look}} {{tool:ask}}", "look", "ask"),
			jobTool("look"),
			clientTool("ask"),
		)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForTools("ask"))
		answer := toolResult(namespace, "answer", "demo-1", "2-0")
		create(ctx, answer)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())

		Eventually(record.story(first)).Should(HaveExactElements(progressing, suspended, progressing, finished))
		Eventually(record.story(talk)).Should(HaveExactElements(progressing, finished))
		Eventually(record.story(answer)).Should(HaveExactElements(progressing, finished))
		Eventually(record.story(harness)).Should(HaveExactElements(progressing, finished))
	})

	It(
		"is suspended while it waits for an approval, and progressing while what was approved runs",
		func(ctx context.Context) {
			namespace := newNamespace(ctx)
			guarded := jobTool("pay")
			guarded.Spec.Policy = v1alpha1.ToolPolicyRequiresApproval
			stage(ctx, namespace, simulation("{{tool:pay}}", "pay"), guarded)
			first := turn(namespace, "demo-1")
			create(ctx, session(namespace), first)
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForApproval("pay"))
			Eventually(record.story(first)).Should(HaveExactElements(progressing, suspended))
			waiting, err := kit.Turn(ctx, namespace, "demo-1")()
			Expect(err).NotTo(HaveOccurred())
			yes := capstantest.Decision(waiting, "1-0", v1alpha1.DecisionApprove, "ann")
			create(ctx, yes)
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
			Eventually(record.story(first)).Should(HaveExactElements(progressing, suspended, progressing, finished))
			Eventually(record.story(yes)).Should(HaveExactElements(progressing, finished))
		},
	)

	It("is suspended while its spec says so", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		stage(ctx, namespace, simulation("Hello."))
		first := turn(namespace, "demo-1")
		first.Spec.Suspend = new(true)
		create(ctx, session(namespace), first)
		Eventually(record.story(first)).Should(HaveExactElements(progressing, suspended))
		change(ctx, first, func(t *v1alpha1.Turn) { t.Spec.Suspend = nil })
		Eventually(record.story(first)).Should(HaveExactElements(progressing, suspended, progressing, finished))
	})

	It("has failed when the model fails", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		stage(
			ctx,
			namespace,
			v1alpha1.Simulation{
				Response: &v1alpha1.SimulatedResponse{Type: v1alpha1.SimulatedResponseTypeError, Text: "the model is broken"},
			},
		)
		first := turn(namespace, "demo-1")
		create(ctx, session(namespace), first)
		Eventually(record.story(first)).Should(HaveExactElements(progressing, failed))
		turn, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(turn.Status.Phase).To(Equal(v1alpha1.TurnPhaseFailed))
	})

	It("has failed when its Harness is archived", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		harness := stage(ctx, namespace, simulation("Hello."))
		change(ctx, harness, func(h *v1alpha1.Harness) { h.Spec.Lifecycle = v1alpha1.LifecycleArchived })
		first := turn(namespace, "demo-1")
		create(ctx, session(namespace), first)
		Eventually(record.story(first)).Should(HaveExactElements(progressing, failed))
	})

	It("has failed when it is cancelled while it waits", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		stage(ctx, namespace, simulation("{{tool:ask}}", "ask"), clientTool("ask"))
		first := turn(namespace, "demo-1")
		create(ctx, session(namespace), first)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForTools("ask"))
		change(ctx, first, func(t *v1alpha1.Turn) { t.Spec.DesiredState = v1alpha1.DesiredStateCancelled })
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveFailed(v1alpha1.ReasonCancelled))
		Eventually(record.story(first)).Should(HaveExactElements(progressing, suspended, progressing, failed))
	})
})

var _ = Describe("A message that steers", func() {
	It("is finished once it is in the Turn that runs", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		stage(ctx, namespace, simulation("{{tool:ask}}", "ask"), clientTool("ask"))
		first, steer := turn(namespace, "demo-1"), turn(namespace, "demo-2")
		steer.Spec.Delivery = v1alpha1.DeliverySteer
		create(ctx, session(namespace), first)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForTools("ask"))
		create(ctx, steer)
		Eventually(kit.Turn(ctx, namespace, "demo-2")).Should(capstantest.HaveSteered("demo-1"))
		Eventually(record.story(first)).Should(HaveExactElements(progressing, suspended, progressing, finished))
		Eventually(record.story(steer)).Should(HaveExactElements(progressing, finished))
	})
})

var _ = Describe("A Turn that has ended", func() {
	It("is finished when it is created again, and has failed with another message", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		stage(ctx, namespace, simulation("Hello."))
		first, again, other := turn(namespace, "demo-1"), turn(namespace, "demo-1"), turn(namespace, "demo-1")
		other.Spec.Input = "Something else."
		create(ctx, session(namespace), first)
		Eventually(record.story(first)).Should(HaveExactElements(progressing, finished))
		Expect(kit.Client.Delete(ctx, first)).To(Succeed())
		create(ctx, again)
		Eventually(record.story(again)).Should(HaveExactElements(progressing, finished))
		Expect(
			kit.Turn(ctx, namespace, "demo-1")(),
		).To(HaveField("Status.Conditions", ContainElement(HaveField("Reason", v1alpha1.ReasonAlreadyRan))))
		Expect(kit.Client.Delete(ctx, again)).To(Succeed())
		create(ctx, other)
		Eventually(record.story(other)).Should(HaveExactElements(progressing, failed))
		Expect(
			kit.Turn(ctx, namespace, "demo-1")(),
		).To(HaveField("Status.Conditions", ContainElement(HaveField("Reason", v1alpha1.ReasonNameReused))))
	})

	It("stays finished when it is cancelled afterwards", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		stage(ctx, namespace, simulation("Hello."))
		first := turn(namespace, "demo-1")
		create(ctx, session(namespace), first)
		Eventually(record.story(first)).Should(HaveExactElements(progressing, finished))
		change(ctx, first, func(t *v1alpha1.Turn) { t.Spec.DesiredState = v1alpha1.DesiredStateCancelled })
		Eventually(record.story(first)).Should(HaveExactElements(progressing, finished, progressing, finished))
	})
})

var _ = Describe("A Turn that is restored with its status", func() {
	It("is not run again, although its Session is a new one", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		stage(ctx, namespace, simulation("Hello."))
		first := turn(namespace, "demo-1")
		create(ctx, session(namespace), first)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		backup, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())

		elsewhere := newNamespace(ctx)
		restored := turn(elsewhere, "demo-1")
		create(ctx, session(elsewhere), restored)
		// The manager may say meanwhile what the Turn waits for.
		Eventually(func() error {
			if err := kit.Client.Get(ctx, client.ObjectKeyFromObject(restored), restored); err != nil {
				return err
			}
			restored.Status = backup.Status
			return kit.Client.Status().Update(ctx, restored)
		}).Should(Succeed())
		stage(ctx, elsewhere, simulation("Hello again."))
		create(ctx, turn(elsewhere, "demo-2"))
		Eventually(kit.Turn(ctx, elsewhere, "demo-2")).Should(capstantest.HaveSucceeded())
		Expect(record.story(restored)()).To(HaveExactElements(progressing, finished))
		again, err := kit.Turn(ctx, elsewhere, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(again.ResourceVersion).To(Equal(restored.ResourceVersion))
	})
})

var _ = Describe("A ToolResult", func() {
	It("is progressing while its Turn is missing, and has failed once it is refused", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		early := toolResult(namespace, "early", "demo-1", "9-0")
		create(ctx, early)
		Eventually(acceptedReason(ctx, early)).Should(Equal(v1alpha1.ReasonTurnNotFound))
		stage(ctx, namespace, simulation("{{tool:ask}}", "ask"), clientTool("ask"))
		create(ctx, session(namespace), turn(namespace, "demo-1"))
		Eventually(acceptedReason(ctx, early)).Should(Equal(v1alpha1.ReasonUnknownCall))
		Eventually(record.story(early)).Should(HaveExactElements(progressing, failed))
	})
})

var _ = Describe("A Session", func() {
	It("is progressing again when something that it names goes away", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		tool := clientTool("ask")
		stage(ctx, namespace, simulation("Hello."), tool)
		talk := session(namespace)
		create(ctx, talk)
		Eventually(record.story(talk)).Should(HaveExactElements(progressing, finished))
		Expect(kit.Client.Delete(ctx, tool)).To(Succeed())
		Eventually(record.story(talk)).Should(HaveExactElements(progressing, finished, progressing))
	})

	It("is progressing while its network access list cannot hold a Job, as its Harness is", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		tool := jobTool("look")
		harness := stage(ctx, namespace, simulation("{{tool:look}}", "look"), tool)
		talk := session(namespace)
		create(ctx, talk)
		Eventually(record.story(talk)).Should(HaveExactElements(progressing, finished))
		Eventually(record.story(harness)).Should(HaveExactElements(progressing, finished))
		change(ctx, harness, func(h *v1alpha1.Harness) {
			h.Spec.NetworkAccess = &v1alpha1.NetworkAccess{Blocked: []v1alpha1.NetworkPattern{"*.example.org"}}
		})
		Eventually(record.story(talk)).Should(HaveExactElements(progressing, finished, progressing))
		Expect(
			reason(ctx, talk, v1alpha1.ConditionReady, &talk.Status.Conditions),
		).To(Equal(v1alpha1.ReasonNetworkAccessUnenforceable))
		Eventually(readyReason(ctx, harness)).Should(Equal(v1alpha1.ReasonNetworkAccessUnenforceable))
		change(ctx, tool, func(t *v1alpha1.Tool) { t.Spec.Job.Network = v1alpha1.NetworkReachNone })
		Eventually(record.story(talk)).Should(HaveExactElements(progressing, finished, progressing, finished))
		Eventually(record.story(harness)).Should(HaveExactElements(progressing, finished, progressing, finished))
	})

	It("is progressing until its change is seen", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		stage(ctx, namespace, simulation("Hello."))
		talk := session(namespace)
		create(ctx, talk)
		Eventually(record.story(talk)).Should(HaveExactElements(progressing, finished))
		change(ctx, talk, func(s *v1alpha1.Session) { s.Spec.SystemPrompt = "You answer at length." })
		Eventually(record.story(talk)).Should(HaveExactElements(progressing, finished, progressing, finished))
	})
})

var _ = Describe("A Tool", func() {
	It("has failed while its schema is none, and can be mended", func(ctx context.Context) {
		tool := clientTool("ask")
		tool.Namespace = newNamespace(ctx)
		tool.Spec.InputSchema = &v1alpha1.JSON{Raw: []byte(`{"type":"object","properties":{"text":{"type":"words"}}}`)}
		dependent := &v1alpha1.Harness{
			ObjectMeta: named(tool.Namespace, "base"),
			Spec:       v1alpha1.HarnessSpec{ConfigLayer: v1alpha1.ConfigLayer{Tools: []v1alpha1.LocalReference{{Name: "ask"}}}},
		}
		create(ctx, tool, dependent)
		Eventually(record.story(tool)).Should(HaveExactElements(progressing, failed))
		Eventually(record.story(dependent)).Should(HaveExactElements(progressing))
		change(ctx, tool, func(t *v1alpha1.Tool) { t.Spec.InputSchema = nil })
		Eventually(record.story(tool)).Should(HaveExactElements(progressing, failed, progressing, finished))
		Eventually(record.story(dependent)).Should(HaveExactElements(progressing, finished))
	})
})

var _ = Describe("A Model", func() {
	It("has failed when the manager does not know its provider", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		model := &v1alpha1.Model{ObjectMeta: named(namespace, "strange"), Spec: elsewhere()}
		agent := &v1alpha1.Agent{
			ObjectMeta: named(namespace, "helper"),
			Spec: v1alpha1.AgentSpec{
				ConfigLayer: v1alpha1.ConfigLayer{ModelRef: &v1alpha1.LocalReference{Name: "strange"}},
			},
		}
		create(ctx, model, agent)
		Eventually(record.story(model)).Should(HaveExactElements(progressing, failed))
		Eventually(record.story(agent)).Should(HaveExactElements(progressing))
		change(ctx, model, func(m *v1alpha1.Model) {
			m.Spec = v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderSimulated, Simulation: &v1alpha1.Simulation{}}
		})
		Eventually(record.story(model)).Should(HaveExactElements(progressing, failed, progressing, finished))
		Eventually(record.story(agent)).Should(HaveExactElements(progressing, finished))
	})
})

var _ = Describe("A Harness", func() {
	It("is progressing until its parent comes", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		child := &v1alpha1.Harness{
			ObjectMeta: named(namespace, "child"),
			Spec:       v1alpha1.HarnessSpec{ParentRef: &v1alpha1.LocalReference{Name: "base"}},
		}
		create(ctx, child)
		Eventually(readyReason(ctx, child)).Should(Equal(v1alpha1.ReasonHarnessNotFound))
		create(ctx, &v1alpha1.Harness{ObjectMeta: named(namespace, "base")})
		Eventually(record.story(child)).Should(HaveExactElements(progressing, finished))
	})

	It("has failed when it is its own ancestor", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		loop := &v1alpha1.Harness{
			ObjectMeta: named(namespace, "loop"),
			Spec:       v1alpha1.HarnessSpec{ParentRef: &v1alpha1.LocalReference{Name: "back"}},
		}
		back := &v1alpha1.Harness{
			ObjectMeta: named(namespace, "back"),
			Spec:       v1alpha1.HarnessSpec{ParentRef: &v1alpha1.LocalReference{Name: "loop"}},
		}
		create(ctx, loop, back)
		Eventually(record.story(loop)).Should(HaveExactElements(progressing, failed))
		Eventually(record.story(back)).Should(HaveExactElements(progressing, failed))
	})

	It("is suspended while it is archived, as an Agent is", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		harness := &v1alpha1.Harness{ObjectMeta: named(namespace, "base")}
		agent := &v1alpha1.Agent{
			ObjectMeta: named(namespace, "helper"),
			Spec:       v1alpha1.AgentSpec{Lifecycle: v1alpha1.LifecycleArchived},
		}
		create(ctx, harness, agent)
		Eventually(record.story(agent)).Should(HaveExactElements(progressing, suspended))
		Eventually(record.story(harness)).Should(HaveExactElements(progressing, finished))
		change(ctx, harness, func(h *v1alpha1.Harness) { h.Spec.Lifecycle = v1alpha1.LifecycleArchived })
		Eventually(record.story(harness)).Should(HaveExactElements(progressing, finished, progressing, suspended))
		change(ctx, harness, func(h *v1alpha1.Harness) { h.Spec.Lifecycle = v1alpha1.LifecycleActive })
		Eventually(
			record.story(harness),
		).Should(HaveExactElements(progressing, finished, progressing, suspended, progressing, finished))
	})

	It("is terminating while something holds its deletion back", func(ctx context.Context) {
		harness := &v1alpha1.Harness{ObjectMeta: named(newNamespace(ctx), "base")}
		harness.Finalizers = []string{"example.org/hold"}
		create(ctx, harness)
		Eventually(record.story(harness)).Should(HaveExactElements(progressing, finished))
		Expect(kit.Client.Delete(ctx, harness)).To(Succeed())
		Eventually(record.story(harness)).Should(HaveExactElements(progressing, finished, terminating))
		change(ctx, harness, func(h *v1alpha1.Harness) { h.Finalizers = nil })
	})
})

// stage makes a default Model that plays the script, the Tools, and a Harness that names them.
func stage(
	ctx context.Context,
	namespace string,
	script v1alpha1.Simulation,
	tools ...*v1alpha1.Tool,
) *v1alpha1.Harness {
	GinkgoHelper()
	model := &v1alpha1.Model{
		ObjectMeta: named(namespace, "simulated"),
		Spec:       v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderSimulated, Simulation: &script},
	}
	model.Annotations = map[string]string{v1alpha1.AnnotationDefaultModel: "true"}
	harness := &v1alpha1.Harness{ObjectMeta: named(namespace, "base")}
	for _, tool := range tools {
		harness.Spec.Tools = append(harness.Spec.Tools, v1alpha1.LocalReference{Name: tool.Name})
	}
	create(ctx, harness, model)
	for _, tool := range tools {
		tool.Namespace = namespace
		create(ctx, tool)
	}
	return harness
}

// simulation is a script that calls one tool after another and then answers with text.
func simulation(text string, tools ...string) v1alpha1.Simulation {
	steps := []v1alpha1.SimulatedStep{}
	for _, tool := range tools {
		steps = append(steps, v1alpha1.SimulatedStep{Calls: []v1alpha1.SimulatedToolCall{{Name: tool}}})
	}
	return v1alpha1.Simulation{
		Response:  &v1alpha1.SimulatedResponse{Type: v1alpha1.SimulatedResponseTypeFixed, Text: text},
		ToolCalls: &v1alpha1.SimulatedToolCalls{Sequence: append(steps, v1alpha1.SimulatedStep{})},
	}
}

func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func session(namespace string) *v1alpha1.Session {
	return &v1alpha1.Session{
		ObjectMeta: named(namespace, "demo"),
		Spec:       v1alpha1.SessionSpec{HarnessRef: v1alpha1.LocalReference{Name: "base"}},
	}
}

func turn(namespace, name string) *v1alpha1.Turn {
	return &v1alpha1.Turn{
		ObjectMeta: named(namespace, name),
		Spec:       v1alpha1.TurnSpec{SessionRef: v1alpha1.LocalReference{Name: "demo"}, Input: "Hello."},
	}
}

func jobTool(name string) *v1alpha1.Tool {
	return &v1alpha1.Tool{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ToolSpec{
		Description: "A tool of the tests.",
		SideEffect:  v1alpha1.SideEffectPure,
		Job:         &v1alpha1.JobTool{Image: "capstan.dev/toolbox:test", Command: []string{"/toolbox", name}},
	}}
}

func clientTool(name string) *v1alpha1.Tool {
	return &v1alpha1.Tool{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.ToolSpec{Description: "A tool of the client.", Client: &v1alpha1.ClientTool{}},
	}
}

func toolResult(namespace, name, turn, call string) *v1alpha1.ToolResult {
	text := "yes"
	return &v1alpha1.ToolResult{
		ObjectMeta: named(namespace, name),
		Spec:       v1alpha1.ToolResultSpec{TurnRef: v1alpha1.TurnReference{Name: turn}, CallID: call, Result: &text},
	}
}

// readyReason returns the reason of a Harness's condition Ready.
func readyReason(ctx context.Context, harness *v1alpha1.Harness) func() string {
	return func() string { return reason(ctx, harness, v1alpha1.ConditionReady, &harness.Status.Conditions) }
}

// acceptedReason returns the reason of a ToolResult's condition Accepted.
func acceptedReason(ctx context.Context, result *v1alpha1.ToolResult) func() string {
	return func() string { return reason(ctx, result, v1alpha1.ConditionAccepted, &result.Status.Conditions) }
}

func reason(ctx context.Context, object client.Object, kind string, conditions *[]metav1.Condition) string {
	if err := kit.Client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return err.Error()
	}
	for _, c := range *conditions {
		if c.Type == kind {
			return c.Reason
		}
	}
	return ""
}
