package cli_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/test/internal/suite"
	"github.com/capstan-dev/capstan/test/internal/terminal"
)

// root is an administrator of the cluster.
func root(namespace string) terminal.User { return as(server.Kubeconfig, namespace) }

var _ = Describe("tree", func() {
	It("prints a Turn with its sub-agents", func(ctx context.Context) {
		namespace := stage(ctx, builder.Script("It found {{tool:helper}}.", builder.Calls("helper")),
			builder.AgentTool("helper", "helping").Obj(), builder.ClientTool("ask-ann").Obj())
		suite.Create(ctx, kit.Client,
			builder.Model("helping").In(namespace).Simulated(builder.Script("Hm.", builder.Calls("ask-ann"))).Obj(),
			builder.Harness("helping").In(namespace).Model("helping").Tools("ask-ann").Obj(),
			builder.Turn("demo-1").In(namespace).Obj())
		_, kubeconfig := certificateUser(ctx, namespace, "capstan-view")
		Eventually(func() string {
			return as(kubeconfig, namespace).Run(ctx, "tree", "session/demo").Out
		}).Should(MatchRegexp(`(?s)Turn demo-1  \w+.*└─ 1-0  \S+  WaitingForToolResults .*1-0 ask-ann waits for a result`))
	})
})

var _ = Describe("inspect", func() {
	It("prints what the next model call is made with, and names what may not be read", func(ctx context.Context) {
		namespace := stage(ctx, echo(), guarded(worker()))
		_, kubeconfig := certificateUser(ctx, namespace, "capstan-view")
		r := as(kubeconfig, namespace).Run(ctx, "inspect", "demo")
		Expect(r.Code).To(Equal(0))
		Expect(r.Out).To(And(
			MatchRegexp(`layers +Harness base > Session demo`), MatchRegexp(`model +simulated: `),
			MatchRegexp(`tool +work  from Tool work, Job, AtMostOnce, requires approval`),
			MatchRegexp(`limits +\d+ model calls`),
		))

		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "sessions-"}, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"capstan.dev"}, Resources: []string{"sessions", "harnesses"}, Verbs: []string{"get", "list"},
		}}}
		suite.Create(ctx, kit.Client, role)
		_, kubeconfig = certificateUser(ctx, namespace, role.Name)
		r = as(kubeconfig, namespace).Run(ctx, "inspect", "demo")
		Expect(r.Out).To(MatchRegexp(`not readable  .*Tool work.*`))
		Expect(r.Out).To(ContainSubstring("JournalEntries"))
	})

	It("names objects that do not exist", func(ctx context.Context) {
		namespace := stage(ctx, echo())
		suite.Create(ctx, kit.Client, builder.Harness("broken").In(namespace).Tools("nothing").Obj())
		session := builder.Session("two").In(namespace).Obj()
		session.Spec.HarnessRef.Name = "broken"
		suite.Create(ctx, kit.Client, session)
		Expect(root(namespace).Run(ctx, "inspect", "two").Out).To(MatchRegexp(`problem +\w+: .*"nothing"`))
	})
})

var _ = Describe("doctor", func() {
	It("finds what is wrong, with the command that mends it", func(ctx context.Context) {
		namespace := stage(ctx, echo(), builder.ClientTool("ask-ann").Obj())
		healthy := root(namespace).Run(ctx, "doctor")
		Expect(healthy.Code).To(Equal(1), "the suite has no Deployment of a manager")
		Expect(healthy.Out).To(And(
			MatchRegexp(`WRONG +manager +namespace capstan-system has no manager`), MatchRegexp(`ok +kinds +\d+ kinds`),
			MatchRegexp(`ok +policies +\d+ policies are in force`), MatchRegexp(`ok +Models +1, the default is simulated`),
			ContainSubstring("kubectl apply --server-side"),
		))
		Expect(strings.Count(healthy.Out, "WRONG")).To(Equal(1))

		elsewhere := suite.Namespace(ctx, kit.Client, "managers-")
		createManager(ctx, elsewhere)
		r := root(namespace).Run(ctx, "doctor", "demo", "--manager-namespace", elsewhere)
		Expect(r.Out).To(MatchRegexp(`ok +manager +capstan-manager: 1 of 1 ready, image example.org/manager:v1`))

		suite.Create(ctx, kit.Client, builder.Harness("broken").In(namespace).Tools("nothing").Obj())
		Eventually(func() string { return root(namespace).Run(ctx, "doctor").Out }).Should(And(
			MatchRegexp(
				`WRONG +Harness broken +\w+: .*"nothing"`,
			),
			ContainSubstring("kubectl describe harness broken -n "+namespace),
		))
	})

	It("reports as unknown what the user may not read", func(ctx context.Context) {
		namespace := stage(ctx, echo())
		_, kubeconfig := tokenUser(ctx, namespace, "capstan-edit")
		r := as(kubeconfig, namespace).Run(ctx, "doctor", "demo")
		Expect(r.Code).To(Equal(0))
		Expect(r.Out).To(And(
			MatchRegexp(`unknown +manager +you may not read`), MatchRegexp(`unknown +policies`),
			MatchRegexp(`ok +your permissions +you may read conversations, send messages, and not approve calls`),
			MatchRegexp(`ok +Session +ready`),
		))
		_, kubeconfig = certificateUser(ctx, namespace)
		r = as(kubeconfig, namespace).Run(ctx, "doctor")
		Expect(r.Code).To(Equal(1))
		Expect(r.Out).To(ContainSubstring("you may do nothing here"))
	})

	It("finds that nothing is installed", func(ctx context.Context) {
		empty := suite.Start()
		r := as(empty.Kubeconfig, "default").Run(ctx, "doctor")
		Expect(r.Code).To(Equal(1))
		Expect(r.Out).To(ContainSubstring("Capstan is not installed in this cluster"))
		r = as(empty.Kubeconfig, "default").Run(ctx, "log", "demo")
		Expect(r.Err).To(ContainSubstring("This cluster has not the kinds of Capstan"))
	})
})

// createManager creates the Deployment of a manager that is ready.
func createManager(ctx context.Context, namespace string) {
	GinkgoHelper()
	labels := map[string]string{"app.kubernetes.io/name": "capstan", "app.kubernetes.io/component": "manager"}
	manager := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "capstan-manager", Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "manager", Image: "example.org/manager:v1"}},
			}},
		},
	}
	suite.Create(ctx, kit.Client, manager)
	manager.Status = appsv1.DeploymentStatus{Replicas: 1, ReadyReplicas: 1}
	Expect(kit.Client.Status().Update(ctx, manager)).To(Succeed())
}

var _ = Describe("completion", func() {
	It("proposes names from the cluster", func(ctx context.Context) {
		namespace := stage(ctx, work("Done", "{}"), guarded(worker()))
		suite.Create(ctx, kit.Client, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForApproval("work"))
		_, kubeconfig := tokenUser(ctx, namespace, "capstan-edit")
		ann := as(kubeconfig, namespace)
		for arguments, want := range map[string]string{
			"log":               "demo\nturn/demo-1\n",
			"ask":               "demo\n",
			"approve":           "demo-1\n",
			"approve demo-1":    "1-0\n",
			"answer":            ":4",
			"cancel":            "demo-1\n",
			"inspect":           "demo\n",
			"ask --harness":     "base\n",
			"ask x --model":     "simulated\n",
			"log demo --output": "json\n",
			"log --context":     "robot\n",
		} {
			complete := append(append([]string{"__complete"}, strings.Fields(arguments)...), "")
			// Completion reads the flags of the words that are completed.
			command := ann.Command(ctx, append(complete[:2:2], append([]string{"--kubeconfig", kubeconfig, "-n", namespace},
				complete[2:]...)...)...)
			command.Args = append(command.Args[:1], command.Args[5:]...)
			output, err := command.Output()
			Expect(err).NotTo(HaveOccurred())
			Expect(string(output)).To(HavePrefix(want), arguments)
		}
		Expect(ann.Run(ctx, "completion", "bash").Out).To(ContainSubstring("kubectl-capstan"))
		Expect(ann.Run(ctx, "version").Out).To(ContainSubstring("commit"))
	})
})

var _ = Describe("kubectl", func() {
	It("finds the plugin, and completes its words as the document describes", func(ctx context.Context) {
		namespace := stage(ctx, echo())
		document, err := os.ReadFile("../../docs/cli.md")
		Expect(err).NotTo(HaveOccurred())
		script := regexp.MustCompile(`(?s)printf '(.*?)' > ~/\.local/bin/(\S+)\n`).FindStringSubmatch(string(document))
		Expect(script).To(HaveLen(3))
		folder := GinkgoT().TempDir()
		Expect(os.Symlink(binary, filepath.Join(folder, "kubectl-capstan"))).To(Succeed())
		Expect(os.WriteFile(filepath.Join(folder, script[2]), []byte(strings.ReplaceAll(script[1], `\n`, "\n")), 0o755)).
			To(Succeed())
		kubectl := func(arguments ...string) string {
			command := exec.CommandContext(ctx, suite.KubectlPath(), arguments...)
			command.Env = append(os.Environ(), "PATH="+folder+":"+os.Getenv("PATH"), "KUBECONFIG="+server.Kubeconfig)
			output, err := command.Output()
			Expect(err).NotTo(HaveOccurred())
			return string(output)
		}
		Expect(kubectl("capstan", "ask", "demo", "Hi", "-n", namespace)).To(Equal("You said: Hi\n"))
		Expect(kubectl("__complete", "capstan", "log", "-n", namespace, "")).To(HavePrefix("demo\n"))
	})
})

var _ = Describe("A user", func() {
	// What each role permits. A command that is refused explains it.
	DescribeTable("with one role may", func(ctx context.Context, roles []string, allowed ...string) {
		namespace := stage(ctx, echo())
		turn := builder.Turn("demo-1").In(namespace).Obj()
		suite.Create(ctx, kit.Client, turn)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		_, kubeconfig := certificateUser(ctx, namespace, roles...)
		for name, arguments := range map[string][]string{
			"log": {"log", "demo"}, "watch": {"watch", "turn/demo-1"}, "tree": {"tree", "demo-1"}, "cost": {"cost"},
			"inspect": {"inspect", "demo"}, "ask": {"ask", "demo", "Hi"}, "cancel": {"cancel", "demo-1"},
			"chat": {"chat", "demo"},
		} {
			r := as(kubeconfig, namespace).Pipe(ctx, "Hi\n", arguments...)
			want := 1
			for _, a := range allowed {
				if a == name {
					want = 0
				}
			}
			Expect(r.Code).To(Equal(want), "%s: %s%s", name, r.Out, r.Err)
			if want == 1 {
				Expect(r.Err).To(MatchRegexp(`(?s)forbidden.*The role capstan-(view|edit) permits it`), name)
			}
		}
	},
		Entry("everything, with capstan-edit", []string{"capstan-edit"},
			"log", "watch", "tree", "cost", "inspect", "ask", "cancel", "chat"),
		Entry("read, with capstan-view", []string{"capstan-view"}, "log", "watch", "tree", "cost", "inspect", "cancel"),
		Entry("nothing, without a role", nil),
	)
})
