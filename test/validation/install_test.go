package validation_test

import (
	"context"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	capstanv1alpha1 "github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/config/policy"
)

const (
	manifests       = "../../config/default"
	systemNamespace = "capstan-system"
	managerUser     = "system:serviceaccount:capstan-system:capstan-manager"
)

var _ = Describe("The install", Ordered, func() {
	BeforeAll(func(ctx context.Context) {
		Expect(
			kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-k", manifests),
		).NotTo(ContainSubstring("Warning"))
	})

	// The other specs are about the schemas. The policies, which depend on the user, have a suite of their own.
	AfterAll(func(ctx context.Context) {
		bindings := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
		Expect(api.DeleteAllOf(ctx, bindings, client.MatchingLabels{"app.kubernetes.io/name": "capstan"})).To(Succeed())
		for _, s := range specimensOf("ToolResult") {
			Eventually(
				func() error { return createDryRun(ctx, s.object(dryRunNamespace)) },
			).WithTimeout(publishTimeout).
				Should(Succeed())
		}
		entry := &capstanv1alpha1.JournalEntry{
			ObjectMeta: metav1.ObjectMeta{Name: "entry", Namespace: dryRunNamespace},
			Spec:       capstanv1alpha1.JournalEntrySpec{Session: "demo", Ordinal: 1, Time: metav1.NowMicro()},
		}
		Eventually(
			func() error { return api.Create(ctx, entry.DeepCopy(), client.DryRunAll) },
		).WithTimeout(publishTimeout).
			Should(Succeed())
	})

	It("has every policy that is embedded, for the account that the manager runs as", func(ctx context.Context) {
		policies, err := policy.Policies(policy.Accounts{Manager: managerUser})
		Expect(err).NotTo(HaveOccurred())
		Expect(policies).NotTo(BeEmpty())
		for _, p := range policies {
			installed := &admissionregistrationv1.ValidatingAdmissionPolicy{}
			Expect(api.Get(ctx, client.ObjectKeyFromObject(p.Policy), installed)).To(Succeed())
			for i, variable := range p.Policy.Spec.Variables {
				if variable.Name == "manager" {
					Expect(
						installed.Spec.Variables[i].Expression,
					).To(Equal("'system:serviceaccount:' + 'capstan-system' + ':' + 'capstan-manager'"))
					variable.Expression = installed.Spec.Variables[i].Expression
				}
				Expect(installed.Spec.Variables[i]).To(Equal(variable))
			}
			Expect(installed.Spec.Validations).To(Equal(p.Policy.Spec.Validations))
			binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
			Expect(api.Get(ctx, client.ObjectKeyFromObject(p.Binding), binding)).To(Succeed())
			Expect(binding.Spec.PolicyName).To(Equal(installed.Name))
			Expect(binding.Spec.ValidationActions).To(ConsistOf(admissionregistrationv1.Deny))
			Expect(*installed.Spec.FailurePolicy).To(Equal(admissionregistrationv1.Fail))
		}
	})

	It("applies again without a change or a warning", func(ctx context.Context) {
		deployment := getDeployment(ctx)
		output := kubectl(ctx, "apply", "--server-side", "-k", manifests)
		Expect(output).NotTo(ContainSubstring("Warning"))
		Expect(strings.Count(output, "serverside-applied")).To(Equal(strings.Count(strings.TrimSpace(output), "\n") + 1))
		Expect(getDeployment(ctx).ResourceVersion).To(Equal(deployment.ResourceVersion))
	})

	It("has every CustomResourceDefinition that is generated", func(ctx context.Context) {
		rendered := kubectl(ctx, "kustomize", manifests)
		Expect(strings.Count(rendered, "kind: CustomResourceDefinition")).To(Equal(len(definitionsByKind())))
		for _, definition := range definitionsByKind() {
			Expect(rendered).To(ContainSubstring("name: " + definition.Name))
		}
	})

	It("runs the manager in a pod that its namespace's restricted standard admits", func(ctx context.Context) {
		deployment := getDeployment(ctx)
		account := &corev1.ServiceAccount{}
		Expect(
			api.Get(
				ctx,
				client.ObjectKey{Namespace: systemNamespace, Name: deployment.Spec.Template.Spec.ServiceAccountName},
				account,
			),
		).To(Succeed())

		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "manager", Namespace: systemNamespace},
			Spec:       *deployment.Spec.Template.Spec.DeepCopy(),
		}
		Expect(api.Create(ctx, pod, client.DryRunAll)).To(Succeed())

		pod = pod.DeepCopy()
		pod.ResourceVersion, pod.UID = "", ""
		pod.Spec.SecurityContext.RunAsNonRoot = nil
		Expect(api.Create(ctx, pod, client.DryRunAll)).To(MatchError(ContainSubstring(`violates PodSecurity "restricted`)),
			"the standard must be in force, or the check above proves nothing")
	})

	It("lets the scheduler preempt pods for the manager, and requests few resources", func(ctx context.Context) {
		spec := getDeployment(ctx).Spec.Template.Spec
		class := &schedulingv1.PriorityClass{}
		Expect(api.Get(ctx, client.ObjectKey{Name: spec.PriorityClassName}, class)).To(Succeed())
		Expect(class.GlobalDefault).To(BeFalse(), "tool pods would have it too")
		Expect(class.PreemptionPolicy).To(HaveValue(Equal(corev1.PreemptLowerPriority)))
		Expect(
			class.Value,
		).To(And(BeNumerically(">", 0), BeNumerically("<", 1_000_000_000)), "below the classes of the cluster itself")
		Expect(spec.Containers).To(HaveLen(1))
		requests := spec.Containers[0].Resources.Requests
		Expect(requests.Cpu().MilliValue()).To(BeNumerically("<=", 100))
		Expect(requests.Memory().Value()).To(BeNumerically("<=", 128<<20))
	})

	It("binds roles that exist to the manager's own account", func(ctx context.Context) {
		clusterBindings := &rbacv1.ClusterRoleBindingList{}
		Expect(api.List(ctx, clusterBindings, client.MatchingLabels{"app.kubernetes.io/name": "capstan"})).To(Succeed())
		Expect(clusterBindings.Items).To(HaveLen(2))
		bindings := &rbacv1.RoleBindingList{}
		Expect(api.List(ctx, bindings, client.MatchingLabels{"app.kubernetes.io/name": "capstan"})).To(Succeed())
		Expect(bindings.Items).To(HaveLen(6))

		subject := rbacv1.Subject{Kind: "ServiceAccount", Name: "capstan-manager", Namespace: systemNamespace}
		for _, binding := range clusterBindings.Items {
			Expect(binding.Subjects).To(ConsistOf(subject))
			Expect(api.Get(ctx, client.ObjectKey{Name: binding.RoleRef.Name}, &rbacv1.ClusterRole{})).To(Succeed())
		}
		for _, binding := range bindings.Items {
			if binding.Name == "capstan-stream-client-authorities" {
				// It is in the namespace of its Role, which is one of the API server.
				Expect(binding.Namespace).To(Equal("kube-system"))
			} else {
				Expect(binding.Namespace).To(Equal(systemNamespace))
			}
			role := client.ObjectKey{Namespace: binding.Namespace, Name: binding.RoleRef.Name}
			Expect(api.Get(ctx, role, &rbacv1.Role{})).To(Succeed())
			if binding.Name == "capstan-identity-key-set" || binding.Name == "capstan-stream-address" {
				continue // It is for those who verify tokens or follow events, as the next specs check.
			}
			Expect(binding.Subjects).To(ConsistOf(subject))
		}
	})

	DescribeTable(
		"lets the manager change a Secret and a ConfigMap, and others read the ConfigMap alone:",
		func(ctx context.Context, keys string) {
			named := client.ObjectKey{Namespace: systemNamespace, Name: keys}
			secret, published := &corev1.Secret{}, &corev1.ConfigMap{}
			Expect(api.Get(ctx, named, secret)).To(Succeed())
			Expect(secret.Data).To(BeEmpty())
			Expect(api.Get(ctx, named, published)).To(Succeed())
			for _, may := range []struct {
				user, verb, resource, name string
				allowed                    bool
			}{
				{managerUser, "get", "secrets", keys, true},
				{managerUser, "update", "secrets", keys, true},
				{managerUser, "update", "configmaps", keys, true},
				{managerUser, "get", "secrets", "other", false},
				{managerUser, "update", "configmaps", "other", false},
				{managerUser, "create", "secrets", "", false},
				{managerUser, "delete", "secrets", keys, false},
				{managerUser, "patch", "secrets", keys, false},
				{managerUser, "list", "secrets", "", false},
				{"ann", "get", "configmaps", keys, true},
				{"ann", "update", "configmaps", keys, false},
				{"ann", "get", "configmaps", "other", false},
				{"ann", "get", "secrets", keys, false},
			} {
				review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
					User: may.user, Groups: []string{"system:authenticated"},
					ResourceAttributes: &authorizationv1.ResourceAttributes{
						Namespace: systemNamespace, Verb: may.verb, Resource: may.resource, Name: may.name,
					},
				}}
				Expect(api.Create(ctx, review)).To(Succeed())
				Expect(review.Status.Allowed).To(Equal(may.allowed), "%+v", may)
			}
		},
		Entry("the keys of identity tokens", "capstan-identity-keys"),
		Entry("the certificate of event streams", "capstan-stream"),
	)

	It("grants the manager no permission by wildcard", func(ctx context.Context) {
		role := &rbacv1.ClusterRole{}
		Expect(api.Get(ctx, client.ObjectKey{Name: "capstan-manager-role"}, role)).To(Succeed())
		Expect(role.Rules).NotTo(BeEmpty())
		for _, rule := range role.Rules {
			Expect(slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs)).NotTo(ContainElement("*"))
			Expect(rule.NonResourceURLs).To(BeEmpty())
		}
	})

	DescribeTable("has the permissions of each role",
		func(ctx context.Context, user, verb, resource string, allowed bool) {
			Expect(mayDo(ctx, user, verb, resource)).To(Equal(allowed))
		},
		func(user, verb, resource string, allowed bool) string {
			return fmt.Sprintf("%s %s %s: %t", user, verb, resource, allowed)
		},
		Entry(nil, managerUser, "create", "jobs.batch", true),
		Entry(nil, managerUser, "create", "journalentries.capstan.dev", true),
		Entry(nil, managerUser, "patch", "turns.capstan.dev/status", true),
		Entry(nil, managerUser, "update", "journalentries.capstan.dev", false),
		Entry(nil, managerUser, "delete", "journalentries.capstan.dev", false),
		Entry(nil, managerUser, "delete", "sessions.capstan.dev", true),
		Entry(nil, managerUser, "create", "sessions.capstan.dev", true),
		Entry(nil, managerUser, "update", "sessions.capstan.dev", false),
		Entry(nil, managerUser, "patch", "sessions.capstan.dev", true),
		Entry(nil, managerUser, "get", "namespaces", true),
		Entry(nil, managerUser, "list", "namespaces", false),
		Entry(nil, managerUser, "list", "secrets", false),
		Entry(nil, managerUser, "create", "serviceaccounts/token", false),
		Entry(nil, managerUser, "create", "pods", false),
		Entry(nil, managerUser, "create", "pods/exec", false),
		Entry(nil, managerUser, "impersonate", "users", false),
		Entry(nil, managerUser, "create", "clusterrolebindings.rbac.authorization.k8s.io", false),
		Entry(nil, "editor", "create", "turns.capstan.dev", true),
		Entry(nil, "editor", "create", "toolresults.capstan.dev", true),
		Entry(nil, "editor", "create", "journalentries.capstan.dev", false),
		Entry(nil, "editor", "delete", "journalentries.capstan.dev", false),
		Entry(nil, "editor", "patch", "turns.capstan.dev/status", false),
		Entry(nil, "viewer", "watch", "turns.capstan.dev", true),
		Entry(nil, "viewer", "get", "journalentries.capstan.dev", true),
		Entry(nil, "viewer", "create", "turns.capstan.dev", false),
	)

	// The cluster's own roles take up edit and view by a controller that does not run here, so the test binds them itself.
	BeforeAll(func(ctx context.Context) {
		for user, role := range map[string]string{"editor": "capstan-edit", "viewer": "capstan-view"} {
			binding := &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: user, Namespace: storedNamespace},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
				Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
			}
			Expect(api.Create(ctx, binding)).To(Succeed())
			DeferCleanup(func(ctx context.Context) error { return api.Delete(ctx, binding) })
			Eventually(func() bool {
				return mayDo(ctx, user, "get", "turns.capstan.dev") || mayDo(ctx, user, "create", "turns.capstan.dev")
			}).
				WithTimeout(publishTimeout).Should(BeTrue(), "the API server must have seen the binding of %s", user)
		}
	})
})

func getDeployment(ctx context.Context) *appsv1.Deployment {
	GinkgoHelper()
	deployment := &appsv1.Deployment{}
	Expect(api.Get(ctx, client.ObjectKey{Namespace: systemNamespace, Name: "capstan-manager"}, deployment)).To(Succeed())
	return deployment
}

// mayDo asks the API server's authorizer. A resource is written resource.group/subresource.
func mayDo(ctx context.Context, user, verb, resource string) bool {
	GinkgoHelper()
	resource, subresource, _ := strings.Cut(resource, "/")
	resource, group, _ := strings.Cut(resource, ".")
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: storedNamespace, Verb: verb, Group: group, Resource: resource, Subresource: subresource,
		},
	}}
	Expect(api.Create(ctx, review)).To(Succeed())
	return review.Status.Allowed
}
