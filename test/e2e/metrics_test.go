//go:build e2e

package e2e_test

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// metricsPort is where the manager serves its metrics.
	metricsPort = "8443"
	// scraper is the account that reads them, in the manager's namespace.
	scraper = "e2e-scraper"
)

// forwarded matches kubectl's line about the port that it listens on.
var forwarded = regexp.MustCompile(`Forwarding from (127\.0\.0\.1:\d+)`)

// scraped returns the metrics of a pod of the manager as Prometheus reads them, with the rights that it needs and no
// other.
func scraped(ctx context.Context, pod string) string {
	GinkgoHelper()
	text, status := scrape(ctx, pod, scraperToken(ctx))
	Expect(status).To(Equal(http.StatusOK), text)
	return text
}

// scraperToken is a token of an account that may read metrics.
func scraperToken(ctx context.Context) string {
	GinkgoHelper()
	meta := metav1.ObjectMeta{Namespace: managerNamespace, Name: scraper}
	Expect(client.IgnoreAlreadyExists(api.Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}))).To(Succeed())
	Expect(client.IgnoreAlreadyExists(api.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "capstan-" + scraper},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "capstan-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: managerNamespace, Name: scraper}},
	}))).To(Succeed())
	// The API server reads bindings from its cache, and the manager remembers a refusal for a while.
	Eventually(ctx, func(ctx context.Context) (bool, error) {
		review, err := clientset.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{
				User:                  "system:serviceaccount:" + managerNamespace + ":" + scraper,
				NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"},
			},
		}, metav1.CreateOptions{})
		return err == nil && review.Status.Allowed, err
	}).Should(BeTrue())
	token, err := clientset.CoreV1().
		ServiceAccounts(managerNamespace).
		CreateToken(ctx, scraper, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return token.Status.Token
}

// scrape asks a pod of the manager for its metrics through a port of this machine. The API server's proxy would not
// pass the token on.
func scrape(ctx context.Context, pod, token string) (string, int) {
	GinkgoHelper()
	forwarding, stop := context.WithCancel(ctx)
	defer stop()
	command := exec.CommandContext(forwarding, cmp.Or(os.Getenv(envKubectl), "kubectl"),
		"--namespace", managerNamespace, "port-forward", "pod/"+pod, ":"+metricsPort)
	command.Stderr = GinkgoWriter
	out, err := command.StdoutPipe()
	Expect(err).NotTo(HaveOccurred())
	Expect(command.Start()).To(Succeed())
	defer func() { stop(); _ = command.Wait() }()
	line, err := bufio.NewReader(out).ReadString('\n')
	Expect(err).NotTo(HaveOccurred())
	address := forwarded.FindStringSubmatch(line)
	Expect(address).NotTo(BeNil(), line)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address[1]+"/metrics", nil)
	Expect(err).NotTo(HaveOccurred())
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	// The certificate is self-signed.
	own := &http.Client{
		Timeout:   30 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
	}
	response, err := own.Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	return string(text), response.StatusCode
}

var _ = Describe("The manager's metrics", func() {
	It("are served to authorized readers only", func(ctx SpecContext) {
		pod := settled(ctx).pod.Name
		_, status := scrape(ctx, pod, "")
		Expect(status).To(Equal(http.StatusUnauthorized))
		Expect(scraped(ctx, pod)).To(ContainSubstring("capstan_turns"))
	}, SpecTimeout(specLimit))
})
