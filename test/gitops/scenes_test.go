package gitops_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	runtimerecord "github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/record/kubernetes"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

var _ = Describe("A Turn", func() {
	It("is progressing until it waits for a client, and finished after its response", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		first := builder.Turn("demo-1").In(namespace).Obj()
		talk := builder.Session("demo").In(namespace).Obj()
		create(ctx, first, talk)
		Eventually(record.history(talk)).Should(HaveExactElements(progressing))
		harness := stage(
			ctx,
			namespace,
			simulation("{{tool:look}} {{tool:ask}}", "look", "ask"),
			builder.JobTool("look", v1alpha1.SideEffectPure).Obj(),
			builder.ClientTool("ask").Obj(),
		)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForTools("ask"))
		answer := builder.ToolResult("answer", "2-0").In(namespace).Result("yes").Obj()
		create(ctx, answer)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())

		Eventually(record.history(first)).Should(HaveExactElements(progressing, suspended, progressing, finished))
		Eventually(record.history(talk)).Should(HaveExactElements(progressing, finished))
		Eventually(record.history(answer)).Should(HaveExactElements(progressing, finished))
		Eventually(record.history(harness)).Should(HaveExactElements(progressing, finished))
	})

	It(
		"is suspended while it waits for an approval, and progressing while the approved call runs",
		func(ctx context.Context) {
			namespace := newNamespace(ctx)
			guarded := builder.JobTool("pay", v1alpha1.SideEffectPure).Obj()
			guarded.Spec.Policy = v1alpha1.ToolPolicyRequiresApproval
			stage(ctx, namespace, simulation("{{tool:pay}}", "pay"), guarded)
			first := builder.Turn("demo-1").In(namespace).Obj()
			create(ctx, builder.Session("demo").In(namespace).Obj(), first)
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForApproval("pay"))
			Eventually(record.history(first)).Should(HaveExactElements(progressing, suspended))
			waiting, err := kit.Turn(ctx, namespace, "demo-1")()
			Expect(err).NotTo(HaveOccurred())
			yes := capstantest.Decision(waiting, "1-0", v1alpha1.DecisionApprove, "ann")
			create(ctx, yes)
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
			Eventually(record.history(first)).Should(HaveExactElements(progressing, suspended, progressing, finished))
			Eventually(record.history(yes)).Should(HaveExactElements(progressing, finished))
		},
	)

	It("is suspended while spec.suspend is true", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		stage(ctx, namespace, simulation("Hello."))
		first := builder.Turn("demo-1").In(namespace).Obj()
		first.Spec.Suspend = new(true)
		create(ctx, builder.Session("demo").In(namespace).Obj(), first)
		Eventually(record.history(first)).Should(HaveExactElements(progressing, suspended))
		change(ctx, first, func(t *v1alpha1.Turn) { t.Spec.Suspend = nil })
		Eventually(record.history(first)).Should(HaveExactElements(progressing, suspended, progressing, finished))
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
		first := builder.Turn("demo-1").In(namespace).Obj()
		create(ctx, builder.Session("demo").In(namespace).Obj(), first)
		Eventually(record.history(first)).Should(HaveExactElements(progressing, failed))
		turn, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(turn.Status.Phase).To(Equal(v1alpha1.TurnPhaseFailed))
	})

	It("has failed when its Harness is archived", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		harness := stage(ctx, namespace, simulation("Hello."))
		change(ctx, harness, func(h *v1alpha1.Harness) { h.Spec.Lifecycle = v1alpha1.LifecycleArchived })
		first := builder.Turn("demo-1").In(namespace).Obj()
		create(ctx, builder.Session("demo").In(namespace).Obj(), first)
		Eventually(record.history(first)).Should(HaveExactElements(progressing, failed))
	})

	It("has failed when it is cancelled while it waits", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		stage(ctx, namespace, simulation("{{tool:ask}}", "ask"), builder.ClientTool("ask").Obj())
		first := builder.Turn("demo-1").In(namespace).Obj()
		create(ctx, builder.Session("demo").In(namespace).Obj(), first)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForTools("ask"))
		change(ctx, first, func(t *v1alpha1.Turn) { t.Spec.DesiredState = v1alpha1.DesiredStateCancelled })
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveFailed(v1alpha1.ReasonCancelled))
		Eventually(record.history(first)).Should(HaveExactElements(progressing, suspended, progressing, failed))
	})
})

var _ = Describe("A message that steers", func() {
	It("is finished once it is in the Turn that runs", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		stage(ctx, namespace, simulation("{{tool:ask}}", "ask"), builder.ClientTool("ask").Obj())
		first, steer := builder.Turn("demo-1").In(namespace).Obj(), builder.Turn("demo-2").In(namespace).Obj()
		steer.Spec.Delivery = v1alpha1.DeliverySteer
		create(ctx, builder.Session("demo").In(namespace).Obj(), first)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForTools("ask"))
		create(ctx, steer)
		Eventually(kit.Turn(ctx, namespace, "demo-2")).Should(capstantest.HaveSteered("demo-1"))
		Eventually(record.history(first)).Should(HaveExactElements(progressing, suspended, progressing, finished))
		Eventually(record.history(steer)).Should(HaveExactElements(progressing, finished))
	})
})

var _ = Describe("A Turn that has ended", func() {
	It("is finished when it is created again, and has failed with another message", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		stage(ctx, namespace, simulation("Hello."))
		first, again, other := builder.Turn("demo-1").
			In(namespace).
			Obj(),
			builder.Turn("demo-1").
				In(namespace).
				Obj(),
			builder.Turn("demo-1").
				In(namespace).
				Obj()
		other.Spec.Input = "Something else."
		create(ctx, builder.Session("demo").In(namespace).Obj(), first)
		Eventually(record.history(first)).Should(HaveExactElements(progressing, finished))
		Expect(kit.Client.Delete(ctx, first)).To(Succeed())
		create(ctx, again)
		Eventually(record.history(again)).Should(HaveExactElements(progressing, finished))
		Expect(
			kit.Turn(ctx, namespace, "demo-1")(),
		).To(HaveField("Status.Conditions", ContainElement(HaveField("Reason", v1alpha1.ReasonAlreadyRan))))
		Expect(kit.Client.Delete(ctx, again)).To(Succeed())
		create(ctx, other)
		Eventually(record.history(other)).Should(HaveExactElements(progressing, failed))
		Expect(
			kit.Turn(ctx, namespace, "demo-1")(),
		).To(HaveField("Status.Conditions", ContainElement(HaveField("Reason", v1alpha1.ReasonNameReused))))
	})

	It("stays finished when it is cancelled afterwards", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		stage(ctx, namespace, simulation("Hello."))
		first := builder.Turn("demo-1").In(namespace).Obj()
		create(ctx, builder.Session("demo").In(namespace).Obj(), first)
		Eventually(record.history(first)).Should(HaveExactElements(progressing, finished))
		change(ctx, first, func(t *v1alpha1.Turn) { t.Spec.DesiredState = v1alpha1.DesiredStateCancelled })
		Eventually(record.history(first)).Should(HaveExactElements(progressing, finished, progressing, finished))
	})
})

var _ = Describe("A Turn that is restored with its status", func() {
	It("is not run again, although its Session is a new one", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		stage(ctx, namespace, simulation("Hello."))
		first := builder.Turn("demo-1").In(namespace).Obj()
		create(ctx, builder.Session("demo").In(namespace).Obj(), first)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		backup, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())

		elsewhere := newNamespace(ctx)
		restored := builder.Turn("demo-1").In(elsewhere).Obj()
		create(ctx, builder.Session("demo").In(elsewhere).Obj(), restored)
		// The manager may say meanwhile what the Turn waits for.
		Eventually(func() error {
			if err := kit.Client.Get(ctx, client.ObjectKeyFromObject(restored), restored); err != nil {
				return err
			}
			restored.Status = backup.Status
			return kit.Client.Status().Update(ctx, restored)
		}).Should(Succeed())
		stage(ctx, elsewhere, simulation("Hello again."))
		create(ctx, builder.Turn("demo-2").In(elsewhere).Obj())
		Eventually(kit.Turn(ctx, elsewhere, "demo-2")).Should(capstantest.HaveSucceeded())
		Expect(record.history(restored)()).To(HaveExactElements(progressing, finished))
		again, err := kit.Turn(ctx, elsewhere, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(again.ResourceVersion).To(Equal(restored.ResourceVersion))
	})
})

var _ = Describe("A ToolResult", func() {
	It("is progressing while its Turn is missing, and has failed once it is refused", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		early := builder.ToolResult("early", "9-0").In(namespace).Result("yes").Obj()
		create(ctx, early)
		Eventually(acceptedReason(ctx, early)).Should(Equal(v1alpha1.ReasonTurnNotFound))
		stage(ctx, namespace, simulation("{{tool:ask}}", "ask"), builder.ClientTool("ask").Obj())
		create(ctx, builder.Session("demo").In(namespace).Obj(), builder.Turn("demo-1").In(namespace).Obj())
		Eventually(acceptedReason(ctx, early)).Should(Equal(v1alpha1.ReasonUnknownCall))
		Eventually(record.history(early)).Should(HaveExactElements(progressing, failed))
	})
})

var _ = Describe("A Session", func() {
	It("is progressing again when a reference is deleted", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		tool := builder.ClientTool("ask").Obj()
		stage(ctx, namespace, simulation("Hello."), tool)
		talk := builder.Session("demo").In(namespace).Obj()
		create(ctx, talk)
		Eventually(record.history(talk)).Should(HaveExactElements(progressing, finished))
		Expect(kit.Client.Delete(ctx, tool)).To(Succeed())
		Eventually(record.history(talk)).Should(HaveExactElements(progressing, finished, progressing))
	})

	It("is progressing while its network access list cannot hold a Job, as its Harness is", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		tool := builder.JobTool("look", v1alpha1.SideEffectPure).Obj()
		harness := stage(ctx, namespace, simulation("{{tool:look}}", "look"), tool)
		talk := builder.Session("demo").In(namespace).Obj()
		create(ctx, talk)
		Eventually(record.history(talk)).Should(HaveExactElements(progressing, finished))
		Eventually(record.history(harness)).Should(HaveExactElements(progressing, finished))
		change(ctx, harness, func(h *v1alpha1.Harness) {
			h.Spec.NetworkAccess = &v1alpha1.NetworkAccess{Blocked: []v1alpha1.NetworkPattern{"*.example.org"}}
		})
		Eventually(record.history(talk)).Should(HaveExactElements(progressing, finished, progressing))
		Expect(
			reason(ctx, talk, v1alpha1.ConditionReady, &talk.Status.Conditions),
		).To(Equal(v1alpha1.ReasonNetworkAccessUnenforceable))
		Eventually(readyReason(ctx, harness)).Should(Equal(v1alpha1.ReasonNetworkAccessUnenforceable))
		change(ctx, tool, func(t *v1alpha1.Tool) { t.Spec.Job.Network = v1alpha1.NetworkReachNone })
		Eventually(record.history(talk)).Should(HaveExactElements(progressing, finished, progressing, finished))
		Eventually(record.history(harness)).Should(HaveExactElements(progressing, finished, progressing, finished))
	})

	It("is progressing until its change is seen", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		stage(ctx, namespace, simulation("Hello."))
		talk := builder.Session("demo").In(namespace).Obj()
		create(ctx, talk)
		Eventually(record.history(talk)).Should(HaveExactElements(progressing, finished))
		change(ctx, talk, func(s *v1alpha1.Session) { s.Spec.SystemPrompt = "You answer at length." })
		Eventually(record.history(talk)).Should(HaveExactElements(progressing, finished, progressing, finished))
	})
})

var _ = Describe("A Session with hooks at its start and its end", func() {
	It("is progressing until it has started, and terminating until it has ended", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		stage(ctx, namespace, simulation("Hello."))
		talk := builder.Session("demo").In(namespace).Obj()
		for name, event := range map[string]v1alpha1.HookEvent{
			"hello": v1alpha1.HookEventSessionStart, "bye": v1alpha1.HookEventSessionEnd,
		} {
			talk.Spec.Hooks = append(talk.Spec.Hooks, v1alpha1.Hook{
				Name: name, Event: event, CEL: &v1alpha1.CELHook{Expression: "'it runs'"},
			})
		}
		create(ctx, talk)
		Eventually(record.history(talk)).Should(HaveExactElements(progressing, finished))
		Expect(kit.Client.Delete(ctx, talk)).To(Succeed())
		Eventually(record.history(talk)).Should(HaveExactElements(progressing, finished, terminating))
		Eventually(func() bool {
			return apierrors.IsNotFound(kit.Client.Get(ctx, client.ObjectKeyFromObject(talk), &v1alpha1.Session{}))
		}).Should(BeTrue())
	})
})

var _ = Describe("A Tool", func() {
	It("has failed while its schema is invalid, and recovers when that is corrected", func(ctx context.Context) {
		tool := builder.ClientTool("ask").Obj()
		tool.Namespace = newNamespace(ctx)
		tool.Spec.InputSchema = &v1alpha1.JSON{Raw: []byte(`{"type":"object","properties":{"text":{"type":"words"}}}`)}
		dependent := builder.Harness("base").In(tool.Namespace).Tools("ask").Obj()
		create(ctx, tool, dependent)
		Eventually(record.history(tool)).Should(HaveExactElements(progressing, failed))
		Eventually(record.history(dependent)).Should(HaveExactElements(progressing))
		change(ctx, tool, func(t *v1alpha1.Tool) { t.Spec.InputSchema = nil })
		Eventually(record.history(tool)).Should(HaveExactElements(progressing, failed, progressing, finished))
		Eventually(record.history(dependent)).Should(HaveExactElements(progressing, finished))
	})
})

var _ = Describe("A Model", func() {
	It("has failed when the manager does not know its provider", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		model := &v1alpha1.Model{ObjectMeta: named(namespace, "strange"), Spec: elsewhere()}
		agent := builder.Agent("helper").
			In(namespace).
			Layer(v1alpha1.ConfigLayer{ModelRef: &v1alpha1.LocalReference{Name: "strange"}}).
			Obj()
		create(ctx, model, agent)
		Eventually(record.history(model)).Should(HaveExactElements(progressing, failed))
		Eventually(record.history(agent)).Should(HaveExactElements(progressing))
		change(ctx, model, func(m *v1alpha1.Model) {
			m.Spec = v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderSimulated, Simulation: &v1alpha1.Simulation{}}
		})
		Eventually(record.history(model)).Should(HaveExactElements(progressing, failed, progressing, finished))
		Eventually(record.history(agent)).Should(HaveExactElements(progressing, finished))
	})
})

var _ = Describe("A Harness", func() {
	It("is progressing until its parent exists", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		child := builder.Harness("child").In(namespace).Parent("base").Obj()
		create(ctx, child)
		Eventually(readyReason(ctx, child)).Should(Equal(v1alpha1.ReasonHarnessNotFound))
		create(ctx, builder.Harness("base").In(namespace).Obj())
		Eventually(record.history(child)).Should(HaveExactElements(progressing, finished))
	})

	It("has failed when it is its own ancestor", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		loop := builder.Harness("loop").In(namespace).Parent("back").Obj()
		back := builder.Harness("back").In(namespace).Parent("loop").Obj()
		create(ctx, loop, back)
		Eventually(record.history(loop)).Should(HaveExactElements(progressing, failed))
		Eventually(record.history(back)).Should(HaveExactElements(progressing, failed))
	})

	It("is suspended while it is archived, as an Agent is", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		harness := builder.Harness("base").In(namespace).Obj()
		agent := &v1alpha1.Agent{
			ObjectMeta: named(namespace, "helper"),
			Spec:       v1alpha1.AgentSpec{Lifecycle: v1alpha1.LifecycleArchived},
		}
		create(ctx, harness, agent)
		Eventually(record.history(agent)).Should(HaveExactElements(progressing, suspended))
		Eventually(record.history(harness)).Should(HaveExactElements(progressing, finished))
		change(ctx, harness, func(h *v1alpha1.Harness) { h.Spec.Lifecycle = v1alpha1.LifecycleArchived })
		Eventually(record.history(harness)).Should(HaveExactElements(progressing, finished, progressing, suspended))
		change(ctx, harness, func(h *v1alpha1.Harness) { h.Spec.Lifecycle = v1alpha1.LifecycleActive })
		Eventually(
			record.history(harness),
		).Should(HaveExactElements(progressing, finished, progressing, suspended, progressing, finished))
	})

	It("is terminating while a finalizer blocks its deletion", func(ctx context.Context) {
		harness := builder.Harness("base").In(newNamespace(ctx)).Obj()
		harness.Finalizers = []string{"example.org/hold"}
		create(ctx, harness)
		Eventually(record.history(harness)).Should(HaveExactElements(progressing, finished))
		Expect(kit.Client.Delete(ctx, harness)).To(Succeed())
		Eventually(record.history(harness)).Should(HaveExactElements(progressing, finished, terminating))
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
	model := builder.Model("simulated").In(namespace).Simulated(script).Default().Obj()
	harness := builder.Harness("base").In(namespace).Obj()
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

// simulation is a script that calls one tool after another and then responds with text.
func simulation(text string, tools ...string) v1alpha1.Simulation {
	steps := make([][]v1alpha1.SimulatedToolCall, 0, len(tools))
	for _, tool := range tools {
		steps = append(steps, builder.Calls(tool))
	}
	return builder.Script(text, steps...)
}

func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
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

var _ = Describe("An MCPServer", func() {
	It("is progressing while its server does not respond", func(ctx context.Context) {
		server := &v1alpha1.MCPServer{
			ObjectMeta: metav1.ObjectMeta{Namespace: newNamespace(ctx), Name: "search"},
			Spec:       v1alpha1.MCPServerSpec{URL: "https://127.0.0.1:1/mcp"},
		}
		create(ctx, server)
		Eventually(func() (string, error) {
			err := kit.Client.Get(ctx, client.ObjectKeyFromObject(server), server)
			if ready := meta.FindStatusCondition(server.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
				return ready.Reason, err
			}
			return "", err
		}).Should(Equal(v1alpha1.ReasonDiscoveryFailed))
		Eventually(record.history(server)).Should(HaveExactElements(progressing))
	})
})

var _ = Describe("A Record", func() {
	It("is finished when it is written, whatever its revision", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		objects, err := kubernetes.ForConfig(config, nil)
		Expect(err).NotTo(HaveOccurred())
		scope := runtimerecord.Scope{Namespace: namespace, Session: "demo", UID: "demo-uid", Store: "files"}
		store := runtimerecord.New(objects, runtimerecord.Options{})
		for _, key := range []string{"/a", "/b"} {
			_, err := store.Apply(ctx, scope, runtimerecord.Operation{
				Cause: runtimerecord.Cause{Step: 1, Key: key},
				Put:   []runtimerecord.Put{{Key: key, Value: make([]byte, 10_000)}},
			})
			Expect(err).NotTo(HaveOccurred())
		}
		var records v1alpha1.RecordList
		Expect(kit.Client.List(ctx, &records, client.InNamespace(namespace))).To(Succeed())
		Expect(records.Items).To(HaveLen(3))
		for i := range records.Items {
			Eventually(record.history(&records.Items[i])).Should(HaveExactElements(finished))
		}
	})
})

var _ = Describe("A Capability", func() {
	It("has failed while its configSchema is invalid, and what depends on it is progressing", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		invalid := &v1alpha1.Capability{ObjectMeta: named(namespace, "invalid")}
		invalid.Spec.ConfigSchema = &v1alpha1.JSON{Raw: []byte(`{"type":"array"}`)}
		dependent := &v1alpha1.Capability{ObjectMeta: named(namespace, "dependent")}
		dependent.Spec.Dependencies = []v1alpha1.CapabilityDependency{{Name: "invalid"}}
		create(ctx, invalid, dependent)
		Eventually(record.history(invalid)).Should(HaveExactElements(progressing, failed))
		Eventually(record.history(dependent)).Should(HaveExactElements(progressing))
		change(ctx, invalid, func(c *v1alpha1.Capability) { c.Spec.ConfigSchema = nil })
		Eventually(record.history(invalid)).Should(HaveExactElements(progressing, failed, progressing, finished))
		Eventually(record.history(dependent)).Should(HaveExactElements(progressing, finished))
	})

	It("is progressing while a Tool of it does not exist", func(ctx context.Context) {
		capability := &v1alpha1.Capability{
			ObjectMeta: metav1.ObjectMeta{Namespace: newNamespace(ctx), Name: "research"},
			Spec:       v1alpha1.CapabilitySpec{Tools: []v1alpha1.LocalReference{{Name: "look"}}},
		}
		create(ctx, capability)
		Eventually(func() (string, error) {
			err := kit.Client.Get(ctx, client.ObjectKeyFromObject(capability), capability)
			if ready := meta.FindStatusCondition(capability.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
				return ready.Reason, err
			}
			return "", err
		}).Should(Equal(v1alpha1.ReasonToolNotFound))
	})
})
