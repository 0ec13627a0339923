//go:build e2e

package e2e_test

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// tools of the crash specs: one for each class.
var witnessed = map[string]v1alpha1.SideEffect{
	"read":  v1alpha1.SideEffectPure,
	"write": v1alpha1.SideEffectIdempotent,
	"send":  v1alpha1.SideEffectAtMostOnce,
}

// takeover is how long another manager may need to lead, and a Turn to end then.
const takeover = 90 * time.Second

// drama is the course of a crash spec.
type drama struct {
	namespace string
	server    *toolServer
	// strike ends the manager.
	strike func() error
	// begin asks the Turn.
	begin func()
	// ledAgain waits until another manager leads.
	ledAgain func()
}

// moment plays until the manager is dead.
type moment func(ctx context.Context, d drama)

var _ = Describe("When the manager dies", alone, Label(hereLabel), func() {
	BeforeEach(func(ctx SpecContext) { rested(ctx) }, NodeTimeout(specLimit))
	AfterEach(func(ctx SpecContext) { settled(ctx) }, NodeTimeout(specLimit))

	DescribeTable("during a model call, the Turn still completes with a response",
		func(ctx SpecContext, die death) {
			manager := settled(ctx)
			strike, survived := die(ctx, manager)
			const responding = 5 * time.Second
			namespace := newStage(ctx, slow(responding, builder.Script("the answer")))
			reasoning := shown(
				ctx,
				&v1alpha1.TurnList{},
				namespace,
				func(turn *v1alpha1.Turn) bool { return turn.Status.Phase == v1alpha1.TurnPhaseReason },
			)
			ask(ctx, namespace, "demo-1")
			Expect(reasoning()).To(Succeed())
			Expect(strike()).To(Succeed())
			dead := time.Now()
			Eventually(ctx, turn(namespace, "demo-1")).WithTimeout(takeover).Should(capstantest.HaveSucceeded())
			show("answered after", time.Since(dead).Round(time.Millisecond).String())
			Eventually(ctx, survived).Should(Succeed())
			started := expectSuccession(ctx)
			answer := read(ctx, namespace, "demo-1")
			expectWorkWentOn(started, answer, responding)
			Expect(answer.Status.Output).To(Equal("the answer"))
			Expect(answer.Status.Summary.ModelCalls).To(BeEquivalentTo(1))
			Expect(finalEntries(ctx, answer)).To(Equal(map[string]int{"step 1": 1}))
		},
		Entry("by SIGKILL", death(killed), SpecTimeout(crashLimit)),
		Entry("with its pod deleted by force", death(deleted), SpecTimeout(crashLimit)),
	)

	It(
		"while a response streams, a Model with recovery Finalize keeps the received part as the response",
		func(ctx SpecContext) {
			manager := settled(ctx)
			strike, survived := killed(ctx, manager)
			namespace := newStage(ctx, slow(time.Minute, v1alpha1.Simulation{
				Response: &v1alpha1.SimulatedResponse{Type: v1alpha1.SimulatedResponseTypeLorem, Tokens: new(int32(60))},
			}))
			m := builder.Model("simulated").In(namespace).Obj()
			Expect(
				api.Patch(ctx, m, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"recovery":"Finalize"}}`))),
			).To(Succeed())
			ask(ctx, namespace, "demo-1")
			Eventually(partials).WithArguments(ctx, namespace).WithTimeout(takeover).Should(HaveLen(2))
			Expect(strike()).To(Succeed())
			dead := time.Now()
			Eventually(ctx, turn(namespace, "demo-1")).WithTimeout(takeover).Should(capstantest.HaveSucceeded())
			show("answered after", time.Since(dead).Round(time.Millisecond).String())
			Eventually(ctx, survived).Should(Succeed())
			answer := read(ctx, namespace, "demo-1")
			kept := partials(ctx, namespace)
			Expect(answer.Status.Output).To(Equal(kept[0].Text + kept[1].Text))
			Expect(answer.Status.Output).To(HavePrefix("lorem ipsum"))
			Expect(answer.Status.Recovered).To(Equal(v1alpha1.TurnRecoveryFinalized))
			Expect(meta.IsStatusConditionTrue(answer.Status.Conditions, v1alpha1.ConditionRecovered)).To(BeTrue())
			Expect(finalEntries(ctx, answer)).To(Equal(map[string]int{"step 1": 1}))
			show("recovered", answer.Status.Output)
		},
		SpecTimeout(crashLimit),
	)

	DescribeTable("during an act step, no result is lost and no tool starts twice",
		func(ctx SpecContext, at moment, die death) {
			manager := settled(ctx)
			d := drama{server: newToolServer(ctx)}
			var survived func(context.Context) error
			d.strike, survived = die(ctx, manager)
			d.namespace = newServedStage(ctx, d.server)
			ran := watchContainers(ctx, d.namespace)
			d.begin = func() { ask(ctx, d.namespace, "demo-1") }
			d.ledAgain = func() { Eventually(ctx, survived).WithTimeout(takeover).Should(Succeed()); settled(ctx) }

			at(ctx, d)
			dead := time.Now()
			Eventually(ctx, turn(d.namespace, "demo-1")).WithTimeout(takeover).Should(capstantest.HaveSucceeded())
			show("answered after", time.Since(dead).Round(time.Millisecond).String())
			Eventually(ctx, survived).Should(Succeed())

			answer := read(ctx, d.namespace, "demo-1")
			expectOneStartEach(answer, d.server, ran)
			Expect(finalEntries(ctx, answer)).To(Equal(map[string]int{"step 1": 1, "step 2": 1, "step 3": 1}))
		},
		Entry("killed after the calls were planned", moment(planned), death(killed), SpecTimeout(crashLimit)),
		Entry("deleted after the calls were planned", moment(planned), death(deleted), SpecTimeout(crashLimit)),
		Entry("killed after the pods were recorded", moment(recorded), death(killed), SpecTimeout(crashLimit)),
		Entry("deleted while the tools ran", moment(running), death(deleted), SpecTimeout(crashLimit)),
		Entry("killed while the tools ran", moment(running), death(killed), SpecTimeout(crashLimit)),
		Entry("killed as the tools ended", moment(ending), death(killed), SpecTimeout(crashLimit)),
		Entry("deleted after the tools ended", moment(ended), death(deleted), SpecTimeout(crashLimit)),
		Entry("killed after the tools ended", moment(ended), death(killed), SpecTimeout(crashLimit)),
	)

	It(
		"and the Jobs are deleted before another one leads, the calls that may run again do, and the outcome of the "+
			"other one is reported as unknown",
		SpecTimeout(crashLimit),
		func(ctx SpecContext) {
			w := newToolServer(ctx)
			namespace := newServedStage(ctx, w)
			w.hold("read", "write", "send")
			asked := ask(ctx, namespace, "demo-1")
			Eventually(ctx, func(ctx context.Context) ([]v1alpha1.ToolCall, error) {
				turn, err := turn(namespace, "demo-1")(ctx)
				return turn.Status.ToolCalls, err
			}).Should(And(HaveLen(len(witnessed)), HaveEach(HaveField("State", v1alpha1.ToolCallStateRunning))))

			comeBack := absent(ctx)
			Expect(
				api.DeleteAllOf(
					ctx,
					&batchv1.Job{},
					client.InNamespace(namespace),
					client.PropagationPolicy(metav1.DeletePropagationForeground),
				),
			).To(Succeed())
			Eventually(ctx, func() []corev1.Pod { return podsOf(ctx, asked) }).Should(BeEmpty())
			w.letGo("read", "write", "send")
			comeBack()

			answer := succeeded(ctx, namespace, "demo-1")
			for name, class := range witnessed {
				made, visits := callOf(answer, name), w.of(name)
				if class == v1alpha1.SideEffectAtMostOnce {
					Expect(visits).To(HaveLen(1), "starts of tool %s", name)
					Expect(made.State).To(Equal(v1alpha1.ToolCallStateUnknown))
					continue
				}
				Expect(visits).To(HaveLen(2), "starts of tool %s", name)
				Expect(visits[0].key).To(Equal(visits[1].key), "idempotency keys of tool %s", name)
				Expect(made.State).To(Equal(v1alpha1.ToolCallStateSucceeded))
				Expect(answer.Status.Output).To(ContainSubstring(name + "=" + visits[1].receipt))
			}
			Expect(finalEntries(ctx, answer)).To(Equal(map[string]int{"step 1": 1, "step 2": 1, "step 3": 1}))
		},
	)
})

// newServedStage is a stage whose model calls the witnessed tools in one step.
func newServedStage(ctx context.Context, w *toolServer) string {
	GinkgoHelper()
	var step calls
	var tools []*v1alpha1.Tool
	for name, class := range witnessed {
		step = append(step, w.call(name))
		tools = append(tools, toolbox(name, "report", class))
	}
	return newStage(ctx, builder.Script("read={{tool:read}} write={{tool:write}} send={{tool:send}}", step), tools...)
}

// planned strikes as soon as the plan shows the calls: their Jobs are just being made.
func planned(ctx context.Context, d drama) {
	GinkgoHelper()
	seen := shown(ctx, &v1alpha1.TurnList{}, d.namespace, func(turn *v1alpha1.Turn) bool {
		return turn.Status.Plan != nil && turn.Status.Plan.Phase == v1alpha1.PlanPhaseAct
	})
	d.begin()
	Expect(seen()).To(Succeed())
	Expect(d.strike()).To(Succeed())
}

// recorded strikes between the intent to start the AtMostOnce call and its start.
func recorded(ctx context.Context, d drama) {
	GinkgoHelper()
	seen := shown(ctx, &v1alpha1.TurnList{}, d.namespace, func(turn *v1alpha1.Turn) bool {
		for _, call := range turn.Status.ToolCalls {
			if call.PodUID != "" {
				return true
			}
		}
		return false
	})
	d.begin()
	Expect(seen()).To(Succeed())
	Expect(d.strike()).To(Succeed())
}

// running strikes while all tools run. One of them ends while there is no leader, the others when another manager
// leads.
func running(ctx context.Context, d drama) {
	GinkgoHelper()
	d.server.hold("read", "write", "send")
	d.begin()
	Eventually(ctx, d.server.started("read", "write", "send")).WithPolling(promptly).Should(BeTrue())
	Expect(d.strike()).To(Succeed())
	d.server.letGo("send")
	d.ledAgain()
	d.server.letGo("read", "write")
}

// ending strikes in the moment in which the tools end, before the manager can know.
func ending(ctx context.Context, d drama) {
	GinkgoHelper()
	d.server.hold("read", "write", "send")
	d.begin()
	Eventually(ctx, d.server.started("read", "write", "send")).WithPolling(promptly).Should(BeTrue())
	d.server.letGo("read", "write", "send")
	Expect(d.strike()).To(Succeed())
}

// ended strikes as soon as the API server knows of the end of all tools.
func ended(ctx context.Context, d drama) {
	GinkgoHelper()
	d.server.hold("read", "write", "send")
	gone := map[string]bool{}
	seen := shown(ctx, &corev1.PodList{}, d.namespace, func(pod *corev1.Pod) bool {
		if status := toolStatus(pod); status != nil && status.State.Terminated != nil {
			gone[pod.Name] = true
		}
		return len(gone) == len(witnessed)
	})
	d.begin()
	Eventually(ctx, d.server.started("read", "write", "send")).WithPolling(promptly).Should(BeTrue())
	d.server.letGo("read", "write", "send")
	Expect(seen()).To(Succeed())
	Expect(d.strike()).To(Succeed())
}

// expectOneStartEach checks that every tool started once, by both accounts, and that the Turn has the result of that
// start.
func expectOneStartEach(answer *v1alpha1.Turn, w *toolServer, ran *containers) {
	GinkgoHelper()
	keys := map[string]bool{}
	text := answer.Status.Output
	for name := range witnessed {
		visits := w.of(name)
		Expect(visits).To(HaveLen(1), "starts of tool %s that it reported", name)
		keys[visits[0].key] = true
		text = strings.Replace(text, visits[0].receipt, "", 1)
		call := callOf(answer, name)
		Expect(call.State).To(Equal(v1alpha1.ToolCallStateSucceeded), "call of tool %s", name)
		Expect(call.Attempt).To(BeEquivalentTo(1), "attempt of tool %s", name)
		Expect(ran.counts()).To(HaveKeyWithValue(call.ID, 1), "containers that ran for tool %s", name)
	}
	Expect(text).To(Equal("read= write= send="), "the response without the receipts")
	Expect(keys).To(HaveLen(len(witnessed)), "idempotency keys")
}
