package turns_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/runtime/hook"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// finalizerWrite adds or removes the finalizer of a Session with hooks at its end.
const finalizerWrite = "PATCH sessions"

// told are the events of hooks that a site has been sent, with their data.
func told(s *site) func() []string {
	return func() []string {
		var all []string
		for _, r := range s.requests() {
			var payload hook.Payload
			Expect(json.Unmarshal([]byte(r.body), &payload)).To(Succeed())
			Expect(payload.TurnID).To(BeNil())
			all = append(all, payload.HookID+" "+string(payload.Event)+" "+string(payload.Data))
		}
		return all
	}
}

var _ = Describe("The hooks of a Session", func() {
	report := func(event v1alpha1.HookEvent, s *site) v1alpha1.Hook {
		name := map[v1alpha1.HookEvent]string{
			v1alpha1.HookEventSessionStart: "hello", v1alpha1.HookEventSessionEnd: "bye",
		}[event]
		return v1alpha1.Hook{Name: name, Event: event, Webhook: &v1alpha1.WebhookHook{URL: s.URL + "/"}}
	}
	hooked := func(namespace string, hooks ...v1alpha1.Hook) *v1alpha1.Session {
		session := builder.Session("demo").In(namespace).Obj()
		session.Spec.Hooks = hooks
		return session
	}
	goneFrom := func(ctx context.Context, namespace string) func() bool {
		return func() bool {
			key := client.ObjectKey{Namespace: namespace, Name: "demo"}
			return apierrors.IsNotFound(kit.Client.Get(ctx, key, &v1alpha1.Session{}))
		}
	}
	deleted := func(ctx context.Context, namespace string) {
		GinkgoHelper()
		Expect(kit.Client.Delete(ctx, builder.Session("demo").In(namespace).Obj())).To(Succeed())
	}

	// Rules: HOOK-01, HOOK-15.
	It("run once at its start and once at its end, and cost 3 writes", func(ctx context.Context) {
		s := newSite(responds(`{"decision": "block", "reason": "not now"}`))
		namespace := newNamespace(ctx, builder.Script("done"))
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		create(ctx, hooked(namespace, report(v1alpha1.HookEventSessionStart, s), report(v1alpha1.HookEventSessionEnd, s)))
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		expectReleased(ctx, namespace, "demo")
		status := sessionOf(ctx, namespace, "demo").Status
		Expect(status.Hooks.StartedAt).NotTo(BeNil())
		Expect(status.Hooks.Start).To(ConsistOf(v1alpha1.HookOutcome{
			ID: "session:hello", Decision: v1alpha1.HookDecisionBlock, Reason: "not now",
		}))
		deleted(ctx, namespace)
		Eventually(goneFrom(ctx, namespace)).Should(BeTrue())
		Expect(told(s)()).To(Equal([]string{
			`session:hello session_start {"agent_id":null}`, `session:bye session_end {"reason":"deleted"}`,
		}))
		keys := map[string]bool{}
		for _, r := range s.requests() {
			keys[r.Header.Get("Idempotency-Key")] = true
		}
		Expect(keys).To(HaveLen(2), "each run has a key of its own")
	})

	It("that look at neither cost nothing", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("done"))
		create(ctx, hooked(namespace, v1alpha1.Hook{
			Name: "guard", Event: v1alpha1.HookEventTurnEnd, CEL: &v1alpha1.CELHook{Expression: "true"},
		}))
		Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseStarted))
		session := sessionOf(ctx, namespace, "demo")
		Expect(session.Finalizers).To(BeEmpty())
		Expect(session.Status.Hooks).To(BeNil())
		Expect(requests.in(namespace)).To(ContainElement(sessionWrite))
		Expect(requests.in(namespace)).NotTo(ContainElement(finalizerWrite))
	})

	It("run at its end with their Secrets, though the Harness that they come from is gone", func(ctx context.Context) {
		s := newSite(responds(""))
		namespace := newNamespace(ctx, builder.Script("done"))
		create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: "audit", Annotations: map[string]string{
					v1alpha1.AnnotationAllowedHosts: strings.TrimPrefix(s.URL, "https://"),
				},
			},
			StringData: map[string]string{"token": "12345"},
		})
		harness := &v1alpha1.Harness{}
		harness.Namespace, harness.Name = namespace, "audited"
		harness.Spec.Hooks = []v1alpha1.Hook{report(v1alpha1.HookEventSessionEnd, s)}
		harness.Spec.Hooks[0].Webhook.Headers = []v1alpha1.WebhookHeader{{
			Name: "X-Token", SecretKeyRef: &v1alpha1.SecretKeyReference{Name: "audit", Key: "token"},
		}}
		create(ctx, harness)
		session := hooked(namespace)
		session.Spec.HarnessRef.Name = "audited"
		create(ctx, session)
		Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseStarted))
		Expect(kit.Client.Delete(ctx, harness)).To(Succeed())
		Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhasePending))
		deleted(ctx, namespace)
		Eventually(goneFrom(ctx, namespace)).Should(BeTrue())
		Expect(told(s)()).To(Equal([]string{`harness/audited:bye session_end {"reason":"deleted"}`}))
		Expect(s.requests()[0].Header.Get("X-Token")).To(Equal("12345"))
	})

	DescribeTable("let it be deleted",
		func(ctx context.Context, unusable func(*v1alpha1.Hook)) {
			s := newSite(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
			namespace := newNamespace(ctx, builder.Script("done"))
			bye := report(v1alpha1.HookEventSessionEnd, s)
			unusable(&bye)
			create(ctx, hooked(namespace, bye))
			Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseStarted))
			deleted(ctx, namespace)
			Eventually(goneFrom(ctx, namespace)).Should(BeTrue())
		},
		Entry("though the webhook fails", func(*v1alpha1.Hook) {}),
		Entry("though the Secret of a header does not exist", func(h *v1alpha1.Hook) {
			h.Webhook.Headers = []v1alpha1.WebhookHeader{{
				Name: "X-Token", SecretKeyRef: &v1alpha1.SecretKeyReference{Name: "missing", Key: "token"},
			}}
		}),
		Entry("though a script fails", func(h *v1alpha1.Hook) {
			h.Webhook, h.Bash = nil, &v1alpha1.BashHook{Command: "cat missing; exit 3"}
		}),
	)

	It("do not run in a namespace that is being deleted, and keep nothing there", func(ctx context.Context) {
		s := newSite(responds(""))
		namespace := newNamespace(ctx, builder.Script("done"))
		create(ctx, hooked(namespace, report(v1alpha1.HookEventSessionEnd, s)))
		Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseStarted))
		Expect(sessionOf(ctx, namespace, "demo").Finalizers).To(Equal([]string{v1alpha1.FinalizerSessionEnd}))
		Expect(kit.Client.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})).To(Succeed())
		deleted(ctx, namespace)
		Eventually(goneFrom(ctx, namespace)).Should(BeTrue())
		Expect(told(s)()).To(BeEmpty())
	})

	It("that are too long to be kept for its end keep it from being ready", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("done"))
		var all []v1alpha1.Hook
		for _, name := range []string{"a", "b"} {
			all = append(all, v1alpha1.Hook{
				Name: name, Event: v1alpha1.HookEventSessionEnd, Bash: &v1alpha1.BashHook{
					Command: "# " + strings.Repeat("a", 12<<10),
				},
			})
		}
		create(ctx, hooked(namespace, all...))
		Eventually(func(g Gomega) {
			session := sessionOf(ctx, namespace, "demo")
			g.Expect(session.Status.Conditions).To(ContainElement(And(
				HaveField("Reason", v1alpha1.ReasonHookInvalid),
				HaveField("Message", ContainSubstring("at most 16384 are allowed")),
			)))
		}).Should(Succeed())
		deleted(ctx, namespace)
		Eventually(goneFrom(ctx, namespace)).Should(BeTrue())
	})
})
