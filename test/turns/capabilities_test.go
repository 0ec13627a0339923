package turns_test

import (
	"context"
	"fmt"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// Rules: CAP-04, CFG-03, CFG-10.
var _ = Describe("A capability of a Session", func() {
	clock := func(config string) []v1alpha1.CapabilityReference {
		return []v1alpha1.CapabilityReference{{Builtin: "current_time", Config: &v1alpha1.JSON{Raw: []byte(config)}}}
	}

	It("has the configuration of the lowest layer", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("It is {{tool:get_current_time}}", builder.Calls("get_current_time")))
		session := builder.Session("demo").In(namespace).Obj()
		session.Spec.Capabilities = clock(`{"timezone":"Asia/Tokyo"}`)
		create(ctx, session, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		turn, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(turn.Status.Output).To(ContainSubstring("Asia/Tokyo"))
	})

	It("reads pages of the web where the network access list permits it", func(ctx context.Context) {
		s := newSite(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte("<h1>Home</h1>"))
		})
		read := func(url string) []v1alpha1.SimulatedToolCall {
			return []v1alpha1.SimulatedToolCall{{
				Name: "web_fetch", Arguments: &v1alpha1.JSON{Raw: []byte(fmt.Sprintf(`{"url":%q}`, url))},
			}}
		}
		script := builder.Script("It says {{tool:web_fetch}}", read(s.URL+"/secret"), read(s.URL+"/page"))
		namespace := newNamespace(ctx, script)
		session := builder.Session("demo").In(namespace).Obj()
		session.Spec.Capabilities = []v1alpha1.CapabilityReference{{Builtin: "web_fetch"}}
		session.Spec.NetworkAccess = &v1alpha1.NetworkAccess{
			Blocked: []v1alpha1.NetworkPattern{v1alpha1.NetworkPattern(s.URL + "/secret")},
		}
		create(ctx, session, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		turn, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(turn.Status.Output).To(ContainSubstring("# Home"))
		Expect(turn).To(capstantest.HaveToolCall(
			"web_fetch", v1alpha1.ToolCallStateSucceeded, v1alpha1.ToolCallReasonCompleted))
		Expect(s.requests()).To(HaveLen(1))
	})

	It("stops a Turn before its next model call when it cannot be used any more", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("done", builder.Calls("ask-ann")), builder.ClientTool("ask-ann").Obj())
		session := builder.Session("demo").In(namespace).Obj()
		session.Spec.Capabilities = clock(`{"timezone":"Asia/Tokyo"}`)
		create(ctx, session, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForTools("ask-ann"))
		change(ctx, session, `{"spec":{"capabilities":[{"builtin":"current_time","config":{"timezone":"Mars/Olympus"}}]}}`)
		create(ctx, builder.ToolResult("answer", "1-0").In(namespace).Turn("demo-1").Result("Yes.").Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveFailed(v1alpha1.ReasonDependencyUnavailable))
		turn, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(turn.Status.Error.Message).To(ContainSubstring("a capability cannot be used"))
	})
})
