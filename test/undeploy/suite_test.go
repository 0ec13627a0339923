// Package undeploy_test runs hack/undeploy.sh against an API server with the real controllers.
package undeploy_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/runtime/tool/jobspec"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/test/internal/suite"
)

const systemNamespace = "capstan-system"

var (
	kit    *capstantest.Kit
	server *suite.Server
	// admin is a user of the group system:masters: the policies on the manager do not hold it.
	admin client.Client
)

func TestUndeploy(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Undeploy")
}

var _ = BeforeSuite(func() {
	suite.Configure(suite.Logger(), 30*time.Second, suite.Polling)
	server = suite.Start()
	var err error
	admin, err = client.New(server.Config, client.Options{})
	Expect(err).NotTo(HaveOccurred())
	// The policies that are installed on the way permit only the manager's account to write the kit's statuses.
	asManager := rest.CopyConfig(server.Config)
	asManager.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + systemNamespace + ":capstan-manager",
		Groups:   []string{"system:masters"},
	}
	kit, err = capstantest.Start(context.Background(), asManager, capstantest.Options{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(kit.Stop()).To(Succeed()) })
	Expect(apiextensionsv1.AddToScheme(kit.Client.Scheme())).To(Succeed())
})

// One spec after another takes a cluster with a running Turn apart.
var _ = Describe("hack/undeploy.sh", Ordered, func() {
	BeforeAll(func(ctx context.Context) {
		for _, object := range []client.Object{
			&v1alpha1.Model{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "default", Name: "simulated", Annotations: map[string]string{v1alpha1.AnnotationDefaultModel: "true"},
				},
				Spec: v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderSimulated, Simulation: &v1alpha1.Simulation{
					ToolCalls: &v1alpha1.SimulatedToolCalls{Fixed: builder.Calls("ask")},
				}},
			},
			builder.ClientTool("ask").In("default").Obj(),
			builder.Harness("base").In("default").Tools("ask").Obj(),
			builder.Session("demo").In("default").Obj(), audited(),
			builder.Turn("demo-1").In("default").Obj(), builder.Turn("demo-2").In("default").Obj(),
		} {
			Expect(kit.Client.Create(ctx, object)).To(Succeed())
		}
		Eventually(kit.Turn(ctx, "default", "demo-1")).Should(capstantest.WaitForTools("ask"))
		Eventually(func(g Gomega) {
			session := audited()
			g.Expect(kit.Client.Get(ctx, client.ObjectKeyFromObject(session), session)).To(Succeed())
			g.Expect(session.Finalizers).To(Equal([]string{v1alpha1.FinalizerSessionEnd}))
		}).Should(Succeed())
	})

	It("changes nothing while a Turn runs without a manager", func(ctx context.Context) {
		output, err := undeploy(ctx)
		Expect(err).To(HaveOccurred())
		Expect(output).To(And(ContainSubstring("default demo demo-1"), ContainSubstring("is not available")))
		expectUntouched(ctx)
	})

	It("does not delete the definitions while a Turn runs", func(ctx context.Context) {
		output, err := undeploy(ctx, "--definitions-only")
		Expect(err).To(HaveOccurred())
		Expect(output).To(ContainSubstring("deleting, in all namespaces: 2 sessions, 2 turns, 0 toolresults"))
		expectUntouched(ctx)
	})

	It("changes nothing when the Turn has not ended in time", func(ctx context.Context) {
		installed(ctx)
		output, err := undeploy(ctx, "--wait", "2")
		Expect(err).To(HaveOccurred())
		Expect(output).To(And(ContainSubstring("running Turns: 1; waiting"), ContainSubstring("nothing was removed")))
		expectUntouched(ctx)
		Expect(
			kit.Client.Get(ctx, client.ObjectKey{Namespace: systemNamespace, Name: "capstan-manager"}, &appsv1.Deployment{}),
		).To(Succeed())
	})

	It(
		"cancels running and queued Turns with --cancel, and then removes everything, the definitions last",
		func(ctx context.Context) {
			playNamespaceController(ctx)
			madeByManager(ctx)
			Expect(kit.Client.Create(ctx, leased())).To(Succeed())
			first, err := undeploy(ctx, "--wait", "2", "--cancel")
			Expect(err).To(HaveOccurred(), first)
			Expect(first).To(ContainSubstring("some resources are not cleaned up"))
			output, err := undeploy(ctx, "--force")
			Expect(err).NotTo(HaveOccurred(), output)
			output = first + output
			last := -1
			for _, step := range []string{
				"cancelling Turn demo-1", "cancelling Turn demo-2", "deleting the Sessions", "deleting the LeasedResources",
				"stopping the manager", "abandoning the resource of LeasedResource lease-1 in namespace default",
				"deleting each capstan-tool",
				"deleting each capstan-network-none", "deleting the manager's namespace",
				`"capstan-manager" deleted`, "deleting the CustomResourceDefinitions", `"turns.capstan.dev" deleted`, "==> done",
			} {
				at := strings.Index(output, step)
				Expect(at).To(BeNumerically(">", last), "%s must come next in:\n%s", step, output)
				last = at
			}
			expectGone(ctx)
			expectOthersKept(ctx)
		},
	)

	It("does nothing the second time", func(ctx context.Context) {
		output, err := undeploy(ctx)
		Expect(err).NotTo(HaveOccurred(), output)
		Expect(
			output,
		).To(And(
			ContainSubstring("the cluster has no CustomResourceDefinition of Capstan"),
			Not(ContainSubstring("stopping the manager")),
		))
	})
})

// audited is a Session with a hook at its end, whose finalizer the manager removes.
func audited() *v1alpha1.Session {
	session := builder.Session("audited").In("default").Obj()
	session.Spec.Hooks = []v1alpha1.Hook{{
		Name: "bye", Event: v1alpha1.HookEventSessionEnd, CEL: &v1alpha1.CELHook{Expression: "true"},
	}}
	return session
}

// leased is the lease on a resource that cannot be cleaned up.
func leased() *v1alpha1.LeasedResource {
	return &v1alpha1.LeasedResource{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "lease-1", Finalizers: []string{v1alpha1.FinalizerLease},
		},
		Spec: v1alpha1.LeasedResourceSpec{
			Provider: "example.com", Type: "vm", ExternalID: "vm-1", Duration: metav1.Duration{Duration: time.Hour},
			SessionRef: v1alpha1.ObjectIdentity{Name: "demo", UID: "1"}, Turn: "demo-1", Tool: "start",
			Cleanup: v1alpha1.LeaseCleanup{ToolRef: v1alpha1.LocalReference{Name: "clean"}},
		},
	}
}

// undeploy runs the script and returns its output.
func undeploy(ctx context.Context, arguments ...string) (string, error) {
	GinkgoHelper()
	script := exec.CommandContext(ctx, "../../hack/undeploy.sh", arguments...)
	script.Env = append(os.Environ(), "KUBECONFIG="+server.Kubeconfig, "KUBECTL="+suite.KubectlPath())
	output, err := script.CombinedOutput()
	var exit *exec.ExitError
	if err != nil {
		Expect(errors.As(err, &exit)).To(BeTrue(), "%v", err)
	}
	return string(output), err
}

// installed applies config/default, and reports the manager's pod as present, as the cluster would.
func installed(ctx context.Context) {
	GinkgoHelper()
	server.Kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-k", "../../config/default")
	deployment := &appsv1.Deployment{}
	Expect(
		kit.Client.Get(ctx, client.ObjectKey{Namespace: systemNamespace, Name: "capstan-manager"}, deployment),
	).To(Succeed())
	base := deployment.DeepCopy()
	deployment.Status.Replicas, deployment.Status.ReadyReplicas, deployment.Status.AvailableReplicas = 1, 1, 1
	Expect(kit.Client.Status().Patch(ctx, deployment, client.MergeFrom(base))).To(Succeed())
}

// madeByManager puts what the manager makes in the namespaces of users into two of them, and the like of others beside
// it.
func madeByManager(ctx context.Context) {
	GinkgoHelper()
	for _, namespace := range []string{"team-a", "team-b", "own"} {
		Expect(admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})).To(Succeed())
	}
	for _, namespace := range []string{"team-a", "team-b"} {
		Expect(admin.Create(ctx, jobspec.ServiceAccount(namespace))).To(Succeed())
		Expect(admin.Create(ctx, jobspec.NetworkPolicyNone(namespace))).To(Succeed())
	}
	for _, object := range others() {
		Expect(admin.Create(ctx, object)).To(Succeed())
	}
}

// others are objects of users that look like what the manager makes: they have the name and not the label, the label of
// another tool, or the label and not the name.
func others() []client.Object {
	account := jobspec.ServiceAccount("own")
	account.Labels = nil
	policy := jobspec.NetworkPolicyNone("own")
	policy.Labels = map[string]string{v1alpha1.LabelManagedBy: "helm"}
	labelled := jobspec.ServiceAccount("team-a")
	labelled.Name = "capstan"
	return []client.Object{account, policy, labelled}
}

// expectOthersKept looks at the objects of users, and that those of the manager are gone.
func expectOthersKept(ctx context.Context) {
	GinkgoHelper()
	for _, object := range others() {
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
	}
	for _, namespace := range []string{"team-a", "team-b"} {
		for _, object := range []client.Object{jobspec.ServiceAccount(namespace), jobspec.NetworkPolicyNone(namespace)} {
			Expect(admin.Get(ctx, client.ObjectKeyFromObject(object), object)).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
		}
	}
}

// playNamespaceController lets go of the manager's namespace once it is being deleted, as the cluster would.
func playNamespaceController(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	DeferCleanup(func() {
		cancel()
		<-ended
	})
	c := kit.Client
	go func() {
		defer close(ended)
		ticker := time.NewTicker(50 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			namespace := &corev1.Namespace{}
			if c.Get(ctx, client.ObjectKey{Name: systemNamespace}, namespace) != nil || namespace.DeletionTimestamp == nil {
				continue
			}
			namespace.Spec.Finalizers = nil
			// An attempt that fails is made again.
			_ = c.SubResource("finalize").Update(ctx, namespace)
		}
	}()
}

// expectUntouched looks at the Turn that runs.
func expectUntouched(ctx context.Context) {
	GinkgoHelper()
	Expect(kit.Turn(ctx, "default", "demo-1")()).To(capstantest.WaitForTools("ask"))
}

// expectGone looks for anything that is left of Capstan.
func expectGone(ctx context.Context) {
	GinkgoHelper()
	definitions := &apiextensionsv1.CustomResourceDefinitionList{}
	Expect(kit.Client.List(ctx, definitions)).To(Succeed())
	Expect(definitions.Items).To(BeEmpty())
	Expect(
		kit.Client.Get(ctx, client.ObjectKey{Name: systemNamespace}, &corev1.Namespace{}),
	).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
	roles, bindings := &rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{}
	Expect(kit.Client.List(ctx, roles, client.MatchingLabels{"app.kubernetes.io/name": "capstan"})).To(Succeed())
	Expect(kit.Client.List(ctx, bindings, client.MatchingLabels{"app.kubernetes.io/name": "capstan"})).To(Succeed())
	Expect(roles.Items).To(BeEmpty())
	Expect(bindings.Items).To(BeEmpty())
	schemas, classes := &flowcontrolv1.FlowSchemaList{}, &schedulingv1.PriorityClassList{}
	Expect(kit.Client.List(ctx, schemas, client.MatchingLabels{"app.kubernetes.io/name": "capstan"})).To(Succeed())
	Expect(kit.Client.List(ctx, classes, client.MatchingLabels{"app.kubernetes.io/name": "capstan"})).To(Succeed())
	Expect(schemas.Items).To(BeEmpty())
	Expect(classes.Items).To(BeEmpty())
}
