package turns_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/test/internal/passes"
)

// ours are the controllers of Capstan.
var ours = []string{"harness", "agent", "model", "tool", "session", "turn", "toolresult"}

// reconciled counts the passes of the controllers.
var reconciled = &passes.Counter{}

// quietly waits until nothing in the namespace has been reconciled for a while, and returns the passes so far.
func quietly(ctx context.Context, namespace string) passes.Counts {
	GinkgoHelper()
	const quiet = 6 * time.Second
	counted, since := reconciled.In(namespace), time.Now()
	var newest passes.Counts
	Eventually(ctx, func() bool {
		now := reconciled.In(namespace)
		if newer := now.Since(counted); len(newer) > 0 {
			counted, since, newest = now, time.Now(), newer
		}
		return time.Since(since) > quiet
	}).WithTimeout(time.Minute).Should(
		BeTrue(), func() string { return fmt.Sprintf("the newest passes of controllers: %v", newest) },
	)
	return counted
}

// Passes and writes are counted by namespace: what other specs leave behind is looked at again by time, such as a Model
// without a key, of which there is one here.
var _ = Describe("An idle namespace", func() {
	It("costs no write and no reconcile for 30 s, and applying it again costs no write", func(ctx context.Context) {
		namespace := newNamespace(
			ctx,
			builder.Script("It is {{tool:ask-ann}}.", builder.Calls("work", "once", "ask-ann")),
			builder.JobTool("work", v1alpha1.SideEffectPure).
				Obj(),
			builder.JobTool("once", v1alpha1.SideEffectAtMostOnce).Obj(),
			builder.ClientTool("ask-ann").Obj(),
		)
		over := builder.Session("over").In(namespace).Obj()
		over.Spec.AgentRef = &v1alpha1.LocalReference{Name: "helper"}
		applied := []client.Object{
			builder.Agent("helper").In(namespace).Obj(),
			over,
			builder.Turn("finished").In(namespace).Session("over").Obj(),
			builder.ToolResult("ann", "1-2").In(namespace).Turn("finished").Result("so").Obj(),
			builder.Session("busy").In(namespace).Obj(),
			builder.Turn("waiting-1").In(namespace).Session("busy").Obj(),
			builder.Turn("waiting-2").In(namespace).Session("busy").Input("Hello again").Obj(),
			builder.Turn("lost").In(namespace).Session("nowhere").Obj(),
			builder.ToolResult("early", "1-0").In(namespace).Turn("nobody").Result("?").Obj(),
		}
		for _, object := range applied {
			applyAs(ctx, object, applier)
		}
		Eventually(kit.Turn(ctx, namespace, "finished")).Should(capstantest.HaveSucceeded())
		Eventually(kit.Turn(ctx, namespace, "waiting-1")).Should(capstantest.WaitForTools("ask-ann"))
		Eventually(phaseOf(ctx, namespace, "over")).Should(Equal(v1alpha1.SessionPhaseIdle))
		Eventually(phaseOf(ctx, namespace, "busy")).Should(Equal(v1alpha1.SessionPhaseWaitingForToolResults))
		Expect(turnPhase(ctx, namespace, "waiting-2")()).To(Equal(v1alpha1.TurnPhaseQueued))
		neighbour := newNamespace(ctx, v1alpha1.Simulation{})
		keyless := realModel(neighbour, "real", v1alpha1.ModelProviderAnthropic, newSite(anthropicText("Hi.")))
		create(ctx, keyless)
		rested := quietly(ctx, namespace)

		beside := reconciled.In(neighbour)
		Expect(beside).To(HaveKey("model real"))
		change(ctx, keyless, `{"metadata":{"annotations":{"example.com/look":"again"}}}`)
		written := requests.concerning(namespace)
		for _, name := range ours {
			Expect(rested.Of(name)).NotTo(BeEmpty(), "the passes of the controller "+name+" are not counted")
		}
		Expect(written).NotTo(BeEmpty(), "writes are not counted")
		Consistently(func() passes.Counts { return reconciled.In(namespace).Since(rested) }).
			WithTimeout(30*time.Second).WithPolling(time.Second).Should(BeEmpty(), "a controller polls")
		Expect(requests.concerning(namespace)).To(Equal(written), "a controller writes")
		Expect(
			reconciled.In(neighbour).Since(beside),
		).To(HaveKey("model real"), "the neighbour is quiet too: it shows nothing")

		By("applying everything again, by the same hand and by another")
		for _, owner := range []client.FieldOwner{applier, "another"} {
			for _, object := range applied {
				applyAs(ctx, object, owner)
			}
		}
		again := quietly(ctx, namespace)
		Expect(requests.concerning(namespace)).To(Equal(written), "applying unchanged objects makes a controller write")
		Expect(again.Since(rested).Of("turn")).NotTo(BeEmpty(), "no controller looked at the applied objects")
	})
})

// applier is the field manager that applies objects first.
const applier client.FieldOwner = "applier"

// applyAs is a server-side apply.
func applyAs(ctx context.Context, object client.Object, owner client.FieldOwner) {
	GinkgoHelper()
	kind, err := apiutil.GVKForObject(object, kit.Client.Scheme())
	Expect(err).NotTo(HaveOccurred())
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	Expect(err).NotTo(HaveOccurred())
	delete(fields, "status")
	configuration := &unstructured.Unstructured{Object: fields}
	configuration.SetGroupVersionKind(kind)
	Expect(
		kit.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(configuration), owner, client.ForceOwnership),
	).To(Succeed())
}
