package manager_test

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"os/exec"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/test/internal/conditions"
)

var _ = Describe("The manager's metrics", func() {
	It("are served over TLS to authorized readers only", func(ctx context.Context) {
		scrape := func(token string) (int, string) {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+metrics+"/metrics", nil)
			Expect(err).NotTo(HaveOccurred())
			if token != "" {
				request.Header.Set("Authorization", "Bearer "+token)
			}
			own := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
			response, err := own.Do(request)
			Expect(err).NotTo(HaveOccurred())
			defer response.Body.Close()
			text, err := io.ReadAll(response.Body)
			Expect(err).NotTo(HaveOccurred())
			return response.StatusCode, string(text)
		}
		tokenOf := func(name string) string {
			Expect(
				admin.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: teamA, Name: name}}),
			).To(Succeed())
			token, err := clientset.CoreV1().
				ServiceAccounts(teamA).
				CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			return token.Status.Token
		}
		code, _ := scrape("")
		Expect(code).To(Equal(http.StatusUnauthorized))
		code, _ = scrape(tokenOf("stranger"))
		Expect(code).To(Equal(http.StatusForbidden))
		Expect(admin.Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "scraper"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "capstan-metrics-reader"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: teamA, Name: "scraper"}},
		})).To(Succeed())
		// The API server reads bindings from its cache, and the manager remembers a refusal for a while.
		Eventually(func() (bool, error) {
			review, err := clientset.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
				Spec: authorizationv1.SubjectAccessReviewSpec{
					User:                  "system:serviceaccount:" + teamA + ":scraper",
					NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"},
				},
			}, metav1.CreateOptions{})
			return err == nil && review.Status.Allowed, err
		}).Should(BeTrue())
		code, text := scrape(tokenOf("scraper"))
		Expect(code).To(Equal(http.StatusOK))
		Expect(text).To(ContainSubstring("capstan_turns"))
		Expect(text).To(MatchRegexp(`capstan_build_info\{.*version="` + version + `"\} 1`))
		// What is plain text to a TLS server is refused.
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+metrics+"/metrics", nil)
		Expect(err).NotTo(HaveOccurred())
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			response.Body.Close()
			Expect(response.StatusCode).To(Equal(http.StatusBadRequest))
		}
	})
})

var _ = Describe("The manager's version", func() {
	It("is printed, without any other flag", func(ctx context.Context) {
		output, err := exec.CommandContext(ctx, binary, "--version").CombinedOutput()
		Expect(err).NotTo(HaveOccurred())
		Expect(string(output)).To(HavePrefix("capstan-manager " + version + " (commit "))
	})

	It("is in its User-Agent, which the API server records as the manager of its fields", func(ctx context.Context) {
		harness := builder.Harness("identified").In(teamA).Obj()
		Expect(admin.Create(ctx, harness)).To(Succeed())
		Eventually(func() ([]metav1.ManagedFieldsEntry, error) {
			err := admin.Get(ctx, client.ObjectKeyFromObject(harness), harness)
			return harness.ManagedFields, err
		}).Should(ContainElement(And(HaveField("Manager", "capstan-manager"), HaveField("Subresource", "status"))))
	})
})

var _ = Describe("While a policy of the install is missing", func() {
	It("the manager is not ready, reads no Secret, and Turns that need one wait", func(ctx context.Context) {
		Expect(admin.Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: teamA, Name: "secrets"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "capstan-manager-secrets"},
			Subjects: []rbacv1.Subject{
				{Kind: rbacv1.ServiceAccountKind, Namespace: "capstan-system", Name: "capstan-manager"},
			},
		})).To(Succeed())
		const missing = `ValidatingAdmissionPolicyBinding "capstan-model-identities" does not exist`
		binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "capstan-model-identities"},
		}
		Expect(admin.Delete(ctx, binding)).To(Succeed())
		Eventually(ready(ctx)).WithTimeout(90 * 1e9).Should(MatchError(ContainSubstring("policies failed")))

		meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: teamA, Name: name} }
		served := &v1alpha1.Model{ObjectMeta: meta("real"), Spec: v1alpha1.ModelSpec{
			Provider: v1alpha1.ModelProviderOpenAI, Model: "m", BaseURL: "https://127.0.0.1:1/v1",
			SecretKeyRef: &v1alpha1.SecretKeyReference{Name: "key", Key: "token"},
		}}
		simulated := builder.Model("simulated").In(teamA).Simulated(builder.Script("Hello.")).Obj()
		for _, object := range []client.Object{
			&corev1.Secret{ObjectMeta: meta("key"), StringData: map[string]string{"token": "s3cret"}},
			served, simulated, builder.Harness("base").In(teamA).Obj(),
		} {
			Expect(admin.Create(ctx, object)).To(Succeed())
		}
		for _, model := range []string{"real", "simulated"} {
			session := builder.Session(model).In(teamA).Obj()
			session.Spec.ModelRef = &v1alpha1.LocalReference{Name: model}
			Expect(admin.Create(ctx, session)).To(Succeed())
			Expect(admin.Create(ctx, builder.Turn(model).In(teamA).Session(model).Obj())).To(Succeed())
		}
		succeeded := func(name string) func() (metav1.Condition, error) {
			return func() (metav1.Condition, error) {
				turn := &v1alpha1.Turn{}
				err := admin.Get(ctx, client.ObjectKey{Namespace: teamA, Name: name}, turn)
				return ptr.Deref(
					apimeta.FindStatusCondition(turn.Status.Conditions, v1alpha1.ConditionSucceeded),
					metav1.Condition{},
				), err
			}
		}
		Eventually(
			succeeded("simulated"),
		).Should(HaveField("Status", metav1.ConditionTrue), "a Turn without a Secret goes on")
		Eventually(succeeded("real")).Should(And(
			HaveField("Status", metav1.ConditionUnknown), HaveField("Reason", v1alpha1.ReasonPoliciesNotInForce),
			HaveField("Message", ContainSubstring(missing)),
		))
		Expect(ready(ctx)()).To(HaveOccurred())
		conditions.Print(ctx, admin, "without a policy of the install", teamA)

		server.Kubectl(ctx, "apply", "--server-side", "-k", install)
		Eventually(ready(ctx)).Should(Succeed())
		Eventually(
			succeeded("real"),
		).ShouldNot(HaveField("Reason", v1alpha1.ReasonPoliciesNotInForce), "the Turn goes on by itself")
		Eventually(func() ([]metav1.Condition, error) {
			err := admin.Get(ctx, client.ObjectKeyFromObject(served), served)
			return served.Status.Conditions, err
		}).Should(ContainElement(HaveField("Message", "The Model can be called.")), "so does its Model's condition")
		conditions.Print(ctx, admin, "with the policy of the install", teamA)
	})
})

var _ = Describe("A Model whose Secret the manager cannot read", func() {
	It("reports what to do, and recovers after that", func(ctx context.Context) {
		meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: teamB, Name: name} }
		session := builder.Session("demo").In(teamB).Obj()
		session.Spec.ModelRef = &v1alpha1.LocalReference{Name: "real"}
		turn := builder.Turn("demo-1").In(teamB).Obj()
		model := &v1alpha1.Model{ObjectMeta: meta("real"), Spec: v1alpha1.ModelSpec{
			Provider: v1alpha1.ModelProviderOpenAI, Model: "m", BaseURL: "https://127.0.0.1:1/v1",
			SecretKeyRef: &v1alpha1.SecretKeyReference{Name: "key", Key: "token"},
		}}
		for _, object := range []client.Object{turn, session, builder.Harness("base").In(teamB).Obj(), model} {
			Expect(admin.Create(ctx, object)).To(Succeed())
		}
		ready := func() (metav1.Condition, error) {
			err := admin.Get(ctx, client.ObjectKeyFromObject(model), model)
			return ptr.Deref(
				apimeta.FindStatusCondition(model.Status.Conditions, v1alpha1.ConditionReady),
				metav1.Condition{},
			), err
		}
		message := func() (string, error) {
			err := admin.Get(ctx, client.ObjectKeyFromObject(turn), turn)
			return ptr.Deref(
				apimeta.FindStatusCondition(turn.Status.Conditions, v1alpha1.ConditionSucceeded),
				metav1.Condition{},
			).Message, err
		}
		// mend runs the command of the condition.
		mend := func(reason string) {
			GinkgoHelper()
			Eventually(ready).Should(And(HaveField("Status", metav1.ConditionFalse), HaveField("Reason", reason)))
			condition, err := ready()
			Expect(err).NotTo(HaveOccurred())
			AddReportEntry(reason, condition.Message)
			_, command, found := strings.Cut(condition.Message, ": kubectl ")
			Expect(found).To(BeTrue(), condition.Message)
			server.Kubectl(ctx, strings.Fields(strings.ReplaceAll(command, "'", ""))...)
		}
		Eventually(
			message,
		).Should(
			ContainSubstring(`Model "real" is not ready (RoleMissing). The manager has no permission to read Secret "key".`),
		)
		conditions.Print(ctx, admin, "without the RoleBinding for Secrets", teamB)
		mend(v1alpha1.ReasonRoleMissing)
		Eventually(
			message,
		).Should(ContainSubstring(`Model "real" is not ready (SecretMissing). Secret "key" does not exist.`))
		conditions.Print(ctx, admin, "with the RoleBinding, without the Secret", teamB)
		mend(v1alpha1.ReasonSecretMissing)
		Eventually(ready).Should(HaveField("Status", metav1.ConditionTrue))
		Eventually(message).ShouldNot(ContainSubstring("is not ready"), "the Turn goes on by itself")
		conditions.Print(ctx, admin, "with the RoleBinding and the Secret", teamB)

		// Without a Turn no call finds out that the key is missing: only the annotation makes the manager look.
		Expect(admin.Delete(ctx, turn)).To(Succeed())
		Eventually(func() error { return admin.Get(ctx, client.ObjectKeyFromObject(turn), turn) }).
			Should(MatchError(apierrors.IsNotFound, "NotFound"))
		secret := &corev1.Secret{ObjectMeta: meta("key")}
		Expect(
			admin.Patch(ctx, secret, client.RawPatch(types.MergePatchType, []byte(`{"data":{"token":null}}`))),
		).To(Succeed())
		server.Kubectl(ctx, "annotate", "model", "real", "--namespace=team-b", "--overwrite", "capstan.dev/looked-at=now")
		mend(v1alpha1.ReasonSecretKeyMissing)
		Eventually(ready).Should(HaveField("Status", metav1.ConditionTrue))
	})
})
