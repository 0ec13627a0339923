package policies_test

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/schedule"
)

// newSchedule is a Schedule of teamA.
func newSchedule(name string) *v1alpha1.Schedule {
	return &v1alpha1.Schedule{ObjectMeta: named(name), Spec: v1alpha1.ScheduleSpec{
		Schedule: "@daily", SessionRef: &v1alpha1.LocalReference{Name: "demo"},
		Turn: v1alpha1.ScheduledTurn{Input: "Hello", Delivery: v1alpha1.DeliveryQueue},
	}}
}

// perTick makes a Schedule create Sessions.
func perTick(s *v1alpha1.Schedule) {
	s.Spec.SessionRef = nil
	s.Spec.SessionTemplate = &v1alpha1.SessionTemplate{HarnessRef: v1alpha1.LocalReference{Name: "base"}}
}

// ticked is a Schedule whose tick is due.
func ticked() (*v1alpha1.Schedule, time.Time) {
	s := newSchedule("nightly")
	s.UID = "n1"
	perTick(s)
	return s, time.Date(2031, 1, 2, 3, 4, 0, 0, time.UTC)
}

// ofModel is a Schedule that a model has created for the Session demo.
func ofModel() *v1alpha1.Schedule {
	s := newSchedule("model-0123456789abcdef")
	s.Labels = map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedByCapstan}
	owner := taskTurn().OwnerReferences[0]
	owner.Controller = ptr.To(true)
	s.OwnerReferences = append(s.OwnerReferences, owner)
	return s
}

// Rules: SCHED-04.
var _ = Describe("The policies on the manager and Schedules", func() {
	const (
		plain   = "the manager may create the Session of a sub-agent or of a Schedule only without configuration of its own."
		session = "the manager may create the Session of a Schedule only with the Schedule as its owner, and under a name " +
			"that begins with that of the Schedule."
		turn = "the manager may create the Turn of a Schedule only with the Schedule as its owner, and under a name that " +
			"begins with that of the Schedule."
		cancels = "the manager may only cancel the Turns of sub-agents and of Schedules."
		owned   = "the manager may write only Schedules that the Session of their Turns owns."
		shape   = "the manager may create a Schedule only with a text, and under a name that begins with model-."
		suspend = "the manager may only suspend Schedules."
	)

	It("let it create the objects of a tick in their shape alone, and cancel the Turn", func(ctx context.Context) {
		s, tick := ticked()
		accepts(creating(ctx, as(managerUser), schedule.NewSession(s, tick)))
		for what, c := range map[string]struct {
			change  func(*v1alpha1.Session)
			message string
		}{
			"of another name":  {func(o *v1alpha1.Session) { o.Name = "daily" }, session},
			"without an owner": {func(o *v1alpha1.Session) { o.OwnerReferences = nil }, session},
			"of another owner": {func(o *v1alpha1.Session) { o.OwnerReferences[0].UID = "n2" }, session},
			"of a Session":     {func(o *v1alpha1.Session) { o.OwnerReferences[0].Kind = "Session" }, session},
			"without a label":  {func(o *v1alpha1.Session) { delete(o.Labels, v1alpha1.LabelSchedule) }, session},
			"with a prompt":    {func(o *v1alpha1.Session) { o.Spec.SystemPrompt = "Obey." }, plain},
			"with an account":  {func(o *v1alpha1.Session) { o.Spec.ServiceAccountName = "mine" }, plain},
		} {
			By("a Session " + what)
			o := schedule.NewSession(s, tick)
			c.change(o)
			refuses(creating(ctx, managerAsAdmin(), o), c.message)
		}
		for what, change := range map[string]func(*v1alpha1.Turn){
			"of another name":  func(o *v1alpha1.Turn) { o.Name = "daily" },
			"without an owner": func(o *v1alpha1.Turn) { o.OwnerReferences = nil },
			"of another owner": func(o *v1alpha1.Turn) { o.OwnerReferences[0].UID = "n2" },
			"without labels":   func(o *v1alpha1.Turn) { o.Labels = nil },
			"cancelled":        func(o *v1alpha1.Turn) { o.Spec.DesiredState = v1alpha1.DesiredStateCancelled },
			"held":             func(o *v1alpha1.Turn) { o.Finalizers = []string{"example.org/held"} },
		} {
			By("a Turn " + what)
			o := schedule.NewTurn(s, tick)
			change(o)
			refuses(creating(ctx, managerAsAdmin(), o), turn)
		}
		own := stored(ctx, as(managerUser), schedule.NewTurn(s, tick))
		accepts(updating(ctx, managerAsAdmin(), own, func(t *v1alpha1.Turn) {
			t.Spec.DesiredState = v1alpha1.DesiredStateCancelled
		}))
		refuses(updating(ctx, managerAsAdmin(), own, func(t *v1alpha1.Turn) { t.Labels["a"] = "b" }), cancels)
	})

	// Rules: SCHED-01.
	It("let it write the Schedules of models alone", func(ctx context.Context) {
		accepts(creating(ctx, as(managerUser), ofModel()))
		for what, c := range map[string]struct {
			change  func(*v1alpha1.Schedule)
			message string
		}{
			"of no Session":      {func(s *v1alpha1.Schedule) { s.OwnerReferences = nil }, owned},
			"of another Session": {func(s *v1alpha1.Schedule) { s.Spec.SessionRef.Name = "other" }, owned},
			"that makes Sessions": {func(s *v1alpha1.Schedule) {
				perTick(s)
			}, owned},
			"without its label": {func(s *v1alpha1.Schedule) { s.Labels = nil }, owned},
			"of another name":   {func(s *v1alpha1.Schedule) { s.Name = "nightly" }, shape},
			"with a Model": {func(s *v1alpha1.Schedule) {
				s.Spec.Turn.Controls = &v1alpha1.TurnControls{ModelRef: &v1alpha1.LocalReference{Name: "dear"}}
			}, shape},
		} {
			By(what)
			s := ofModel()
			c.change(s)
			refuses(creating(ctx, managerAsAdmin(), s), c.message)
		}
		own := stored(ctx, as(managerUser), ofModel())
		accepts(updating(ctx, managerAsAdmin(), own, func(s *v1alpha1.Schedule) { s.Spec.Suspend = ptr.To(true) }))
		refuses(updating(ctx, managerAsAdmin(), own, func(s *v1alpha1.Schedule) { s.Spec.Schedule = "@hourly" }), suspend)
		refuses(updating(ctx, managerAsAdmin(), own, func(s *v1alpha1.Schedule) {
			s.Spec.Suspend, s.Spec.Turn.Input = ptr.To(true), "Obey."
		}), suspend)
		theirs := stored(ctx, admin, newSchedule("theirs"))
		refuses(updating(ctx, managerAsAdmin(), theirs, func(s *v1alpha1.Schedule) { s.Spec.Suspend = ptr.To(true) }), owned)
		refuses(func() error { return as(managerUser).Delete(ctx, theirs.DeepCopy(), client.DryRunAll) }, owned)
	})
})

// writtenBy are changes of the fields of a Schedule that make its message that of who makes them. at cannot be changed.
var writtenBy = map[string]func(*v1alpha1.Schedule){
	"turn":            func(s *v1alpha1.Schedule) { s.Spec.Turn.Input = "Pay." },
	"sessionRef":      func(s *v1alpha1.Schedule) { s.Spec.SessionRef.Name = "other" },
	"sessionTemplate": perTick,
	"schedule":        func(s *v1alpha1.Schedule) { s.Spec.Schedule = "* * * * *" },
	"timeZone":        func(s *v1alpha1.Schedule) { s.Spec.TimeZone = "Asia/Tokyo" },
	"concurrencyPolicy": func(s *v1alpha1.Schedule) {
		s.Spec.ConcurrencyPolicy = v1alpha1.ConcurrencyPolicyReplace
	},
	"startingDeadlineSeconds":     func(s *v1alpha1.Schedule) { s.Spec.StartingDeadlineSeconds = ptr.To[int64](9) },
	"successfulTurnsHistoryLimit": func(s *v1alpha1.Schedule) { s.Spec.SuccessfulTurnsHistoryLimit = ptr.To[int32](0) },
	"failedTurnsHistoryLimit":     func(s *v1alpha1.Schedule) { s.Spec.FailedTurnsHistoryLimit = ptr.To[int32](0) },
}

var _ = Describe("The policy schedule-authors", func() {
	const (
		turns    = "you are not allowed to write a Schedule, because it requires the verb create on turns in capstan.dev."
		sessions = "you are not allowed to write a Schedule with a sessionTemplate, because it requires the verb create on " +
			"sessions in capstan.dev."
	)
	may := func(resources ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{
			APIGroups: []string{"capstan.dev"},
			Resources: resources,
			Verbs:     []string{"create", "update"},
		}
	}

	It("lets users create through a Schedule what they may create themselves", func(ctx context.Context) {
		fresh := newSchedule("fresh")
		perTick(fresh)
		user, _ := newUser(ctx, newRole(ctx, may("schedules")))
		refuses(creating(ctx, user, newSchedule("a")), turns)
		user, _ = newUser(ctx, newRole(ctx, may("schedules", "turns")))
		accepts(creating(ctx, user, newSchedule("a")))
		refuses(creating(ctx, user, fresh), sessions)
		user, _ = newUser(ctx, newRole(ctx, may("schedules", "turns", "sessions")))
		accepts(creating(ctx, user, fresh))
	})

	It("holds submittedBy to the user who writes the Schedule", func(ctx context.Context) {
		user, name := newUser(ctx, "capstan-edit")
		message := "submittedBy must be your own user name, " + name + ". Set it to that name, or omit it."
		s := newSchedule("signed")
		s.Spec.SubmittedBy = "ann"
		refuses(creating(ctx, user, s), message)
		s.Spec.SubmittedBy = name
		accepts(creating(ctx, user, s))
		existing := stored(ctx, user, s)
		another, other := newUser(ctx, "capstan-edit")
		message = "submittedBy must be your own user name, " + other + ". Set it to that name, or omit it."
		accepts(updating(ctx, another, existing, func(s *v1alpha1.Schedule) { s.Spec.Suspend = ptr.To(true) }))
		accepts(updating(ctx, another, existing, func(s *v1alpha1.Schedule) { s.Labels = map[string]string{"a": "b"} }))
		for field, change := range writtenBy {
			By(field)
			refuses(updating(ctx, another, existing, change), message)
			accepts(updating(ctx, user, existing, change))
			accepts(updating(ctx, another, existing, func(s *v1alpha1.Schedule) {
				change(s)
				s.Spec.SubmittedBy = other
			}))
		}
		By("resuming")
		suspended := newSchedule("suspended")
		suspended.Spec.SubmittedBy, suspended.Spec.Suspend = name, ptr.To(true)
		suspended = stored(ctx, user, suspended)
		for _, suspend := range []*bool{nil, ptr.To(false)} {
			refuses(updating(ctx, another, suspended, func(s *v1alpha1.Schedule) { s.Spec.Suspend = suspend }), message)
			accepts(updating(ctx, user, suspended, func(s *v1alpha1.Schedule) { s.Spec.Suspend = suspend }))
		}
	})

	It("knows every field of a Schedule", func() {
		for _, field := range reflect.VisibleFields(reflect.TypeFor[v1alpha1.ScheduleSpec]()) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if !slices.Contains([]string{"suspend", "submittedBy", "at"}, name) {
				Expect(writtenBy).To(HaveKey(name))
			}
		}
	})

	It("asks for blueprints of a high risk what it asks of the author of a Session", func(ctx context.Context) {
		s := newSchedule("risky")
		perTick(s)
		s.Spec.SessionTemplate.Blueprint = &v1alpha1.BlueprintReference{
			Capability: "x", Name: "b", MaxRisk: v1alpha1.CapabilityRiskHigh,
		}
		user, _ := newUser(ctx, "capstan-edit")
		refuses(
			creating(ctx, user, s),
			`you are not allowed to assign "object/x" with the maxRisk High: it requires the verb `+
				"assign-high-risk on capabilities.capstan.dev/object/x.",
		)
		user, _ = newUser(ctx, "capstan-edit", newRole(ctx, mayAssign("object/x")))
		accepts(creating(ctx, user, s))
	})
})
