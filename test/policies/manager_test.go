package policies_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/transport"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/test/internal/suite"
)

// managerRights has the manager's rights in a namespace that it works in. It grows on purpose only: a line more
// here is power that the Turns of all users are run with.
var managerRights = []string{
	"batch/jobs: create delete deletecollection get list watch",
	"capstan.dev/agents: get list watch",
	"capstan.dev/agents/status: patch",
	"capstan.dev/budgets: get list watch",
	"capstan.dev/budgets/status: patch",
	"capstan.dev/capabilities: get list watch",
	"capstan.dev/capabilities/status: patch",
	"capstan.dev/harnesses: get list watch",
	"capstan.dev/harnesses/status: patch",
	"capstan.dev/journalentries: create get",
	"capstan.dev/leasedresources: create delete get list patch watch",
	"capstan.dev/leasedresources/status: patch",
	"capstan.dev/mcpservers: get list watch",
	"capstan.dev/mcpservers/status: patch",
	"capstan.dev/models: get list watch",
	"capstan.dev/models/status: patch",
	"capstan.dev/records: create delete get update",
	"capstan.dev/schedules: create delete get list patch watch",
	"capstan.dev/schedules/status: patch",
	"capstan.dev/sessions: create delete get list patch watch",
	"capstan.dev/sessions/status: patch",
	"capstan.dev/toolresults: delete get list watch",
	"capstan.dev/toolresults/status: patch",
	"capstan.dev/tools: get list watch",
	"capstan.dev/tools/status: patch",
	"capstan.dev/turns: create delete get list patch watch",
	"capstan.dev/turns/status: patch",
	"events.k8s.io/events: create patch",
	"events: list",
	"namespaces: get",
	"networking.k8s.io/networkpolicies: create list",
	"pods/log: get",
	"pods: delete get list patch watch",
	"serviceaccounts: create",
	"services: get",
}

// clusterRights are those of every install in the cluster as a whole.
var clusterRights = []string{
	"admissionregistration.k8s.io/validatingadmissionpolicies: get",
	"admissionregistration.k8s.io/validatingadmissionpolicybindings: get",
	"authentication.k8s.io/tokenreviews: create",
	"authorization.k8s.io/subjectaccessreviews: create",
	"discovery.k8s.io/endpointslices [kubernetes]: get",
	"namespaces [kube-system]: get",
}

// everybodysRights are those of every ServiceAccount: questions about itself, and whom the cluster trusts.
var everybodysRights = []string{
	"authentication.k8s.io/selfsubjectreviews: create",
	"authorization.k8s.io/selfsubjectaccessreviews: create",
	"authorization.k8s.io/selfsubjectrulesreviews: create",
	"certificates.k8s.io/clustertrustbundles: get list watch",
}

// ownRights are the manager's rights in its own namespace.
var ownRights = []string{
	"configmaps [capstan-identity-keys]: get update",
	"configmaps [capstan-stream]: get update",
	"coordination.k8s.io/leases [manager.capstan.dev]: get update",
	"coordination.k8s.io/leases: create",
	"pods: get",
	"secrets [capstan-identity-keys]: get update",
	"secrets [capstan-stream]: get update",
}

// accountGroups are the groups of a user with the token of a ServiceAccount.
var accountGroups = []string{"system:serviceaccounts", "system:serviceaccounts:capstan-system", "system:authenticated"}

// rightsIn are the rights of the manager's account, as `kubectl auth can-i --list` reads them.
func rightsIn(ctx context.Context, namespace string) []string {
	GinkgoHelper()
	review := &authorizationv1.SelfSubjectRulesReview{
		Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace},
	}
	Expect(suite.Client(impersonating(managerUser, accountGroups...)).Create(ctx, review)).To(Succeed())
	Expect(review.Status.Incomplete).To(BeFalse())
	verbs := map[string][]string{}
	for _, rule := range review.Status.ResourceRules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				name := strings.TrimPrefix(group+"/"+resource, "/")
				if len(rule.ResourceNames) > 0 {
					name += fmt.Sprintf(" %v", rule.ResourceNames)
				}
				verbs[name] = append(verbs[name], rule.Verbs...)
			}
		}
	}
	var rights []string
	for name, of := range verbs {
		slices.Sort(of)
		rights = append(rights, name+": "+strings.Join(slices.Compact(of), " "))
	}
	return rights
}

var _ = Describe("The manager's account", func() {
	It("has the rights that it needs, and no other", func(ctx context.Context) {
		for _, namespace := range []string{teamA, teamB} {
			Expect(rightsIn(ctx, namespace)).To(ConsistOf(slices.Concat(everybodysRights, clusterRights, managerRights)))
		}
		Expect(rightsIn(ctx, "capstan-system")).To(ConsistOf(slices.Concat(everybodysRights, clusterRights, ownRights)))
		Expect(rightsIn(ctx, elsewhere)).To(ConsistOf(slices.Concat(everybodysRights, clusterRights)))
	})

	It(
		"is enough to run Turns in the namespaces that it is bound in, and no other is looked at",
		func(ctx context.Context) {
			transport := &accountTransport{}
			kit, err := capstantest.Start(ctx, impersonating(jobController, "system:masters"), capstantest.Options{
				Namespaces: []string{teamA, teamB}, Transport: transport.wrap,
				Jobs: func(call capstantest.Call) (stdout, stderr string, exit int) { return "result of " + call.ID, "", 0 },
			})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(func() { Expect(kit.Stop()).To(Succeed()) })
			stored(ctx, admin, newSecret("weather"))
			for _, namespace := range []string{elsewhere, teamA, teamB} {
				for _, object := range agent() {
					object.SetNamespace(namespace)
					stored(ctx, admin, object)
				}
			}
			user, name := newUser(ctx, "capstan-edit")
			Eventually(kit.Turn(ctx, teamA, "demo-1")).Should(capstantest.WaitForTools("ask"))
			Eventually(kit.Turn(ctx, teamB, "demo-1")).Should(capstantest.WaitForTools("ask"))
			answer := newToolResult("answer", name)
			answer.Spec.CallID = "1-2"
			stored(ctx, user, answer)
			Eventually(kit.Turn(ctx, teamA, "demo-1")).Should(capstantest.HaveSucceeded())

			turn, err := kit.Turn(ctx, teamA, "demo-1")()
			Expect(err).NotTo(HaveOccurred())
			Expect(turn.Status.ToolCalls).To(HaveLen(3))
			Expect(turn.Status.ToolCalls).To(HaveEach(HaveField("State", v1alpha1.ToolCallStateSucceeded)))
			var pods corev1.PodList
			Expect(
				admin.List(ctx, &pods, client.InNamespace(teamA), client.MatchingLabels{v1alpha1.LabelTurnUID: string(turn.UID)}),
			).To(Succeed())
			Expect(
				pods.Items,
			).To(HaveLen(2), "pods with a Secret, an account and without network are within the restricted standard")

			account := &corev1.ServiceAccount{}
			Expect(admin.Get(ctx, client.ObjectKey{Namespace: teamA, Name: v1alpha1.ToolServiceAccount}, account)).To(Succeed())
			Expect(account.AutomountServiceAccountToken).To(HaveValue(BeFalse()))
			var runsAs []string
			for i := range pods.Items {
				runsAs = append(runsAs, pods.Items[i].Spec.ServiceAccountName)
			}
			Expect(runsAs).To(ConsistOf("default", v1alpha1.ToolServiceAccount), "the Tool weather names default, and book none")

			// teamB's Turn has come as far as teamA's; that of the third namespace is as it was applied.
			untouched := &v1alpha1.Turn{}
			Expect(admin.Get(ctx, client.ObjectKey{Namespace: elsewhere, Name: "demo-1"}, untouched)).To(Succeed())
			Expect(untouched.Status.Plan).To(BeNil())
			Expect(transport.refused()).To(BeEmpty(), "nothing was asked for that the account has no right to")
			Expect(
				transport.asked(),
			).To(
				And(ContainElement(ContainSubstring("/namespaces/"+teamB+"/")), Not(ContainElement(ContainSubstring(elsewhere)))),
			)
		},
	)

	It("cannot give a tool a Secret that was bound to hosts after the Tool was written", func(ctx context.Context) {
		kit, err := capstantest.Start(ctx, impersonating(jobController, "system:masters"), capstantest.Options{
			Namespaces: []string{teamA}, Transport: (&accountTransport{}).wrap,
		})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(kit.Stop()).To(Succeed()) })
		secret := stored(ctx, admin, newSecret("weather"))
		for _, object := range agent() {
			if _, isTurn := object.(*v1alpha1.Turn); !isTurn {
				stored(ctx, admin, object)
			}
		}
		secret.Annotations = map[string]string{v1alpha1.AnnotationAllowedHosts: "api.example.org"}
		Expect(admin.Update(ctx, secret)).To(Succeed())
		refuses(creating(ctx, admin, newTool("probe", fromSecret("TOKEN", "weather"))), bound)
		stored(ctx, admin, builder.Turn("demo-2").In(teamA).Obj())
		Eventually(kit.Turn(ctx, teamA, "demo-2")).Should(capstantest.WaitForTools("ask"))
		turn, err := kit.Turn(ctx, teamA, "demo-2")()
		Expect(err).NotTo(HaveOccurred())
		Expect(
			turn.Status.ToolCalls[0],
		).To(And(HaveField("State", v1alpha1.ToolCallStateNotExecuted), HaveField("Reason", "Refused")))
		Expect(turn.Status.ToolCalls[1]).To(HaveField("State", v1alpha1.ToolCallStateSucceeded))
	})
})

// agent is a Session with a Turn that calls a tool of each sort, for any namespace.
func agent() []client.Object {
	model := newModel("simulated")
	model.Annotations = map[string]string{v1alpha1.AnnotationDefaultModel: "true"}
	model.Spec.Simulation.ToolCalls = &v1alpha1.SimulatedToolCalls{Sequence: []v1alpha1.SimulatedStep{
		{Calls: builder.Calls("weather", "book", "ask")}, {},
	}}
	weather := newTool("weather", fromSecret("TOKEN", "weather"))
	weather.Spec.Job.Network = v1alpha1.NetworkReachNone
	weather.Spec.Job.ServiceAccountName = "default"
	book := newTool("book")
	book.Spec.SideEffect = v1alpha1.SideEffectAtMostOnce
	ask := builder.ClientTool("ask").In(teamA).Obj()
	harness := builder.Harness("base").In(teamA).Obj()
	harness.Spec.Tools = []v1alpha1.LocalReference{{Name: "weather"}, {Name: "book"}, {Name: "ask"}}
	account := &corev1.ServiceAccount{
		ObjectMeta:                   metav1.ObjectMeta{Namespace: teamA, Name: "default"},
		AutomountServiceAccountToken: ptr.To(false),
	}
	return []client.Object{
		account,
		model,
		weather,
		book,
		ask,
		harness,
		builder.Session("demo").In(teamA).Obj(),
		builder.Turn("demo-1").In(teamA).Obj(),
	}
}

// accountTransport makes the controllers the manager's account to the API server, and notes what they ask for.
type accountTransport struct {
	mu               sync.Mutex
	paths, forbidden []string
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (t *accountTransport) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		r.Header.Set(transport.ImpersonateUserHeader, managerUser)
		r.Header[transport.ImpersonateGroupHeader] = accountGroups
		response, err := next.RoundTrip(r)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.paths = append(t.paths, r.URL.Path)
		if err == nil && response.StatusCode == http.StatusForbidden {
			t.forbidden = append(t.forbidden, r.Method+" "+r.URL.Path)
		}
		return response, err
	})
}

func (t *accountTransport) asked() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.paths)
}

func (t *accountTransport) refused() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.forbidden)
}
