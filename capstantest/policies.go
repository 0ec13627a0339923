package capstantest

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/config/policy"
	"github.com/capstan-dev/capstan/internal/controller"
)

// The accounts that the policies let through, as in a usual install.
const (
	managerAccount       = "system:serviceaccount:capstan-system:capstan-manager"
	jobControllerAccount = "system:serviceaccount:kube-system:job-controller"
)

// InstallPolicies creates the ValidatingAdmissionPolicies of an installation in the cluster, and waits until they are
// in force. From then on only the manager's account can write statuses and journal entries, whatever permissions other
// users have. The user of cfg must have all permissions.
func InstallPolicies(ctx context.Context, cfg *rest.Config) error {
	c, err := client.New(cfg, client.Options{Scheme: controller.NewScheme()})
	if err != nil {
		return fmt.Errorf("creating the client: %w", err)
	}
	policies, err := policy.Policies(policy.Accounts{Manager: managerAccount, JobController: jobControllerAccount})
	if err != nil {
		return err
	}
	for _, p := range policies {
		for _, object := range []client.Object{p.Policy, p.Binding} {
			if err := c.Create(ctx, object); client.IgnoreAlreadyExists(err) != nil {
				return fmt.Errorf("installing %T %s: %w", object, object.GetName(), err)
			}
		}
	}
	return awaitPolicies(ctx, c)
}

// awaitPolicies waits until the policies are in force: they reach the API server's own caches a moment after their
// creation.
func awaitPolicies(ctx context.Context, c client.Client) error {
	err := wait.PollUntilContextTimeout(
		ctx,
		50*time.Millisecond,
		time.Minute,
		true,
		func(ctx context.Context) (bool, error) {
			forged := &v1alpha1.ToolResult{
				ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, GenerateName: "forged-"},
				Spec: v1alpha1.ToolResultSpec{
					TurnRef: v1alpha1.TurnReference{Name: "none"}, CallID: "1-0", Result: ptr.To(""), SubmittedBy: "another-user",
				},
			}
			err := c.Create(ctx, forged, client.DryRunAll)
			if err == nil || apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
				return err != nil, nil
			}
			return false, err
		},
	)
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("waiting for the policies to be in force: " +
			"a ToolResult in the name of another user is still accepted")
	}
	if err != nil {
		return fmt.Errorf("waiting for the policies to be in force: %w", err)
	}
	return nil
}

// actingAs is a connection that has all rights and the name of an account: the policies go by names.
func actingAs(cfg *rest.Config, account string) *rest.Config {
	own := rest.CopyConfig(cfg)
	own.Impersonate = rest.ImpersonationConfig{UserName: account, Groups: []string{"system:masters"}}
	return own
}
