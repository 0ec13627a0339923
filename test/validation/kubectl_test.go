package validation_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/test/internal/suite"
)

// wideSpace is the space between two of kubectl's columns, whose names may have a space in them.
var wideSpace = regexp.MustCompile(`\s{2,}`)

// publishTimeout bounds what the API server does some time after it answered.
const publishTimeout = 30 * time.Second

var _ = Describe("kubectl", func() {
	for _, kind := range append([]string{"JournalEntry", "Record"}, userKinds...) {
		definition := definitionsByKind()[kind]
		singular := definition.Spec.Names.Singular

		for _, part := range []string{"spec", "status"} {
			schema, found := rootSchema(definition).Properties[part]
			if !found {
				continue
			}
			It(fmt.Sprintf("explains every field of %s.%s", singular, part), func(ctx context.Context) {
				explanation := explain(ctx, singular+"."+part)
				Expect(explanation).NotTo(ContainSubstring("<no description>"))
				Expect(explanation).To(ContainSubstring(oneLine(schema.Description)))
				for name, field := range schema.Properties {
					Expect(explanation).To(MatchRegexp(`\b%s <`, name))
					Expect(explanation).To(ContainSubstring(oneLine(field.Description)), name)
				}
			})
		}

		It(fmt.Sprintf("explains %s", singular), func(ctx context.Context) {
			Expect(explain(ctx, singular)).To(ContainSubstring(oneLine(rootSchema(definition).Description)))
		})
	}

	DescribeTable(
		"prints the columns that people look for",
		func(ctx context.Context, kind string, columns ...string) {
			object := specimensOf(kind)[0].object(storedNamespace)
			Expect(api.Create(ctx, object)).To(Succeed())
			DeferCleanup(func(ctx context.Context) error { return client.IgnoreNotFound(api.Delete(ctx, object)) })

			table := strings.Split(
				kubectl(ctx, "get", definitionsByKind()[kind].Spec.Names.Plural, "--namespace", storedNamespace),
				"\n",
			)
			Expect(wideSpace.Split(strings.TrimSpace(table[0]), -1)).To(Equal(columns))
			Expect(table[1]).To(HavePrefix(object.GetName()))
		},
		Entry("of Turns", "Turn", "NAME", "SESSION", "PHASE", "ITERATION", "CALLS", "TOKENS", "REASON", "AGE"),
		Entry(
			"of Sessions",
			"Session",
			"NAME",
			"PHASE",
			"TITLE",
			"HARNESS",
			"ACTIVE TURN",
			"TURNS",
			"TOKENS",
			"READY",
			"REASON",
			"AGE",
		),
		Entry("of Models", "Model", "NAME", "PROVIDER", "MODEL", "DEFAULT", "READY", "AGE"),
		Entry("of Capabilities", "Capability", "NAME", "RISK", "LIFECYCLE", "READY", "AGE"),
		Entry("of Budgets", "Budget", "NAME", "LIMIT", "UNIT", "CURRENCY", "WINDOW", "SPENT", "RESERVED", "BALANCE",
			"EXHAUSTED", "AGE"),
		Entry("of MCPServers", "MCPServer", "NAME", "URL", "DISCOVERED", "READY", "AGE"),
		Entry("of Schedules", "Schedule", "NAME", "SCHEDULE", "AT", "SESSION", "SUSPEND", "LAST SCHEDULE", "NEXT SCHEDULE",
			"READY", "REASON", "AGE"),
		Entry("of Tools", "Tool", "NAME", "SIDE EFFECT", "IMAGE", "TIMEOUT", "READY", "AGE"),
		Entry("of Harnesses", "Harness", "NAME", "PARENT", "LIFECYCLE", "READY", "AGE"),
		Entry("of Agents", "Agent", "NAME", "LIFECYCLE", "READY", "AGE"),
		Entry("of ToolResults", "ToolResult", "NAME", "TURN", "CALL", "ACCEPTED", "REASON", "AGE"),
	)

	It("shows a new Turn as queued", func(ctx context.Context) {
		turn := specimensOf("Turn")[0].object(storedNamespace)
		turn.SetName("seen-queued")
		Expect(api.Create(ctx, turn)).To(Succeed())
		DeferCleanup(func(ctx context.Context) error { return api.Delete(ctx, turn) })
		Expect(
			kubectl(ctx, "get", "turn", "seen-queued", "--namespace", storedNamespace),
		).To(MatchRegexp(`seen-queued\s+demo\s+Queued\s+\d+s\s`))
	})

	It("shows the title of a Session", func(ctx context.Context) {
		session := specimensOf("Session")[0].object(storedNamespace)
		session.SetName("seen-title")
		Expect(api.Create(ctx, session)).To(Succeed())
		DeferCleanup(func(ctx context.Context) error { return api.Delete(ctx, session) })
		Expect(
			kubectl(ctx, "get", "session", "seen-title", "--namespace", storedNamespace),
		).To(MatchRegexp(`seen-title\s+Ada's case against the harbour\s+base\s`))
	})

	DescribeTable(
		"shows the cost in the first currency with --output wide",
		func(ctx context.Context, kind, status string) {
			object := specimensOf(kind)[0].object(storedNamespace)
			object.SetName("seen-cost")
			Expect(api.Create(ctx, object)).To(Succeed())
			DeferCleanup(func(ctx context.Context) error { return api.Delete(ctx, object) })
			Expect(api.Status().Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(status)))).To(Succeed())
			get := []string{"get", strings.ToLower(kind), "seen-cost", "--namespace", storedNamespace}
			Expect(kubectl(ctx, get...)).NotTo(ContainSubstring("0.000975"))
			Expect(kubectl(ctx, append(get, "--output", "wide")...)).To(And(
				MatchRegexp(`\sCOST\s+CURRENCY\s`),
				MatchRegexp(`\s0\.000975\s+USD\s`),
			))
		},
		Entry(
			"of a Turn",
			"Turn",
			`{"status":{"summary":{"cost":[{"currency":"USD","amount":"0.000975"},{"currency":"ZAR","amount":"2"}]}}}`,
		),
		Entry(
			"of a Session",
			"Session",
			`{"status":{"totals":{"cost":[{"currency":"USD","amount":"0.000975"},{"currency":"ZAR","amount":"2"}]}}}`,
		),
	)

	It("lists only the kinds that users write under the category capstan", func(ctx context.Context) {
		resources := strings.Fields(kubectl(ctx, "api-resources", "--categories", "capstan", "--output", "name"))
		var expected []string
		for _, kind := range userKinds {
			expected = append(expected, definitionsByKind()[kind].Name)
		}
		Expect(resources).To(ConsistOf(expected))
	})
})

// explain waits for the API server to publish the schemas, which it does some time after it accepted them.
func explain(ctx context.Context, what string) string {
	GinkgoHelper()
	var explanation string
	Eventually(func() error {
		output, err := runKubectl(ctx, "explain", what)
		explanation = oneLine(output)
		return err
	}).WithContext(ctx).WithTimeout(publishTimeout).Should(Succeed())
	return explanation
}

func kubectl(ctx context.Context, arguments ...string) string {
	GinkgoHelper()
	output, err := runKubectl(ctx, arguments...)
	Expect(err).NotTo(HaveOccurred())
	return output
}

func runKubectl(ctx context.Context, arguments ...string) (string, error) {
	program := suite.KubectlPath()
	fixed := []string{
		"--kubeconfig",
		server.Kubeconfig,
		"--cache-dir",
		filepath.Join(filepath.Dir(server.Kubeconfig), "cache"),
		"--request-timeout",
		"30s",
	}
	output, err := exec.CommandContext(ctx, program, append(fixed, arguments...)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(arguments, " "), err, output)
	}
	return string(output), nil
}

// oneLine takes away how a text was wrapped.
func oneLine(text string) string {
	return strings.Join(strings.Fields(text), " ")
}
