//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

const (
	// deletionLimit is how long after a deletion nothing is left of what was deleted.
	deletionLimit = 30 * time.Second
	// manyLimit is the same for a Session with a thousand Turns.
	manyLimit = time.Minute
)

const (
	inBackground = client.PropagationPolicy(metav1.DeletePropagationBackground)
	inForeground = client.PropagationPolicy(metav1.DeletePropagationForeground)
)

var _ = Describe("Deleting", func() {
	DescribeTable("a Turn while its tool runs removes all its objects within 30 s, and its Session accepts Turns",
		func(ctx SpecContext, class v1alpha1.SideEffect, how client.PropagationPolicy) {
			w := newToolServer(ctx)
			w.hold("work")
			namespace := newStage(ctx, builder.Script("{{tool:work}}", calls{w.call("work")}), toolbox("work", "report", class))
			asked := ask(ctx, namespace, "demo-1")
			w.visited(ctx, "work", 1)
			deleteAll(ctx, how, asked)
			expectGone(ctx, namespace, []client.Object{asked}, &batchv1.JobList{}, &corev1.PodList{})
			Expect(w.of("work")).To(HaveLen(1), "starts of the tool")

			w.letGo("work")
			Expect(answered(ctx, namespace, "demo-2").Status.Output).To(HavePrefix("receipt-"))
			// The Job goes with the Turn. If the manager sees its end first, the call ends in step 2 and the Turn in step 3.
			Expect(finalEntries(ctx, asked)).To(Or(
				Equal(map[string]int{"step 1": 1, "step 2": 1}),
				Equal(map[string]int{"step 1": 1, "step 2": 1, "step 3": 1}),
			), "the log has how it ended")
			Expect(generations(ctx, asked)).To(Equal(1), "no model is called for a Turn that is gone")
		},
		Entry("(Pure)", SpecTimeout(specLimit), v1alpha1.SideEffectPure, inBackground),
		Entry("(AtMostOnce)", SpecTimeout(specLimit), v1alpha1.SideEffectAtMostOnce, inBackground),
		Entry("(AtMostOnce, in the foreground)", SpecTimeout(specLimit), v1alpha1.SideEffectAtMostOnce, inForeground),
	)

	It(
		"a Turn while it waits for a client removes all its objects within 30 s, and its Session accepts Turns",
		SpecTimeout(specLimit),
		func(ctx SpecContext) {
			namespace := newStage(
				ctx,
				builder.Script("Ann said {{tool:ask-ann}}.", calls{call("ask-ann", nil), call("work", nil)}),
				builder.ClientTool("ask-ann").Obj(),
				toolbox("work", "echo", v1alpha1.SideEffectAtMostOnce),
			)
			asked := ask(ctx, namespace, "demo-1")
			Eventually(ctx, turn(namespace, "demo-1")).Should(capstantest.WaitForTools("ask-ann"))
			deleteAll(ctx, inBackground, asked)
			expectGone(ctx, namespace, []client.Object{asked}, &batchv1.JobList{}, &corev1.PodList{})

			ask(ctx, namespace, "demo-2")
			Eventually(ctx, turn(namespace, "demo-2")).Should(capstantest.WaitForTools("ask-ann"))
			create(ctx, builder.ToolResult("ann", "1-0").In(namespace).Turn("demo-2").Result("yes").Obj())
			Expect(succeeded(ctx, namespace, "demo-2").Status.Output).To(Equal("Ann said yes."))
		},
	)

	DescribeTable(
		"a Session removes it and its running Turn within 30 s, and a queued Turn waits for a new Session",
		func(ctx SpecContext, how client.PropagationPolicy) {
			w := newToolServer(ctx)
			namespace := newStage(
				ctx,
				builder.Script("{{tool:work}}", calls{w.call("work")}),
				toolbox("work", "report", v1alpha1.SideEffectAtMostOnce),
			)
			before := answered(ctx, namespace, "demo-1")
			w.hold("work")
			asked := ask(ctx, namespace, "demo-2")
			w.visited(ctx, "work", 2)
			ask(ctx, namespace, "demo-3")
			Eventually(ctx, turn(namespace, "demo-3")).Should(HaveField("Status.Phase", v1alpha1.TurnPhaseQueued))
			Expect(journal(ctx, namespace)).NotTo(BeEmpty())
			session := &v1alpha1.Session{ObjectMeta: named(namespace, "demo")}
			deleteAll(ctx, how, session)
			expectGone(
				ctx,
				namespace,
				[]client.Object{session, before, asked},
				&batchv1.JobList{},
				&corev1.PodList{},
				&v1alpha1.JournalEntryList{},
			)
			Expect(w.of("work")).To(HaveLen(2), "starts of the tool, one for each Turn that ran")

			Eventually(ctx, turn(namespace, "demo-3")).Should(WithTransform(func(t *v1alpha1.Turn) string {
				if c := meta.FindStatusCondition(t.Status.Conditions, v1alpha1.ConditionSucceeded); c != nil {
					return c.Reason
				}
				return ""
			}, Equal(v1alpha1.ReasonSessionNotFound)))
			w.letGo("work")
			create(
				ctx,
				builder.Session("demo").In(namespace).Obj(),
			)
			Expect(succeeded(ctx, namespace, "demo-3").Status.Output).To(HavePrefix("receipt-"))
		},
		Entry("(in the background)", SpecTimeout(specLimit), inBackground),
		Entry("(in the foreground)", SpecTimeout(specLimit), inForeground),
	)

	It(
		"a namespace with running, waiting and queued Turns completes within 30 s",
		SpecTimeout(specLimit),
		func(ctx SpecContext) {
			w := newToolServer(ctx)
			namespace := newStage(ctx, builder.Script("{{tool:work}}", calls{w.call("work"), call("ask-ann", nil)}),
				toolbox("work", "report", v1alpha1.SideEffectAtMostOnce), builder.ClientTool("ask-ann").Obj())
			create(
				ctx,
				builder.Session("other").In(namespace).Obj(),
			)
			ask(ctx, namespace, "waiting")
			Eventually(ctx, turn(namespace, "waiting")).Should(capstantest.WaitForTools("ask-ann"))
			ask(ctx, namespace, "queued")
			w.hold("work")
			running := builder.Turn("running").In(namespace).Session("other").Input("Please.").Obj()
			create(ctx, running)
			w.visited(ctx, "work", 2)
			gone := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
			deleteAll(ctx, inBackground, gone)
			expectGone(ctx, "", []client.Object{gone})
			Expect(w.of("work")).To(HaveLen(2), "starts of the tool, one for each Turn that ran")
		},
	)

	It(
		"Sessions with a thousand finished Turns deletes the Turns within a minute",
		alone,
		SpecTimeout(crashLimit),
		func(ctx SpecContext) {
			const each = 1000 / sessionsOfMany
			namespace := newStage(ctx, builder.Script("done"))
			began := time.Now()
			for s := range sessionsOfMany {
				session := fmt.Sprintf("many-%d", s)
				create(
					ctx,
					builder.Session(session).In(namespace).Obj(),
				)
				for t := range each {
					create(ctx, builder.Turn(fmt.Sprintf("%s-%d", session, t)).In(namespace).Session(session).Input("Please.").Obj())
				}
			}
			show("created after", time.Since(began).Round(time.Millisecond).String())
			Eventually(ctx, func(ctx context.Context) (int, error) {
				var turns v1alpha1.TurnList
				err := api.List(ctx, &turns, client.InNamespace(namespace))
				done := 0
				for i := range turns.Items {
					if meta.IsStatusConditionTrue(turns.Items[i].Status.Conditions, v1alpha1.ConditionSucceeded) {
						done++
					}
				}
				return done, err
			}).WithTimeout(2 * time.Minute).WithPolling(time.Second).Should(Equal(sessionsOfMany * each))
			show("finished after", time.Since(began).Round(time.Millisecond).String())

			Expect(api.DeleteAllOf(ctx, &v1alpha1.Session{}, client.InNamespace(namespace))).To(Succeed())
			deleted := time.Now()
			Eventually(
				ctx,
				func(ctx context.Context) (int, error) { return countOf(ctx, namespace, "turns") },
			).WithTimeout(manyLimit).
				Should(BeZero())
			show("the Turns were deleted after", time.Since(deleted).Round(time.Millisecond).String())
			Eventually(ctx, func(ctx context.Context) (int, error) { return countOf(ctx, namespace, "journalentries") }).
				WithTimeout(2 * manyLimit).Should(BeZero())
			show("the journal was deleted after", time.Since(deleted).Round(time.Millisecond).String())
		},
	)
})

// sessionsOfMany is how many Sessions share a thousand Turns.
const sessionsOfMany = 10

// deleteAll deletes objects with a propagation policy.
func deleteAll(ctx context.Context, how client.PropagationPolicy, objects ...client.Object) {
	GinkgoHelper()
	for _, object := range objects {
		Expect(api.Delete(ctx, object, how)).To(Succeed())
	}
}

// expectGone waits until none of the objects is left, nor any object of the lists' kinds in the namespace, and reports
// how long that took.
func expectGone(ctx context.Context, namespace string, objects []client.Object, lists ...client.ObjectList) {
	GinkgoHelper()
	began := time.Now()
	Eventually(ctx, func(ctx context.Context) ([]string, error) {
		var left []string
		for _, object := range objects {
			err := api.Get(ctx, keyOf(object), object.DeepCopyObject().(client.Object))
			if err == nil {
				left = append(left, fmt.Sprintf("%T %s", object, object.GetName()))
			} else if !apierrors.IsNotFound(err) {
				return nil, err
			}
		}
		for _, list := range lists {
			if err := api.List(ctx, list, client.InNamespace(namespace)); err != nil {
				return nil, err
			}
			if n := meta.LenList(list); n > 0 {
				left = append(left, fmt.Sprintf("%d in a %T", n, list))
			}
		}
		return left, nil
	}).WithTimeout(deletionLimit).Should(BeEmpty())
	show("nothing was left after", time.Since(began).Round(time.Millisecond).String())
}

// countOf is how many objects of a kind a namespace has, without reading them all.
func countOf(ctx context.Context, namespace, resource string) (int, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(
		v1alpha1.GroupVersion.WithKind(
			map[string]string{"turns": "TurnList", "journalentries": "JournalEntryList"}[resource],
		),
	)
	if err := api.List(ctx, list, client.InNamespace(namespace), client.Limit(1)); err != nil {
		return 0, err
	}
	rest := int64(0)
	if list.RemainingItemCount != nil {
		rest = *list.RemainingItemCount
	}
	return len(list.Items) + int(rest), nil
}
