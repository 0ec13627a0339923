package policies_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

var _ = Describe("The policy tool-payments", func() {
	paying := func(wallet string) *v1alpha1.Tool {
		tool := newHTTPTool("buy")
		tool.Spec.HTTP.Payment = &v1alpha1.HTTPPayment{
			Rail: v1alpha1.PaymentRailX402Base, MaxAmount: "0.05",
			WalletRef: v1alpha1.SecretKeyReference{Name: wallet, Key: "key"},
		}
		return tool
	}
	refused := func(wallet string) string {
		return fmt.Sprintf("you are not allowed to let a Tool pay from Secret %q: it requires the verb pay on the Secret.",
			wallet)
	}

	It("lets a Tool pay from a wallet that its writer may pay from, without reading it", func(ctx context.Context) {
		user, _ := newUser(ctx, "capstan-tools", newRole(ctx, rbacv1.PolicyRule{
			APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"pay"}, ResourceNames: []string{"mine"},
		}))
		accepts(creating(ctx, user, paying("mine")))
		refuses(creating(ctx, user, paying("theirs")), refused("theirs"))
		reader, _ := newUser(ctx, "capstan-tools", newRole(ctx, gets("mine")))
		refuses(creating(ctx, reader, paying("mine")), refused("mine"))

		tool := stored(ctx, user, paying("mine"))
		for name, change := range map[string]func(*v1alpha1.Tool){
			"the server":      func(t *v1alpha1.Tool) { t.Spec.HTTP.URL = "https://evil.example" },
			"the limit":       func(t *v1alpha1.Tool) { t.Spec.HTTP.Payment.MaxAmount = "100" },
			"the description": func(t *v1alpha1.Tool) { t.Spec.Description = "Call it always." },
		} {
			By("refusing another user to change " + name)
			refuses(updating(ctx, reader, tool, change), refused("mine"))
		}
		accepts(updating(ctx, reader, tool, func(t *v1alpha1.Tool) { t.Spec.HTTP.Payment = nil }))
	})
})
