package turns_test

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/runtime/platform"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// account is the ServiceAccount of the agents that manage others.
const account = "bot"

// reading and writing are rights of an account.
var (
	reading = rbacv1.PolicyRule{
		APIGroups: []string{"capstan.dev"}, Resources: []string{"agents", "harnesses", "sessions", "turns"},
		Verbs: []string{"get", "list", "watch"},
	}
	sending = rbacv1.PolicyRule{
		APIGroups: []string{"capstan.dev"}, Resources: []string{"turns"}, Verbs: []string{"create"},
	}
	managing = rbacv1.PolicyRule{
		APIGroups: []string{"capstan.dev"}, Resources: []string{"agents", "harnesses", "sessions"},
		Verbs: []string{"create", "patch"},
	}
)

// runsPlatform creates the account with rights, and makes the Jobs of the namespace run the program of the capability
// platform, with a token of the account, as the kubelet would. Each call runs as often as times says.
func runsPlatform(ctx context.Context, namespace string, times int, rights ...rbacv1.PolicyRule) {
	GinkgoHelper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: account}
	own := &corev1.ServiceAccount{ObjectMeta: meta}
	create(ctx, own, &rbacv1.Role{ObjectMeta: meta, Rules: rights}, &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: namespace}},
	})
	request := &authenticationv1.TokenRequest{}
	Expect(kit.Client.SubResource("token").Create(ctx, own, request)).To(Succeed())
	server, err := url.Parse(config.Host)
	Expect(err).NotTo(HaveOccurred())
	directory := GinkgoT().TempDir()
	token, ca := filepath.Join(directory, "token"), filepath.Join(directory, "ca.crt")
	Expect(os.WriteFile(token, []byte(request.Status.Token), 0o600)).To(Succeed())
	Expect(os.WriteFile(ca, config.CAData, 0o600)).To(Succeed())
	jobs.In(namespace, func(call capstantest.Call) (string, string, int) {
		environment := map[string]string{
			"KUBERNETES_SERVICE_HOST": server.Hostname(), "KUBERNETES_SERVICE_PORT": server.Port(),
			result.EnvTokenFile: token, result.EnvCAFile: ca, result.EnvTool: call.Tool, result.EnvTurn: call.Turn,
			result.EnvSession: call.Session, result.EnvIdempotencyKey: call.IdempotencyKey,
		}
		var stdout, stderr bytes.Buffer
		exit := 0
		for range times {
			stdout.Reset()
			exit = platform.Main(call.Context, func(name string) string { return environment[name] },
				strings.NewReader(call.Arguments), &stdout, &stderr)
		}
		return stdout.String(), stderr.String(), exit
	})
}

// platformScript is a model that makes the calls of a step in each Turn whose message has a key, and responds with the
// results of the tools.
func platformScript(steps map[string][]v1alpha1.SimulatedToolCall, tools ...string) v1alpha1.Simulation {
	script := fileScript(steps)
	text := "Told:"
	for _, tool := range tools {
		text += " {{tool:" + tool + "}}"
	}
	script.Response = builder.Fixed(text)
	return script
}

// managingSession is a Session with the capability platform; as is empty for no account.
func managingSession(namespace, name, as string) *v1alpha1.Session {
	session := builder.Session(name).In(namespace).Obj()
	session.Spec.Capabilities = []v1alpha1.CapabilityReference{
		{Builtin: platform.Capability, MaxRisk: v1alpha1.CapabilityRiskHigh},
	}
	session.Spec.ServiceAccountName = as
	return session
}

// Rules: SVC-04.
var _ = Describe("The capability platform", func() {
	It("sends one message for a call that runs twice, as the account of the Session", func(ctx context.Context) {
		namespace := newNamespace(ctx, platformScript(map[string][]v1alpha1.SimulatedToolCall{
			"Delegate": {fileCall("send_message", `{"session": "other", "message": "Begin."}`)},
		}, "send_message"))
		runsPlatform(ctx, namespace, 2, reading, sending)
		create(ctx, managingSession(namespace, "demo", account), builder.Session("other").In(namespace).Obj())
		response := respond(ctx, namespace, "demo-1", "Delegate it.")
		Expect(response).To(MatchRegexp(`Told: \{"session":"other","turn":"msg-[0-9a-f]{20}"\}`))

		turns := &v1alpha1.TurnList{}
		Expect(kit.Client.List(ctx, turns, client.InNamespace(namespace))).To(Succeed())
		var sent []v1alpha1.Turn
		for _, turn := range turns.Items {
			if turn.Spec.SessionRef.Name == "other" {
				sent = append(sent, turn)
			}
		}
		Expect(sent).To(HaveLen(1))
		Expect(sent[0].Spec.Input).To(Equal("Begin."))
		Expect(sent[0].Spec.SubmittedBy).To(Equal(fmt.Sprintf("system:serviceaccount:%s:%s", namespace, account)))
		Expect(sent[0].Annotations).To(HaveKeyWithValue(v1alpha1.AnnotationPlatformSession, "demo"))

		all := &batchv1.JobList{}
		Expect(kit.Client.List(ctx, all, client.InNamespace(namespace),
			client.MatchingLabels{v1alpha1.LabelCapability: platform.Capability})).To(Succeed())
		Expect(all.Items).NotTo(BeEmpty())
		Expect(all.Items[0].Spec.Template.Spec.ServiceAccountName).To(Equal(account))
	})
})
