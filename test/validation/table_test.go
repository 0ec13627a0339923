package validation_test

import (
	"context"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/runtime/apivalidation"
)

// ruleCase shows one rule at work. Its objects are the smallest object of the kind with a patch put on top (see
// patched).
type ruleCase struct {
	// rule is the id of the constraint: schema path, keyword and detail.
	rule string
	// stored is the patch of the object that exists already, for rules about changes. Without it the objects are created.
	stored string
	// accepted and rejected are the patches of the objects that are created, or that the stored one is changed to.
	accepted, rejected string
	// message is what a user sees of the rejection. For a rule in CEL it may be left out: then it is the rule's own
	// message.
	message string
}

// unchanged is the patch that changes nothing.
const unchanged = `{}`

var casesByKind = map[string][]ruleCase{
	"Agent":      agentCases,
	"Budget":     budgetCases,
	"Capability": slices.Concat(capabilityCases, blueprintCases),
	"Harness":    harnessCases,
	"MCPServer":  slices.Concat(serverCases, serverEndpointCases),
	"Model":      slices.Concat(modelCases, modelEndpointCases, parameterCases, priceCases, simulationCases),
	"Schedule":   scheduleCases(),
	"Session":    slices.Concat(sessionCases, blueprintSessionCases, originCases(), scheduleOriginCases()),
	"Tool": slices.Concat(toolCases, jobCases, httpCases, httpEndpointCases, paymentCases, agentToolCases, leaseCases,
		blueprintReferenceCases("agent.", "client: null, agent: {", "}")),
	"ToolResult": toolResultCases,
	"Turn":       slices.Concat(turnCases, messageCases, originCases(), taskOriginCases(), scheduleOriginCases()),
}

var _ = Describe("Rules", func() {
	for _, kind := range userKinds {
		Describe(kind, func() {
			rules := map[string]constraint{}
			for _, c := range constraintsOf(kind) {
				rules[c.id()] = c
			}
			for i, rc := range casesByKind[kind] {
				It(fmt.Sprintf("enforces %s (case %d)", rc.rule, i+1), func(ctx context.Context) {
					rule, known := rules[rc.rule]
					Expect(known).To(BeTrue(), "no schema of %s has the rule %q: take the case away or correct it", kind, rc.rule)
					if rc.message == "" && rule.keyword == keywordRule {
						rc.message = rule.detail
					}
					Expect(rc.message).NotTo(BeEmpty(), "a case needs the message for the user")

					try := trier(ctx, kind, i, rc.stored)
					Expect(try(rc.accepted)).To(Succeed())
					err := try(rc.rejected)
					Expect(apierrors.IsInvalid(err)).To(BeTrue(), "must be rejected as invalid, got: %v", err)
					Expect(err).To(MatchError(ContainSubstring(rc.message)))
					if rc.stored == "" {
						expectInProcess(kind, rule, rc)
					}
				})
			}
		})
	}

	// Rules: CLIENT-01, VEC-16, VEC-27.
	It("has a case for every rule of every schema", func() {
		for _, kind := range userKinds {
			for _, c := range constraintsOf(kind) {
				if c.mechanical() {
					continue
				}
				covered := slices.ContainsFunc(casesByKind[kind], func(rc ruleCase) bool { return rc.rule == c.id() })
				Expect(covered).To(BeTrue(), "%s has no case for %q", kind, c.id())
			}
		}
	})
})

// expectInProcess shows that the runtime in process takes and refuses what the API server does.
func expectInProcess(kind string, rule constraint, rc ruleCase) {
	GinkgoHelper()
	Expect(admitInProcess(kind, patched(smallest(kind), rc.accepted))).To(Succeed(), "in process")
	err := admitInProcess(kind, patched(smallest(kind), rc.rejected))
	Expect(err).To(HaveOccurred(), "accepted in process")
	if rule.keyword == keywordRule {
		Expect(err).To(MatchError(ContainSubstring(rule.detail)), "in process")
	}
}

// admitInProcess does what the runtime in process does to an object of a manifest.
func admitInProcess(kind string, object *unstructured.Unstructured) error {
	if object.GetName() == "" {
		object.SetName(object.GetGenerateName() + "x")
	}
	document, err := object.MarshalJSON()
	if err != nil {
		return err
	}
	admitted, err := apivalidation.Decode(kind, document)
	if err != nil {
		return err
	}
	return apivalidation.Admit(admitted)
}

// trier returns a function that returns the API server's error for a patch: of an object that is created, or of one
// that is stored first and then changed. Nothing but the stored object is kept.
func trier(ctx context.Context, kind string, number int, stored string) func(patch string) error {
	GinkgoHelper()
	if stored == "" {
		return func(patch string) error { return createDryRun(ctx, patched(smallest(kind), patch)) }
	}
	existing := patched(smallest(kind), stored)
	existing.SetNamespace(storedNamespace)
	existing.SetName(fmt.Sprintf("case-%d", number))
	Expect(api.Create(ctx, existing)).To(Succeed())
	DeferCleanup(func(ctx context.Context) error { return client.IgnoreNotFound(api.Delete(ctx, existing)) })
	return func(patch string) error {
		changed := patched(withoutServerFields(existing), patch)
		changed.SetResourceVersion(existing.GetResourceVersion())
		return api.Update(ctx, changed, client.DryRunAll)
	}
}

// withoutServerFields is an object as a user would write it.
func withoutServerFields(object *unstructured.Unstructured) *unstructured.Unstructured {
	clean := &unstructured.Unstructured{Object: map[string]any{"spec": object.DeepCopy().Object["spec"]}}
	clean.SetGroupVersionKind(object.GroupVersionKind())
	clean.SetName(object.GetName())
	clean.SetNamespace(object.GetNamespace())
	return clean
}
