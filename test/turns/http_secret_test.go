package turns_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/test/internal/conditions"
)

var _ = Describe("A Secret in a header of an HTTP tool", func() {
	const token = "Bearer s3cr3t-0f-the-specs"

	secret := func(ctx context.Context, namespace string, hosts ...string) {
		GinkgoHelper()
		s := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "api"},
			StringData: map[string]string{"token": token + "\n"},
		}
		if len(hosts) > 0 {
			s.Annotations = map[string]string{v1alpha1.AnnotationAllowedHosts: strings.Join(hosts, ",")}
		}
		create(ctx, s)
	}
	withSecret := func(s *site, class v1alpha1.SideEffect) *v1alpha1.Tool {
		tool := s.tool("ask", class)
		tool.Spec.HTTP.Headers = []v1alpha1.HTTPHeader{
			{Name: "Authorization", SecretKeyRef: &v1alpha1.SecretKeyReference{Name: "api", Key: "token"}},
		}
		return tool
	}
	start := func(ctx context.Context, tool *v1alpha1.Tool, hosts ...string) string {
		GinkgoHelper()
		namespace := newNamespace(ctx, builder.Script("Told: {{tool:ask}}", builder.Calls("ask")), tool)
		secret(ctx, namespace, hosts...)
		create(ctx, builder.Session("demo").In(namespace).Obj())
		create(ctx, builder.Turn("demo-1").In(namespace).Input("Ask").Obj())
		return namespace
	}

	DescribeTable("is sent to the server, and appears in no other place", func(
		ctx context.Context, class v1alpha1.SideEffect, code int,
	) {
		s := newSite(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(code)
			_, _ = fmt.Fprintf(w, "You said %s.", r.Header.Get("Authorization"))
		})
		namespace := start(ctx, withSecret(s, class))
		turn := answered(ctx, namespace)
		Expect(s.requests()[0].Header.Get("Authorization")).To(Equal(token))
		Expect(turn.Status.Output).To(ContainSubstring("You said [redacted]."))
		for what, object := range map[string]any{"the Turn": turn, "the log": journalOf(ctx, namespace)} {
			raw, err := json.Marshal(object)
			Expect(err).NotTo(HaveOccurred())
			Expect(string(raw)).NotTo(ContainSubstring("s3cr3t"), what)
		}
		expectFewEvents(ctx, namespace)
		Expect(managerLog.contains("s3cr3t")).To(BeFalse(), "the manager has logged it")
	},
		Entry("with a result", v1alpha1.SideEffectPure, 200),
		Entry("with a result that the log keeps", v1alpha1.SideEffectAtMostOnce, 200),
		Entry("with an error", v1alpha1.SideEffectAtMostOnce, 401),
	)

	It("does not follow a redirect to another place", func(ctx context.Context) {
		other := newSite(responds("here"))
		s := newSite(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, http.StatusFound) })
		turn := answered(ctx, start(ctx, withSecret(s, v1alpha1.SideEffectPure)))
		Expect(turn).To(capstantest.HaveToolCall("ask", v1alpha1.ToolCallStateFailed, v1alpha1.ToolCallReasonRedirectRefused))
		Expect(other.requests()).To(BeEmpty())
	})

	It("goes to the hosts that it is bound to, as it is when the request is sent", func(ctx context.Context) {
		s := newSite(responds("fine"))
		host := strings.TrimPrefix(s.URL, "https://")
		namespace := start(ctx, withSecret(s, v1alpha1.SideEffectPure), "api.example.org", host)
		Expect(answered(ctx, namespace).Status.Output).To(Equal("Told: fine"))
		change(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "api"}},
			`{"metadata":{"annotations":{"capstan.dev/allowed-hosts":"api.example.org"}}}`)
		create(ctx, builder.Turn("demo-2").In(namespace).Input("Ask again").Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-2")).Should(capstantest.HaveSucceeded())
		turn, err := kit.Turn(ctx, namespace, "demo-2")()
		Expect(err).NotTo(HaveOccurred())
		Expect(
			turn,
		).To(capstantest.HaveToolCall("ask", v1alpha1.ToolCallStateNotExecuted, v1alpha1.ToolCallReasonSecretUnusable))
		Expect(s.requests()).To(HaveLen(1))
	})

	It("that does not exist is waited for, and the request is sent once it is there", func(ctx context.Context) {
		s := newSite(responds("fine"))
		tool := withSecret(s, v1alpha1.SideEffectAtMostOnce)
		namespace := asking(ctx, tool, "{}")
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(And(
			HaveField("Status.Phase", v1alpha1.TurnPhaseWaiting),
			HaveField("Status.WaitsFor", ConsistOf(And(
				HaveField("Reason", v1alpha1.ReasonSecretMissing),
				HaveField(
					"Message",
					ContainSubstring("kubectl create secret generic api --namespace "+namespace+" --from-literal="),
				),
			))),
		))
		Expect(journalOf(ctx, namespace)).NotTo(ContainElement(HaveField("Claimed", Not(BeNil()))))
		Expect(s.requests()).To(BeEmpty())
		conditions.Print(ctx, kit.Client, "without the Secret of a tool's header", namespace)
		key := tool.Spec.HTTP.Headers[0].SecretKeyRef.Key
		create(
			ctx,
			&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "api"},
				StringData: map[string]string{key: "token"},
			},
		)
		turn := answered(ctx, namespace)
		Expect(turn).To(capstantest.HaveToolCall("ask", v1alpha1.ToolCallStateSucceeded, v1alpha1.ToolCallReasonCompleted))
		Expect(turn.Status.WaitsFor).To(BeEmpty())
		Expect(s.requests()).To(HaveLen(1))
		conditions.Print(ctx, kit.Client, "with the Secret of a tool's header", namespace)
	})
})
