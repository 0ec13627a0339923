package policies_test

import (
	"context"
	"fmt"
	"maps"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// right is something that a user does to the objects of teamA.
type right string

const (
	reads        right = "reads every kind"
	talks        right = "writes Schedules, Sessions, Turns and ToolResults"
	builds       right = "writes Harnesses, Agents, Models and Tools"
	writesStatus right = "writes a status"
	logs         right = "writes entries of the journal"
	readsSecret  right = "reads Secrets"
	runsPods     right = "makes pods"
)

var everyRight = []right{reads, talks, builds, writesStatus, logs, readsSecret, runsPods}

// requests are those that a right consists of; each is refused to users without the right.
func (r right) requests(ctx context.Context, c client.Client) map[string]func() error {
	list := func(list client.ObjectList) func() error {
		return func() error { return c.List(ctx, list, client.InNamespace(teamA)) }
	}
	write := func(object client.Object) map[string]func() error {
		kind := fmt.Sprintf("%T", object)
		return map[string]func() error{
			"create " + kind: creating(ctx, c, object),
			"delete " + kind: func() error {
				return client.IgnoreNotFound(c.Delete(ctx, object.DeepCopyObject().(client.Object), client.DryRunAll))
			},
			"delete all " + kind: func() error {
				return c.DeleteAllOf(ctx, object, client.InNamespace(teamA), client.DryRunAll)
			},
		}
	}
	all := func(objects ...client.Object) map[string]func() error {
		merged := map[string]func() error{}
		for _, object := range objects {
			maps.Copy(merged, write(object))
		}
		return merged
	}
	switch r {
	case reads:
		return map[string]func() error{
			"agents": list(
				&v1alpha1.AgentList{},
			),
			"budgets":         list(&v1alpha1.BudgetList{}),
			"harnesses":       list(&v1alpha1.HarnessList{}),
			"journalentries":  list(&v1alpha1.JournalEntryList{}),
			"leasedresources": list(&v1alpha1.LeasedResourceList{}),
			"models": list(
				&v1alpha1.ModelList{},
			),
			"records":     list(&v1alpha1.RecordList{}),
			"schedules":   list(&v1alpha1.ScheduleList{}),
			"sessions":    list(&v1alpha1.SessionList{}),
			"toolresults": list(&v1alpha1.ToolResultList{}),
			"tools":       list(&v1alpha1.ToolList{}),
			"turns":       list(&v1alpha1.TurnList{}),
		}
	case talks:
		return all(builder.Session("x").In(teamA).Obj(), builder.Turn("x").In(teamA).Obj(), newToolResult("x", ""),
			newSchedule("x"))
	case builds:
		return all(builder.Harness("x").In(teamA).Obj(), builder.Agent("x").In(teamA).Obj(), newModel("x"), newTool("x"))
	case writesStatus:
		return map[string]func() error{"patch": func() error {
			patch := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"phase":"Succeeded"}}`))
			return c.Status().Patch(ctx, builder.Turn("roles").In(teamA).Obj(), patch, client.DryRunAll)
		}}
	case logs:
		return write(newEntry("x"))
	case readsSecret:
		return map[string]func() error{"list": list(&corev1.SecretList{})}
	case runsPods:
		pod := podOf(plainJob("x"))
		pod.OwnerReferences = nil
		return map[string]func() error{"create": creating(ctx, c, pod)}
	}
	return nil
}

var _ = Describe("The role", func() {
	DescribeTable("of users", func(ctx context.Context, role string, has ...right) {
		stored(ctx, admin, builder.Turn("roles").In(teamA).Obj())
		user, name := newUser(ctx, role)
		for _, right := range everyRight {
			allowed := slices.Contains(has, right)
			for what, request := range right.requests(ctx, user) {
				By(fmt.Sprintf("%s: %s, %t", right, what, allowed))
				if allowed {
					accepts(request)
				} else {
					refuses(request, fmt.Sprintf("User %q cannot ", name))
				}
			}
		}
		By("nothing in another namespace")
		refuses(
			func() error { return user.List(ctx, &v1alpha1.TurnList{}, client.InNamespace(teamB)) },
			fmt.Sprintf("User %q cannot list resource", name),
		)
	},
		func(role string, _ ...right) string { return role },
		Entry(nil, "capstan-view", reads),
		Entry(nil, "capstan-edit", reads, talks),
		Entry(nil, "capstan-tools", reads, builds),
		Entry(nil, "capstan-admin", reads, talks, builds),
	)

	It("capstan-approve permits reading waiting calls and deciding about them, and no other request", func(
		ctx context.Context,
	) {
		user, name := newUser(ctx, "capstan-approve")
		accepts(func() error { return user.List(ctx, &v1alpha1.TurnList{}, client.InNamespace(teamA)) })
		accepts(func() error { return user.List(ctx, &v1alpha1.ToolResultList{}, client.InNamespace(teamA)) })
		accepts(creating(ctx, user, newDecision("decision", name)))
		requests := map[string]func() error{
			"delete ToolResults": func() error {
				return user.DeleteAllOf(ctx, newToolResult("x", ""), client.InNamespace(teamA), client.DryRunAll)
			},
			"create Turns":      creating(ctx, user, builder.Turn("x").In(teamA).Obj()),
			"create Sessions":   creating(ctx, user, builder.Session("x").In(teamA).Obj()),
			"read Sessions":     func() error { return user.List(ctx, &v1alpha1.SessionList{}, client.InNamespace(teamA)) },
			"read in another":   func() error { return user.List(ctx, &v1alpha1.TurnList{}, client.InNamespace(teamB)) },
			"decide in another": func() error { return user.Create(ctx, inTeamB(newDecision("x", name)), client.DryRunAll) },
			"read Records":      func() error { return user.List(ctx, &v1alpha1.RecordList{}, client.InNamespace(teamA)) },
			"read the journal":  func() error { return user.List(ctx, &v1alpha1.JournalEntryList{}, client.InNamespace(teamA)) },
		}
		for _, right := range []right{builds, writesStatus, logs, readsSecret, runsPods} {
			maps.Copy(requests, right.requests(ctx, user))
		}
		stored(ctx, admin, builder.Turn("roles").In(teamA).Obj())
		for what, request := range requests {
			By(what)
			refuses(request, fmt.Sprintf("User %q cannot ", name))
		}
	})

	It("the cluster role view permits reading configuration, and no conversations", func(ctx context.Context) {
		user, name := newUser(ctx, "capstan-aggregate-to-view")
		conversations := []string{
			"sessions", "turns", "toolresults", "journalentries", "leasedresources", "records",
			"schedules",
		}
		for kind, request := range reads.requests(ctx, user) {
			By(kind)
			if slices.Contains(conversations, kind) {
				refuses(request, fmt.Sprintf("User %q cannot list", name))
			} else {
				accepts(request)
			}
		}
	})

	DescribeTable("is aggregated to the cluster role",
		func(ctx context.Context, name string, into ...string) {
			role := &rbacv1.ClusterRole{}
			Expect(admin.Get(ctx, client.ObjectKey{Name: name}, role)).To(Succeed())
			for _, cluster := range []string{"view", "edit", "admin"} {
				taken := &rbacv1.ClusterRole{}
				Expect(admin.Get(ctx, client.ObjectKey{Name: cluster}, taken)).To(Succeed())
				Expect(taken.AggregationRule.ClusterRoleSelectors).NotTo(BeEmpty())
				label := "rbac.authorization.k8s.io/aggregate-to-" + cluster
				if slices.Contains(into, cluster) {
					Expect(role.Labels).To(HaveKeyWithValue(label, "true"))
				} else {
					Expect(role.Labels).NotTo(HaveKey(label))
				}
			}
		},
		func(name string, into ...string) string { return fmt.Sprintf("%s into %v", name, into) },
		Entry(nil, "capstan-view", "edit", "admin"),
		Entry(nil, "capstan-aggregate-to-view", "view"),
		Entry(nil, "capstan-edit", "edit", "admin"),
		Entry(nil, "capstan-tools", "edit", "admin"),
		Entry(nil, "capstan-connections", "edit", "admin"),
		Entry(nil, "capstan-approve", "admin"),
		Entry(nil, "capstan-admin"),
	)
})
