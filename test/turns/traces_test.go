package turns_test

import (
	"context"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/trace"
	exporter "github.com/capstan-dev/capstan/internal/runtime/trace/otlp"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/internal/testing/otlp"
)

// exporting is the exporter of the manager that runs.
var exporting atomic.Pointer[exporter.Exporter]

// exportTo makes the spans of the next manager go to a receiver.
func exportTo(ctx context.Context, r *otlp.Receiver) *exporter.Exporter {
	GinkgoHelper()
	GinkgoT().Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", r.URL())
	e, err := exporter.New(ctx, exporter.Options{Getenv: os.Getenv, Version: "test"})
	Expect(err).NotTo(HaveOccurred())
	exporting.Store(e)
	return e
}

// tree waits for a number of spans of a trace, and checks that they are one tree.
func tree(r *otlp.Receiver, id, outside string, spans int) (root otlp.Span, byName map[string][]otlp.Span) {
	GinkgoHelper()
	Eventually(func() []otlp.Span { return r.Spans(id) }).Should(HaveLen(spans))
	all := r.Spans(id)
	root, err := otlp.Root(all, outside)
	Expect(err).NotTo(HaveOccurred(), "%+v", all)
	byName = map[string][]otlp.Span{}
	for _, s := range all {
		byName[s.Name] = append(byName[s.Name], s)
	}
	return root, byName
}

// traceOf is the trace that a Turn has of its own.
func traceOf(turn *v1alpha1.Turn) string {
	return strings.ReplaceAll(string(turn.UID), "-", "")
}

var _ = Describe("The trace of a Turn", Serial, Ordered, func() {
	const (
		given = "0af7651916cd43dd8448eb211c80319c"
		span  = "b7ad6b7169203331"
	)
	another := onOwnServer(capstantest.Options{
		Jobs: jobs.Run, EgressAllow: loopback, EgressRoots: testRoots(), JobRetention: time.Hour,
		OnSpan: func(s capstantest.Span) {
			if e := exporting.Load(); e != nil {
				e.Export([]trace.Span{s})
			}
		},
	})
	var received, lost *otlp.Receiver

	BeforeEach(func() {
		received, lost = otlp.New(), otlp.New()
		lost.Hang()
		DeferCleanup(received.Close)
		DeferCleanup(lost.Close)
	})

	It("is one tree although its manager was killed twice, with all spans that were not sent", func(ctx context.Context) {
		arrived := make(chan struct{}, 1)
		var n atomic.Int32
		s := newSite(func(w http.ResponseWriter, r *http.Request) {
			if n.Add(1)%2 == 1 { // The first request of each step.
				arrived <- struct{}{}
				untilGone(w, r)
				return
			}
			responds("clear")(w, r)
		})
		exportTo(ctx, lost)
		kit = another()
		namespace := newNamespace(ctx,
			builder.Script("done", builder.Calls("work", "ask"), builder.Calls("work", "ask")),
			builder.JobTool("work", v1alpha1.SideEffectPure).Obj(), s.tool("ask", v1alpha1.SideEffectPure))
		create(ctx, builder.Session("demo").In(namespace).Obj())
		turn := builder.Turn("demo-1").In(namespace).Input("My secret message").Obj()
		turn.Spec.TraceParent = "00-" + given + "-" + span + "-01"
		create(ctx, turn)
		for _, receiver := range []*otlp.Receiver{lost, received} {
			Eventually(arrived).Should(Receive())
			Expect(kit.Stop()).To(Succeed())
			exportTo(ctx, receiver)
			kit = another()
		}
		turn = answered(ctx, namespace)

		root, spans := tree(received, given, span, 13)
		Expect(root.Name).To(Equal("invoke_agent base"))
		Expect(root.Attributes).To(HaveKeyWithValue("gen_ai.operation.name", "invoke_agent"))
		Expect(root.Attributes).To(HaveKeyWithValue("capstan.turn.phase", "Succeeded"))
		Expect(root.Attributes).To(HaveKeyWithValue("capstan.turn.name", "demo-1"))
		Expect(root.Attributes).To(HaveKeyWithValue("gen_ai.conversation.id", string(turn.Status.SessionUID)))
		Expect(slices.Sorted(maps.Keys(spans))).To(Equal([]string{
			"act", "chat simulated", "execute_tool ask", "execute_tool work", "invoke_agent base", "reason",
		}))
		Expect(spans["reason"]).To(HaveLen(3))
		Expect(spans["act"]).To(HaveLen(2))
		Expect(spans["chat simulated"]).To(HaveLen(3))
		Expect(spans["chat simulated"]).To(HaveEach(HaveField("Attributes", And(
			HaveKey("gen_ai.usage.input_tokens"), HaveKey("gen_ai.response.time_to_first_chunk")))))
		Expect(spans["execute_tool work"]).To(HaveLen(2))
		Expect(spans["execute_tool ask"]).To(HaveLen(2))
		for _, all := range spans {
			for _, one := range all {
				Expect(one.Failed).To(BeFalse(), one.Name)
				for name, value := range one.Attributes {
					Expect(value).NotTo(ContainSubstring("secret"), name)
				}
			}
		}

		By("comparing the contexts that the tools got")
		ids := map[string]bool{}
		for _, one := range append(spans["execute_tool ask"], spans["execute_tool work"]...) {
			ids["00-"+given+"-"+one.ID+"-01"] = true
		}
		for _, asked := range s.requests() {
			Expect(ids).To(HaveKey(asked.Header.Get("Traceparent")))
		}
		var ran batchv1.JobList
		Expect(kit.Client.List(ctx, &ran, client.InNamespace(namespace))).To(Succeed())
		Expect(ran.Items).To(HaveLen(2))
		for _, job := range ran.Items {
			Expect(ids).To(HaveKey(environmentOf(job)["TRACEPARENT"]))
		}
	})

	It("is exported again by a manager that begins to lead just after its end", func(ctx context.Context) {
		exportTo(ctx, lost)
		kit = another()
		namespace := newNamespace(ctx, builder.Script("done"))
		create(ctx, builder.Session("demo").In(namespace).Obj(), builder.Turn("demo-1").In(namespace).Obj())
		turn := answered(ctx, namespace)
		Expect(kit.Stop()).To(Succeed())
		exportTo(ctx, received)
		kit = another()
		_, spans := tree(received, traceOf(turn), "", 3)
		Expect(spans).To(And(HaveKey("invoke_agent base"), HaveKey("reason"), HaveKey("chat simulated")))
	})

	It("is one tree although the Turn was deleted while its second step ran", func(ctx context.Context) {
		exportTo(ctx, received)
		kit = another()
		namespace := newNamespace(ctx, builder.Script("done", builder.Calls("work")),
			builder.JobTool("work", v1alpha1.SideEffectAtMostOnce).Obj())
		started := make(chan string, 1)
		jobs.In(namespace, func(c capstantest.Call) (string, string, int) {
			started <- c.ID
			<-c.Context.Done()
			return "", "", 137
		})
		const own = "4bf92f3577b34da6a3ce929d0e0e4736"
		turn := builder.Turn("demo-1").In(namespace).Obj()
		turn.Spec.TraceParent = "00-" + own + "-" + span + "-01"
		create(ctx, builder.Session("demo").In(namespace).Obj(), turn)
		Eventually(started).Should(Receive())
		Expect(kit.Client.Delete(ctx, turn)).To(Succeed())
		root, spans := tree(received, own, span, 5)
		Expect(root.Name).To(Equal("invoke_agent base"))
		Expect(root.Attributes).To(HaveKeyWithValue("capstan.turn.uid", string(turn.UID)))
		Expect(root.Attributes).To(HaveKeyWithValue("capstan.turn.phase", "Cancelled"))
		Expect(slices.Sorted(maps.Keys(spans))).To(Equal([]string{
			"act", "chat simulated", "execute_tool work", "invoke_agent base", "reason",
		}))
		Expect(spans["execute_tool work"][0].Attributes).To(HaveKeyWithValue("error.type", "interrupted"))
	})

	It("has the hooks of the Turn, also of one that was deleted", func(ctx context.Context) {
		exportTo(ctx, received)
		kit = another()
		namespace := newNamespace(ctx, builder.Script("done", builder.Calls("work")),
			builder.JobTool("work", v1alpha1.SideEffectPure).Obj())
		session := builder.Session("demo").In(namespace).Obj()
		for name, at := range map[string]v1alpha1.HookEvent{
			"first": v1alpha1.HookEventUserPromptSubmit, "before": v1alpha1.HookEventPreToolUse,
			"after": v1alpha1.HookEventPostToolUse, "last": v1alpha1.HookEventTurnEnd,
		} {
			session.Spec.Hooks = append(session.Spec.Hooks, v1alpha1.Hook{
				Name: name, Event: at, CEL: &v1alpha1.CELHook{Expression: "true"},
			})
		}
		create(ctx, session, builder.Turn("demo-1").In(namespace).Obj())
		turn := answered(ctx, namespace)
		hooks := func(of *v1alpha1.Turn) func() map[string]otlp.Span {
			return func() map[string]otlp.Span {
				found := map[string]otlp.Span{}
				for _, s := range received.Spans(traceOf(of)) {
					if name, ok := strings.CutPrefix(s.Name, "hook session:"); ok {
						found[name] = s
					}
				}
				return found
			}
		}
		Eventually(hooks(turn)).Should(HaveLen(4))
		Eventually(func() []otlp.Span { return received.Spans(traceOf(turn)) }).Should(HaveLen(11))
		call := HaveKeyWithValue("gen_ai.tool.call.id", "1-0")
		for name, s := range hooks(turn)() {
			Expect(s.Parent).To(Equal(event.TurnSpan(turn.UID)))
			Expect(s.Times).To(Equal(1), name)
			Expect(s.Attributes).To(HaveKeyWithValue("capstan.hook.decision", "allow"))
			if name == "before" || name == "after" {
				Expect(s.Attributes).To(call)
			} else {
				Expect(s.Attributes).NotTo(call)
			}
		}

		started := make(chan string, 1)
		jobs.In(namespace, func(c capstantest.Call) (string, string, int) {
			started <- c.ID
			<-c.Context.Done()
			return "", "", 137
		})
		gone := builder.Turn("demo-2").In(namespace).Obj()
		create(ctx, gone)
		Eventually(started).Should(Receive())
		Expect(kit.Client.Delete(ctx, gone)).To(Succeed())
		Eventually(hooks(gone)).Should(And(HaveKey("first"), HaveKey("before"), HaveKey("last"), Not(HaveKey("after"))))
		Expect(hooks(gone)()["last"].Parent).To(Equal(event.TurnSpan(gone.UID)))
	})

	It("has the spans of its sub-agents, and errors by their class", func(ctx context.Context) {
		exportTo(ctx, received)
		kit = another()
		namespace := newTeam(ctx, []string{"helper"}, builder.Script("done", builder.Calls("work")))
		jobs.In(namespace, func(capstantest.Call) (string, string, int) { return "", "My secret is out", 1 })
		begin(ctx, namespace)
		turn := answered(ctx, namespace)
		root, spans := tree(received, traceOf(turn), "", 14)
		Expect(root.Name).To(Equal("invoke_agent base"))
		Expect(spans["invoke_agent helping"]).To(HaveLen(1))
		Expect(spans["execute_tool helper"]).To(HaveLen(1))
		Expect(spans["invoke_agent helping"][0].Parent).To(Equal(spans["execute_tool helper"][0].ID))
		Expect(spans["execute_tool work"]).To(HaveLen(1))
		Expect(spans["execute_tool work"][0].Failed).To(BeTrue())
		Expect(spans["execute_tool work"][0].Attributes).To(HaveKeyWithValue("error.type", "error"))
		for _, one := range received.Spans(traceOf(turn)) {
			Expect(one.Times).To(Equal(1), "%s was sent again", one.Name)
		}
	})
})

// environmentOf returns the variables of the container of a tool.
func environmentOf(job batchv1.Job) map[string]string {
	values := map[string]string{}
	for _, container := range job.Spec.Template.Spec.Containers {
		for _, variable := range container.Env {
			values[variable.Name] = variable.Value
		}
	}
	return values
}
