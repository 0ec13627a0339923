package turns_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/ptr"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/config/crd"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	sites "github.com/capstan-dev/capstan/internal/testing/site"
)

var _ = Describe("The columns of kubectl get", func() {
	// columns are of all kinds, as "Kind: Column".
	columns := func() []string {
		GinkgoHelper()
		definitions, err := crd.Definitions()
		Expect(err).NotTo(HaveOccurred())
		var all []string
		for _, definition := range definitions {
			for _, column := range definition.Spec.Versions[0].AdditionalPrinterColumns {
				all = append(all, definition.Spec.Names.Kind+": "+column.Name)
			}
		}
		return all
	}

	It("each print a value", func(ctx context.Context) {
		s := newSite(sites.MCPHandler(sites.Stateless, sites.Echo("find")).ServeHTTP)
		namespace := withEveryColumn(ctx, s)
		empty := map[string]bool{}
		for _, column := range columns() {
			empty[column] = true
		}
		leasing := newSandboxes(responds("done")).begin(ctx)
		respond(ctx, leasing, "demo-1", "begin")
		look := func() map[string]bool {
			GinkgoHelper()
			for _, column := range append(printed(ctx, namespace), printed(ctx, leasing)...) {
				delete(empty, column)
			}
			return empty
		}

		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForApproval("pay"))
		Eventually(look).ShouldNot(Or(HaveKey("Session: Active Turn"), HaveKey("Schedule: Active")))
		create(ctx, decision(ctx, namespace, "decision", "demo-1", "1-0", v1alpha1.DecisionApprove))
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		Eventually(look).Should(BeEmpty(), "these columns printed a value for no object")
	})
})

// withEveryColumn starts a Turn that waits for an approval, in a namespace whose objects have a value for each column
// of their kinds.
func withEveryColumn(ctx context.Context, s *site) string {
	GinkgoHelper()
	pay := guarded(s.tool("pay", v1alpha1.SideEffectPure))
	write := fileCall("write_file", `{"path":"/a","content":"a"}`)
	namespace := newNamespace(ctx, builder.Script(
		"It costs {{tool:pay}}.", []v1alpha1.SimulatedToolCall{builder.Call("pay"), write}), pay)
	setPrice(ctx, namespace, builder.ModelName, priceOf("EUR", "1", "2"))
	model := &v1alpha1.Model{}
	model.Namespace, model.Name = namespace, builder.ModelName
	change(ctx, model, `{"spec":{"model":"simulated-1"}}`)

	bundle := research(namespace)
	bundle.Spec.Tools = nil
	bundle.Spec.Description, bundle.Spec.RiskLevel = "Looks things up.", v1alpha1.CapabilityRiskMedium
	bundle.Spec.Lifecycle = v1alpha1.LifecycleActive
	agent := builder.Agent("ann").In(namespace).Obj()
	session := builder.Session("demo").In(namespace).Obj()
	session.Spec.Title, session.Spec.AgentRef = "A talk", &v1alpha1.LocalReference{Name: "ann"}
	session.Spec.Capabilities = []v1alpha1.CapabilityReference{{Builtin: "session_file_system"}}
	server := serverAt(s)
	server.Namespace = namespace
	writer, titled := writerOf(namespace, "titled", "A greeting")
	titled.Spec.ModelRef = &v1alpha1.LocalReference{Name: writer.Name}
	create(ctx,
		writer, titled, builder.Turn("titled-1").In(namespace).Session("titled").Obj(),
		bundle, agent, server,
		builder.JobTool("look", v1alpha1.SideEffectPure).In(namespace).Obj(),
		builder.Harness("child").In(namespace).Parent("base").Obj(),
		session, builder.Turn("demo-1").In(namespace).Obj(),
		builder.Budget("all", "1000000").In(namespace).Tokens().Obj(),
		builder.Budget("others", "1").In(namespace).Labelled("team", "other").Obj(),
		scheduleOf(namespace, "weekly", func(spec *v1alpha1.ScheduleSpec) {
			spec.Schedule, spec.TimeZone = "@weekly", "Europe/Berlin"
		}),
		scheduleOf(namespace, "off", func(spec *v1alpha1.ScheduleSpec) {
			spec.Schedule, spec.Suspend = "@weekly", ptr.To(true)
		}),
		// Its Turn waits behind the first one.
		scheduleOf(namespace, "once", func(spec *v1alpha1.ScheduleSpec) {
			spec.At = ptr.To(metav1.NewTime(time.Now().Add(3 * time.Second).Truncate(time.Second)))
		}),
	)
	return namespace
}

// printed returns the columns in which the API server prints a value for any object of a namespace, as "Kind: Column".
func printed(ctx context.Context, namespace string) []string {
	GinkgoHelper()
	api, err := discovery.NewDiscoveryClientForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	definitions, err := crd.Definitions()
	Expect(err).NotTo(HaveOccurred())
	var found []string
	for _, definition := range definitions {
		table := &metav1.Table{}
		Expect(api.RESTClient().Get().
			AbsPath("apis", v1alpha1.GroupVersion.String(), "namespaces", namespace, definition.Spec.Names.Plural).
			SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").
			Do(ctx).Into(table)).To(Succeed())
		for i, column := range table.ColumnDefinitions {
			for _, row := range table.Rows {
				switch strings.TrimSpace(fmt.Sprint(row.Cells[i])) {
				case "", "<nil>", "<none>", "<unknown>":
				default:
					found = append(found, definition.Spec.Names.Kind+": "+column.Name)
				}
			}
		}
	}
	return found
}
