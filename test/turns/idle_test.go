package turns_test

import (
	"context"
	"maps"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
)

// ours are the controllers of Capstan. What plays the kubelet is not one of them.
var ours = []string{"harness", "agent", "model", "tool", "session", "turn", "toolresult"}

// reconciles are the passes of each of our controllers since the process began.
func reconciles() (map[string]float64, error) {
	families, err := metrics.Registry.Gather()
	if err != nil {
		return nil, err
	}
	counts := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "controller_runtime_reconcile_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "controller" {
					counts[label.GetValue()] += metric.GetCounter().GetValue()
				}
			}
		}
	}
	maps.DeleteFunc(counts, func(name string, _ float64) bool { return !slices.Contains(ours, name) })
	return counts, nil
}

// quietly waits until nothing has been reconciled for a while. Deadlines of what came before may be under way.
func quietly(ctx context.Context) {
	GinkgoHelper()
	const quiet = 6 * time.Second
	var before map[string]float64
	var since time.Time
	Eventually(ctx, func() (bool, error) {
		now, err := reconciles()
		if err != nil || !maps.Equal(now, before) {
			before, since = now, time.Now()
			return false, err
		}
		return time.Since(since) > quiet, nil
	}).WithTimeout(time.Minute).Should(BeTrue(), "the controllers do not come to rest")
}

var _ = Describe("What has nothing to do", Serial, func() {
	It("costs no write and no reconcile for 30 s, and applying it again costs no write", func(ctx context.Context) {
		namespace := newNamespace(ctx,
			calling("It is {{tool:ask-ann}}.", []v1alpha1.SimulatedToolCall{call("work"), call("once"), call("ask-ann")}),
			jobTool("work", v1alpha1.Pure), jobTool("once", v1alpha1.AtMostOnce), clientTool("ask-ann"))
		applied := []client.Object{
			newSession(namespace, "over"), newTurn(namespace, "over", "finished", "Hello"), toolResult(namespace, "ann", "finished", "1-2", "so"),
			newSession(namespace, "busy"), newTurn(namespace, "busy", "waiting-1", "Hello"), newTurn(namespace, "busy", "waiting-2", "Hello again"),
			newTurn(namespace, "nowhere", "lost", "Hello"), toolResult(namespace, "early", "nobody", "1-0", "?"),
		}
		for _, object := range applied {
			applyAs(ctx, object, applier)
		}
		Eventually(kit.Turn(ctx, namespace, "finished")).Should(capstantest.HaveSucceeded())
		Eventually(kit.Turn(ctx, namespace, "waiting-1")).Should(capstantest.WaitForTools("ask-ann"))
		Eventually(phaseOf(ctx, namespace, "over")).Should(Equal(v1alpha1.SessionIdle))
		Eventually(phaseOf(ctx, namespace, "busy")).Should(Equal(v1alpha1.SessionWaitingForToolResults))
		Expect(turnPhase(ctx, namespace, "waiting-2")()).To(Equal(v1alpha1.TurnQueued))
		quietly(ctx)

		written := requests.count()
		passes, err := reconciles()
		Expect(err).NotTo(HaveOccurred())
		for _, name := range ours {
			Expect(passes).To(HaveKeyWithValue(name, BeNumerically(">=", 0)))
		}
		Expect(passes["turn"]).To(BeNumerically(">", 0), "the metric is not the one that counts")
		Consistently(reconciles).WithTimeout(30*time.Second).WithPolling(time.Second).Should(Equal(passes), "somebody polls")
		Expect(requests.count()).To(Equal(written), "somebody writes")

		By("applying everything again, by the same hand and by another")
		for _, owner := range []client.FieldOwner{applier, "another"} {
			for _, object := range applied {
				applyAs(ctx, object, owner)
			}
		}
		quietly(ctx)
		Expect(requests.count()).To(Equal(written), "applying what is there already makes us write")
		again, err := reconciles()
		Expect(err).NotTo(HaveOccurred())
		Expect(again["turn"]).To(BeNumerically(">", passes["turn"]), "nobody looked at what was applied")
	})
})

// applier is who applies objects first.
const applier client.FieldOwner = "somebody"

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
	Expect(kit.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(configuration), owner, client.ForceOwnership)).To(Succeed())
}
