// Package policies_test checks the rights of users and of the manager at a real API server, with Capstan's roles and
// policies installed as users install them. Every user is one of the API server's own, with the roles of the spec only.
package policies_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/test/internal/suite"
)

const (
	// install has the manifests of the suite: the manager is bound in teamA and teamB, and in no other namespace.
	install = "../../config/namespaced"
	teamA   = "team-a"
	teamB   = "team-b"
	// elsewhere is a namespace that the manager has nothing to do with.
	elsewhere = "elsewhere"

	// clusterEdit is what the cluster's own role edit has by itself. The controller that puts edit together does not
	// run here.
	clusterEdit = "system:aggregate-to-edit"

	managerUser   = "system:serviceaccount:capstan-system:capstan-manager"
	jobController = "system:serviceaccount:kube-system:job-controller"
)

var (
	server *suite.Server
	config *rest.Config
	// admin is a user of the group system:masters.
	admin client.Client
)

func TestPolicies(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Policies and roles")
}

var _ = BeforeSuite(func(ctx context.Context) {
	suite.Configure(suite.Logger(), 15*time.Second, 50*time.Millisecond)
	server = suite.Start()
	config = server.Config
	admin = suite.Client(config)
	for _, namespace := range []string{teamA, teamB, elsewhere} {
		Expect(admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{
			"pod-security.kubernetes.io/enforce": "restricted",
		}}})).To(Succeed())
	}
	Expect(server.Kubectl(ctx, "apply", "--server-side", "-k", install)).NotTo(ContainSubstring("Warning"))
})

var users int

// newUser is a user of the API server who holds the given ClusterRoles in teamA and nothing else.
func newUser(ctx context.Context, roles ...string) (client.Client, string) {
	GinkgoHelper()
	users++
	name := fmt.Sprintf("user-%d@example.org", users)
	user := server.User(name)
	for _, role := range roles {
		grant(ctx, name, role)
	}
	return suite.Client(user.Config()), name
}

// grant binds a ClusterRole to a user in teamA.
func grant(ctx context.Context, user, role string) {
	GinkgoHelper()
	Expect(admin.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: teamA, GenerateName: "user-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})).To(Succeed())
}

// newRole is a ClusterRole of the spec's own, for what a user holds besides Capstan's.
func newRole(ctx context.Context, rules ...rbacv1.PolicyRule) string {
	GinkgoHelper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "own-"}, Rules: rules}
	Expect(admin.Create(ctx, role)).To(Succeed())
	DeferCleanup(func(ctx context.Context) error { return admin.Delete(ctx, role) })
	return role.Name
}

// as is a client that is one of the cluster's own accounts to the API server, with the rights that the account has.
func as(account string) client.Client {
	GinkgoHelper()
	return suite.Client(impersonating(account))
}

func impersonating(account string, groups ...string) *rest.Config {
	own := rest.CopyConfig(config)
	own.Impersonate = rest.ImpersonationConfig{UserName: account, Groups: groups}
	return own
}

// accepts waits until a request is accepted: roles and policies reach the API server's own caches a moment after they
// are made.
func accepts(try func() error) {
	GinkgoHelper()
	Eventually(try).Should(Succeed())
}

// refuses waits until a request is refused with a message. The request must be one that can be made again.
func refuses(try func() error, message string) {
	GinkgoHelper()
	Eventually(func() string {
		switch err := try(); {
		case err == nil:
			return "accepted"
		case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
			return "refused: " + err.Error()
		default:
			return "failed: " + err.Error()
		}
	}).Should(And(HavePrefix("refused: "), ContainSubstring(message)))
}

// creating is a request that creates an object and stores nothing.
func creating(ctx context.Context, c client.Client, object client.Object) func() error {
	return func() error {
		return c.Create(ctx, object.DeepCopyObject().(client.Object), client.DryRunAll)
	}
}

// updating is a request that changes an object that exists and stores nothing.
func updating[T client.Object](ctx context.Context, c client.Client, object T, change func(T)) func() error {
	return func() error {
		changed := object.DeepCopyObject().(T)
		if err := admin.Get(ctx, client.ObjectKeyFromObject(object), changed); err != nil {
			return err
		}
		change(changed)
		return c.Update(ctx, changed, client.DryRunAll)
	}
}

// patching is the same as updating, as a patch.
func patching[T client.Object](ctx context.Context, c client.Client, object T, change func(T)) func() error {
	return func() error {
		changed := object.DeepCopyObject().(T)
		if err := admin.Get(ctx, client.ObjectKeyFromObject(object), changed); err != nil {
			return err
		}
		base := changed.DeepCopyObject().(T)
		change(changed)
		patch := client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
		return c.Patch(ctx, changed, patch, client.DryRunAll)
	}
}

// stored creates an object as a user with the permission, for the spec.
func stored[T client.Object](ctx context.Context, c client.Client, object T) T {
	GinkgoHelper()
	accepts(func() error { return c.Create(ctx, object) })
	DeferCleanup(func(ctx context.Context) error {
		return client.IgnoreNotFound(admin.Delete(ctx, object, client.GracePeriodSeconds(0)))
	})
	return object
}
