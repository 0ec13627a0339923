package policies_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/test/internal/suite"
)

// newLease is a lease whose clean-up would act as a user.
func newLease(name, user string) *v1alpha1.LeasedResource {
	return &v1alpha1.LeasedResource{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: teamA, Name: name, Finalizers: []string{v1alpha1.FinalizerLease},
		},
		Spec: v1alpha1.LeasedResourceSpec{
			DesiredState: v1alpha1.LeaseDesiredStateActive, Provider: "example.com", Type: "vm", ExternalID: "vm-1",
			Duration: metav1.Duration{Duration: time.Hour}, SessionRef: v1alpha1.ObjectIdentity{Name: "demo", UID: "1"},
			Turn: "demo-1", Tool: "start", User: user,
			Cleanup: v1alpha1.LeaseCleanup{ToolRef: v1alpha1.LocalReference{Name: "clean"}},
		},
	}
}

var _ = Describe("The policy leased-resources", func() {
	// Rules: LEASE-04.
	It("lets only the manager create leases, by which it acts as a user", func(ctx context.Context) {
		user, name := newUser(ctx, newRole(ctx, everything))
		const refusal = "only the manager creates LeasedResources, for the calls of Tools with a lease."
		accepts(creating(ctx, as(managerUser), newLease("lease", name)))
		refuses(creating(ctx, user, newLease("lease", name)), refusal)
		refuses(creating(ctx, admin, newLease("lease", name)), refusal)
	})

	// Rules: LEASE-02, LEASE-04.
	It("lets users release and abandon a resource, and change nothing else", func(ctx context.Context) {
		manager := suite.Client(impersonating(managerUser, "system:masters"))
		l := stored(ctx, manager, newLease("kept", "ann"))
		DeferCleanup(func(ctx context.Context) {
			Expect(admin.Get(ctx, client.ObjectKeyFromObject(l), l)).To(Succeed())
			l.Finalizers = nil
			Expect(manager.Update(ctx, l)).To(Succeed())
		})
		desire := func(state v1alpha1.LeaseDesiredState) func(*v1alpha1.LeasedResource) {
			return func(l *v1alpha1.LeasedResource) { l.Spec.DesiredState = state }
		}
		user, _ := newUser(ctx, "capstan-edit")
		accepts(updating(ctx, user, l, desire(v1alpha1.LeaseDesiredStateReleased)))
		accepts(updating(ctx, user, l, desire(v1alpha1.LeaseDesiredStateAbandoned)))
		accepts(func() error { return user.Delete(ctx, l, client.DryRunAll) })
		for what, change := range map[string]func(*v1alpha1.LeasedResource){
			"the user":     func(l *v1alpha1.LeasedResource) { l.Spec.User = "ben" },
			"no user":      func(l *v1alpha1.LeasedResource) { l.Spec.User = "" },
			"the id":       func(l *v1alpha1.LeasedResource) { l.Spec.ExternalID = "vm-2" },
			"the provider": func(l *v1alpha1.LeasedResource) { l.Spec.Provider = "example.org" },
			"the type":     func(l *v1alpha1.LeasedResource) { l.Spec.Type = "disk" },
			"the duration": func(l *v1alpha1.LeasedResource) { l.Spec.Duration.Duration = time.Minute },
			"the Session":  func(l *v1alpha1.LeasedResource) { l.Spec.SessionRef.UID = "2" },
			"the Turn":     func(l *v1alpha1.LeasedResource) { l.Spec.Turn = "demo-2" },
			"the Tool":     func(l *v1alpha1.LeasedResource) { l.Spec.Tool = "other" },
			"the clean-up": func(l *v1alpha1.LeasedResource) { l.Spec.Cleanup.ToolRef.Name = "other" },
			"the place":    func(l *v1alpha1.LeasedResource) { l.Spec.Cleanup.ConfinedTo = "https://example.org:443" },
		} {
			By(what)
			refuses(updating(ctx, user, l, change), "only desiredState can be changed.")
			refuses(updating(ctx, manager, l, change), "only desiredState can be changed.")
		}
		refuses(updating(ctx, user, l, func(l *v1alpha1.LeasedResource) { l.Finalizers = nil }),
			"the finalizer capstan.dev/lease-cleanup lets the resource be cleaned up.")
		viewer, _ := newUser(ctx, "capstan-view")
		refuses(updating(ctx, viewer, l, desire(v1alpha1.LeaseDesiredStateReleased)), "cannot update")

		Expect(updating(ctx, user, l, desire(v1alpha1.LeaseDesiredStateReleased))()).To(Succeed())
		l.Spec.DesiredState = v1alpha1.LeaseDesiredStateReleased
		Expect(user.Update(ctx, l)).To(Succeed())
		refuses(
			updating(ctx, user, l, desire(v1alpha1.LeaseDesiredStateActive)),
			"becomes active again only when it is used.",
		)
		accepts(updating(ctx, manager, l, desire(v1alpha1.LeaseDesiredStateActive)))
		l.Spec.DesiredState = v1alpha1.LeaseDesiredStateAbandoned
		refuses(updating(ctx, user, l, func(l *v1alpha1.LeasedResource) { l.Finalizers = nil }),
			"the finalizer capstan.dev/lease-cleanup lets the resource be cleaned up.")
		Expect(user.Update(ctx, l)).To(Succeed())
		accepts(updating(ctx, user, l, func(l *v1alpha1.LeasedResource) { l.Finalizers = nil }))
		refuses(updating(ctx, viewer, l, func(l *v1alpha1.LeasedResource) { l.Finalizers = nil }), "cannot update")
		refuses(updating(ctx, manager, l, desire(v1alpha1.LeaseDesiredStateReleased)),
			"an abandoned resource stays abandoned.")
	})
})
