package turns_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/controller/status"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

var _ = Describe("A network access list", func() {
	const cutOff = `{"spec":{"job":{"network":"None"}}}`
	counting := builder.Script("It is {{tool:count}}.", builder.Calls("count"))
	inside := func(patterns ...v1alpha1.NetworkPattern) *v1alpha1.NetworkAccess {
		return &v1alpha1.NetworkAccess{Allowed: patterns}
	}
	// listed is a Session with a list of its own, and a Turn.
	listed := func(ctx context.Context, namespace string, access *v1alpha1.NetworkAccess) *v1alpha1.Session {
		session := builder.Session("demo").In(namespace).Obj()
		session.Spec.NetworkAccess = access
		create(ctx, session)
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		return session
	}
	ready := func(ctx context.Context, object client.Object) func() (metav1.Condition, error) {
		return func() (metav1.Condition, error) {
			err := kit.Client.Get(ctx, client.ObjectKeyFromObject(object), object)
			if c := meta.FindStatusCondition(status.Conditions(object), v1alpha1.ConditionReady); c != nil {
				return *c, err
			}
			return metav1.Condition{}, err
		}
	}
	unenforceable := And(
		HaveField("Status", metav1.ConditionFalse),
		HaveField("Reason", v1alpha1.ReasonNetworkAccessUnenforceable),
		HaveField(
			"Message",
			And(ContainSubstring(`"count"`), ContainSubstring("job.network"), ContainSubstring("exemptTools")),
		),
	)

	It("keeps a Session waiting while it cannot be enforced for its Jobs", func(ctx context.Context) {
		tool := builder.JobTool("count", v1alpha1.SideEffectPure).Obj()
		namespace := newNamespace(ctx, counting, tool)
		session := listed(ctx, namespace, inside("example.org"))
		Eventually(ready(ctx, session)).Should(unenforceable)
		Expect(turnPhase(ctx, namespace, "demo-1")()).To(BeElementOf(v1alpha1.TurnPhase(""), v1alpha1.TurnPhaseQueued))

		By("cutting the tool off")
		change(ctx, tool, cutOff)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		Expect(countOf(requests.in(namespace), networkWrite)).To(Equal(1))
	})

	It("lets Jobs run that it exempts by name", func(ctx context.Context) {
		namespace := newNamespace(ctx, counting, builder.JobTool("count", v1alpha1.SideEffectPure).Obj())
		access := inside("example.org")
		access.ExemptTools = []v1alpha1.LocalReference{{Name: "count"}}
		listed(ctx, namespace, access)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		Expect(countOf(requests.in(namespace), jobWrite)).To(Equal(1))
	})

	It("is reported by the Harness and the Agent that have it", func(ctx context.Context) {
		tool := builder.JobTool("count", v1alpha1.SideEffectPure).Obj()
		namespace := newNamespace(ctx, counting, tool)
		layer := v1alpha1.ConfigLayer{
			Tools:         []v1alpha1.LocalReference{{Name: "count"}},
			NetworkAccess: &v1alpha1.NetworkAccess{Blocked: []v1alpha1.NetworkPattern{"example.org"}},
		}
		name := metav1.ObjectMeta{Namespace: namespace, Name: "listed"}
		objects := []client.Object{
			&v1alpha1.Harness{ObjectMeta: name, Spec: v1alpha1.HarnessSpec{ConfigLayer: layer}},
			&v1alpha1.Agent{ObjectMeta: name, Spec: v1alpha1.AgentSpec{ConfigLayer: layer}},
		}
		for _, object := range objects {
			create(ctx, object)
			Eventually(ready(ctx, object)).Should(unenforceable)
		}
		change(ctx, tool, cutOff)
		for _, object := range objects {
			Eventually(ready(ctx, object)).Should(HaveField("Status", metav1.ConditionTrue))
		}
	})

	It("that is set while a Turn runs applies to calls that have not started", func(ctx context.Context) {
		namespace := newNamespace(
			ctx,
			builder.Script("It is {{tool:count}}.", builder.Calls("ask-ann"), builder.Calls("count")),
			builder.ClientTool("ask-ann").Obj(),
			builder.JobTool("count", v1alpha1.SideEffectAtMostOnce).Obj(),
		)
		session := listed(ctx, namespace, nil)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForTools("ask-ann"))
		change(ctx, session, `{"spec":{"networkAccess":{"allowed":["example.org"]}}}`)
		Eventually(ready(ctx, session)).Should(unenforceable)

		create(ctx, builder.ToolResult("ann", "1-0").In(namespace).Result("go on").Obj())
		turn := answered(ctx, namespace)
		Expect(
			turn,
		).To(
			capstantest.HaveToolCall(
				"count", v1alpha1.ToolCallStateNotExecuted, v1alpha1.ToolCallReasonNetworkAccessUnenforceable,
			),
		)
		Expect(turn.Status.Output).To(ContainSubstring("the networkAccess in effect cannot be enforced for this tool"))
		Expect(requests.in(namespace)).NotTo(ContainElement(jobWrite))
	})

	// Rules: CFG-05, CTX-05.
	It("holds the requests of HTTP tools, and where they are redirected to", func(ctx context.Context) {
		s := newSite(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/away" {
				http.Redirect(w, r, "/v2/secret", http.StatusTemporaryRedirect)
			}
		})
		paths := map[string]string{"within": "/v1/a", "outside": "/v2/a", "dotted": "/v1/../v2/a", "away": "/v1/away"}
		var calls []v1alpha1.SimulatedToolCall
		var tools []*v1alpha1.Tool
		for _, name := range slices.Sorted(maps.Keys(paths)) {
			tool := s.tool(name, v1alpha1.SideEffectPure)
			tool.Spec.HTTP.URL = s.URL + paths[name]
			calls, tools = append(calls, builder.Call(name)), append(tools, tool)
		}
		namespace := newNamespace(ctx, builder.Script("done", calls), tools...)
		listed(ctx, namespace, inside(v1alpha1.NetworkPattern(s.URL+"/v1/")))

		ends := map[string]string{}
		for _, c := range answered(ctx, namespace).Status.ToolCalls {
			ends[c.Name] = fmt.Sprintf("%s %s", c.State, c.Reason)
		}
		Expect(ends).To(Equal(map[string]string{
			"within": "Succeeded Completed", "outside": "NotExecuted NetworkAccessDenied",
			"dotted": "NotExecuted NetworkAccessDenied", "away": "Failed RedirectRefused",
		}))
		var got []string
		for _, r := range s.requests() {
			got = append(got, r.URL.Path)
		}
		Expect(got).To(ConsistOf("/v1/a", "/v1/away"))
	})
})
