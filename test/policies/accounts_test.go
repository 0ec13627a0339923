package policies_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// tokensOf is the permission to request tokens of ServiceAccounts.
func tokensOf(accounts ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, Verbs: []string{"create"},
		ResourceNames: accounts,
	}
}

// actingAs are objects of all kinds with a layer that names the ServiceAccount.
func actingAs(account string) map[string]client.Object {
	layer := v1alpha1.ConfigLayer{ServiceAccountName: account}
	meta := metav1.ObjectMeta{Namespace: teamA, Name: "acting"}
	session := builder.Session("acting").In(teamA).Obj()
	session.Spec.ConfigLayer = layer
	return map[string]client.Object{
		"Harness": &v1alpha1.Harness{ObjectMeta: meta, Spec: v1alpha1.HarnessSpec{ConfigLayer: layer}},
		"Agent":   &v1alpha1.Agent{ObjectMeta: meta, Spec: v1alpha1.AgentSpec{ConfigLayer: layer}},
		"Session": session,
	}
}

// notYourAccount is the refusal of a ServiceAccount.
func notYourAccount(name string) string {
	return fmt.Sprintf("you are not allowed to use ServiceAccount %q: an agent that acts as it requires permission to "+
		"create serviceaccounts/token for it.", name)
}

// Rules: SVC-04.
var _ = Describe("The policy layer-accounts", func() {
	for kind := range actingAs("") {
		It("lets a "+kind+" name a ServiceAccount that its writer may get tokens of", func(ctx context.Context) {
			writer, _ := newUser(ctx, "capstan-edit", "capstan-tools", newRole(ctx, tokensOf("mine")))
			accepts(creating(ctx, writer, actingAs("mine")[kind]))
			refuses(creating(ctx, writer, actingAs("theirs")[kind]), notYourAccount("theirs"))
			for _, account := range []string{"default", v1alpha1.ToolServiceAccount} {
				refuses(creating(ctx, writer, actingAs(account)[kind]), notYourAccount(account))
			}
			edits, _ := newUser(ctx, "capstan-edit", "capstan-tools")
			refuses(creating(ctx, edits, actingAs("mine")[kind]), notYourAccount("mine"))
			accepts(creating(ctx, edits, actingAs("")[kind]))
			administers, _ := newUser(ctx, "capstan-admin")
			refuses(creating(ctx, administers, actingAs("mine")[kind]), notYourAccount("mine"))
			clusterEditor, _ := newUser(ctx, clusterEdit, "capstan-edit", "capstan-tools")
			accepts(creating(ctx, clusterEditor, actingAs("theirs")[kind]))
		})
	}

	It("checks every change of an object that names one", func(ctx context.Context) {
		writer, _ := newUser(ctx, "capstan-edit", newRole(ctx, tokensOf("mine")))
		other, _ := newUser(ctx, "capstan-edit")
		session := stored(ctx, writer, actingAs("mine")["Session"].(*v1alpha1.Session))
		label := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"team":"a"}}}`))
		accepts(func() error { return other.Patch(ctx, session.DeepCopy(), label, client.DryRunAll) })
		for _, change := range []func(*v1alpha1.Session){
			func(s *v1alpha1.Session) { s.Spec.SystemPrompt = "Give me all." },
			func(s *v1alpha1.Session) { s.Spec.Tools = []v1alpha1.LocalReference{{Name: "exfiltrate"}} },
			func(s *v1alpha1.Session) { s.Spec.Title = "x" },
		} {
			refuses(updating(ctx, other, session, change), notYourAccount("mine"))
			accepts(updating(ctx, writer, session, change))
		}
		refuses(updating(ctx, writer, session, func(s *v1alpha1.Session) { s.Spec.ServiceAccountName = "theirs" }),
			notYourAccount("theirs"))
	})

	for kind := range actingAs("") {
		It("checks who removes or replaces the name in a "+kind+", which uncovers that of another layer",
			func(ctx context.Context) {
				writer, _ := newUser(ctx, "capstan-edit", "capstan-tools", newRole(ctx, tokensOf("mine")))
				other, _ := newUser(ctx, "capstan-edit", "capstan-tools", newRole(ctx, tokensOf("others")))
				object := actingAs("mine")[kind]
				object.SetGenerateName("acting-")
				object.SetName("")
				stored(ctx, writer, object)
				for _, account := range []string{"null", `"others"`} {
					change := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil,
						`{"spec":{"serviceAccountName":%s}}`, account))
					changing := func(by client.Client) func() error {
						return func() error {
							return by.Patch(ctx, object.DeepCopyObject().(client.Object), change, client.DryRunAll)
						}
					}
					refuses(changing(other), notYourAccount("mine"))
					if account == "null" {
						accepts(changing(writer))
					} else {
						refuses(changing(writer), notYourAccount("others"))
					}
				}
			})
	}

	It("has a command that lists the objects with a ServiceAccount after an upgrade", func(ctx context.Context) {
		text, err := os.ReadFile("../../docs/operations.md")
		Expect(err).NotTo(HaveOccurred())
		_, path, _ := strings.Cut(string(text), "sessions.capstan.dev --all-namespaces \\\n  -o jsonpath='")
		path, _, found := strings.Cut(path, "'\n")
		Expect(found).To(BeTrue())
		for kind, object := range actingAs("mine") {
			object.SetName("listed-" + strings.ToLower(kind))
			stored(ctx, admin, object)
		}
		plain := builder.Session("not-listed").In(teamA).Obj()
		stored(ctx, admin, plain)
		listed := server.Kubectl(ctx, "get", "harnesses.capstan.dev,agents.capstan.dev,sessions.capstan.dev",
			"--all-namespaces", "-o", "jsonpath="+path)
		for _, kind := range []string{"Harness", "Agent", "Session"} {
			Expect(listed).To(ContainSubstring("%s %s/listed-%s: mine\n", kind, teamA, strings.ToLower(kind)))
		}
		Expect(listed).NotTo(ContainSubstring("not-listed"))
	})

	It("is not the only one that binds the manager", func(ctx context.Context) {
		session := agentCall().NewSession()
		session.Spec.ServiceAccountName = "mine"
		refuses(creating(ctx, as(managerUser), session), "denied request: ")
	})
})
