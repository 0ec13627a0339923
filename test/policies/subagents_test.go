package policies_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/subagent"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// agentCall is a call by a Turn in teamA that runs as a sub-agent.
func agentCall() subagent.Call {
	session := builder.Session("demo").In(teamA).Obj()
	session.UID = "s1"
	turn := builder.Turn("demo-1").In(teamA).Obj()
	turn.UID, turn.Spec.SubmittedBy = "t1", "ann"
	return subagent.Call{
		Session: session, Turn: turn, Step: 2, Call: v1alpha1.ToolCall{ID: "1-0"},
		Tool: builder.AgentTool("helper", "base").Obj(),
	}
}

var _ = Describe("The policy manager-sessions", func() {
	const (
		others = "the manager may create and delete only Sessions of sub-agents and of Schedules, and change only its " +
			"finalizer of others."
		owner = "the manager may create the Session of a sub-agent only with the Session that has called it as its owner."
		plain = "the manager may create the Session of a sub-agent or of a Schedule only without configuration of its own."
	)

	It("lets the manager create and delete the Session of a sub-agent", func(ctx context.Context) {
		accepts(creating(ctx, as(managerUser), agentCall().NewSession()))
		existing := stored(ctx, as(managerUser), agentCall().NewSession())
		accepts(func() error { return as(managerUser).Delete(ctx, existing.DeepCopy(), client.DryRunAll) })
	})

	It("lets it create no other Session, and change and delete none", func(ctx context.Context) {
		for what, c := range map[string]struct {
			change  func(*v1alpha1.Session)
			message string
		}{
			"without an origin": {func(s *v1alpha1.Session) { s.Spec.Origin = nil }, others},
			"without an owner":  {func(s *v1alpha1.Session) { s.OwnerReferences = nil }, owner},
			"of another owner":  {func(s *v1alpha1.Session) { s.OwnerReferences[0].UID = "s2" }, owner},
			"of a Turn":         {func(s *v1alpha1.Session) { s.OwnerReferences[0].Kind = "Turn" }, owner},
			"without its label": {func(s *v1alpha1.Session) { s.Labels = nil }, owner},
			"with a finalizer":  {func(s *v1alpha1.Session) { s.Finalizers = []string{"example.org/held"} }, owner},
			"on hold": {func(s *v1alpha1.Session) {
				s.Annotations = map[string]string{v1alpha1.AnnotationHold: "for ever"}
			}, owner},
			"with a prompt":   {func(s *v1alpha1.Session) { s.Spec.SystemPrompt = "Obey." }, plain},
			"with an account": {func(s *v1alpha1.Session) { s.Spec.ServiceAccountName = "mine" }, plain},
			"with a Model":    {func(s *v1alpha1.Session) { s.Spec.ModelRef = &v1alpha1.LocalReference{Name: "m"} }, plain},
			"with a Tool":     {func(s *v1alpha1.Session) { s.Spec.Tools = []v1alpha1.LocalReference{{Name: "t"}} }, plain},
			"with a server":   {func(s *v1alpha1.Session) { s.Spec.MCPServers = []v1alpha1.LocalReference{{Name: "s"}} }, plain},
		} {
			By(what)
			session := agentCall().NewSession()
			c.change(session)
			refuses(creating(ctx, managerAsAdmin(), session), c.message)
		}
		theirs := stored(ctx, admin, builder.Session("theirs").In(teamA).Obj())
		refuses(func() error { return as(managerUser).Delete(ctx, theirs.DeepCopy(), client.DryRunAll) }, others)
		refuses(updating(ctx, managerAsAdmin(), theirs, func(s *v1alpha1.Session) { s.Spec.Title = "Mine" }), others)
		own := stored(ctx, as(managerUser), agentCall().NewSession())
		refuses(updating(ctx, managerAsAdmin(), own, func(s *v1alpha1.Session) { s.Spec.Title = "Mine" }), others)
	})

	It("lets it add and remove its finalizer, and nothing else with it", func(ctx context.Context) {
		session := builder.Session("finalized").In(teamA).Obj()
		session.Finalizers, session.Labels = []string{"example.org/held"}, map[string]string{"team": "a"}
		stored(ctx, admin, session)
		adds := func(s *v1alpha1.Session) { controllerutil.AddFinalizer(s, v1alpha1.FinalizerSessionEnd) }
		accepts(patching(ctx, as(managerUser), session, adds))
		for what, change := range map[string]func(*v1alpha1.Session){
			"a title":               func(s *v1alpha1.Session) { s.Spec.Title = "Mine" },
			"a label":               func(s *v1alpha1.Session) { s.Labels = nil },
			"an annotation":         func(s *v1alpha1.Session) { s.Annotations = map[string]string{"a": "b"} },
			"an owner":              func(s *v1alpha1.Session) { s.OwnerReferences = agentCall().NewSession().OwnerReferences },
			"a finalizer of others": func(s *v1alpha1.Session) { s.Finalizers = s.Finalizers[1:] },
			"another finalizer":     func(s *v1alpha1.Session) { s.Finalizers = append(s.Finalizers, "example.org/more") },
		} {
			By(what)
			refuses(updating(ctx, managerAsAdmin(), session, func(s *v1alpha1.Session) {
				adds(s)
				change(s)
			}), others)
		}
		held := stored(ctx, admin, finalized("to-release"))
		accepts(patching(ctx, as(managerUser), held, func(s *v1alpha1.Session) { s.Finalizers = nil }))
	})
})

// finalized is a Session with the finalizer for hooks at its end.
func finalized(name string) *v1alpha1.Session {
	session := builder.Session(name).In(teamA).Obj()
	session.Finalizers = []string{v1alpha1.FinalizerSessionEnd}
	return session
}

var _ = Describe("The policy session-deletions", func() {
	const message = "the finalizer capstan.dev/session-end lets the hooks at the end of the Session run."

	It("lets only those who may set hooks skip the ones at the end of a Session", func(ctx context.Context) {
		session := stored(ctx, admin, finalized("guarded"))
		release := func(s *v1alpha1.Session) { s.Finalizers = nil }
		user, _ := newUser(ctx, "capstan-edit")
		refuses(updating(ctx, user, session, release), message)
		accepts(updating(ctx, user, session, func(s *v1alpha1.Session) { s.Spec.Title = "Mine" }))
		accepts(updating(ctx, user, session, func(s *v1alpha1.Session) {
			s.Finalizers = append(s.Finalizers, "example.org/held")
		}))
		user, _ = newUser(ctx, "capstan-edit", newRole(ctx, assigns()))
		accepts(updating(ctx, user, session, release))
	})
})

var _ = Describe("The policy manager-turns", func() {
	const (
		others = "the manager may create only Turns of sub-agents, of background tasks and of Schedules, and change only " +
			"those of sub-agents and of Schedules."
		place  = "the manager may create the Turn of a sub-agent only in the Session of that sub-agent, which owns it."
		cancel = "the manager may only cancel the Turns of sub-agents and of Schedules."
	)

	It("lets the manager create and cancel the Turn of a sub-agent, in the name of its caller", func(ctx context.Context) {
		turn := stored(ctx, as(managerUser), agentCall().NewTurn("s2"))
		accepts(func() error {
			patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"desiredState":"Cancelled"}}`))
			return as(managerUser).Patch(ctx, turn.DeepCopy(), patch, client.DryRunAll)
		})
	})

	It("lets it create no other Turn, and change nothing else", func(ctx context.Context) {
		for what, c := range map[string]struct {
			change  func(*v1alpha1.Turn)
			message string
		}{
			"without an origin":  {func(t *v1alpha1.Turn) { t.Spec.Origin = nil }, others},
			"without an owner":   {func(t *v1alpha1.Turn) { t.OwnerReferences = nil }, place},
			"in another Session": {func(t *v1alpha1.Turn) { t.Spec.SessionRef.Name = "demo" }, place},
			"that is steered":    {func(t *v1alpha1.Turn) { t.Spec.Delivery = v1alpha1.DeliverySteer }, place},
			"with controls":      {func(t *v1alpha1.Turn) { t.Spec.Controls = &v1alpha1.TurnControls{Locale: "de"} }, place},
			"with a finalizer":   {func(t *v1alpha1.Turn) { t.Finalizers = []string{"example.org/held"} }, place},
		} {
			By(what)
			turn := agentCall().NewTurn("s2")
			c.change(turn)
			refuses(creating(ctx, managerAsAdmin(), turn), c.message)
		}
		theirs := stored(ctx, admin, builder.Turn("theirs").In(teamA).Obj())
		refuses(updating(ctx, managerAsAdmin(), theirs, func(t *v1alpha1.Turn) {
			t.Spec.DesiredState = v1alpha1.DesiredStateCancelled
		}), others)
		own := stored(ctx, as(managerUser), agentCall().NewTurn("s2"))
		ttl := int64(1)
		for what, change := range map[string]func(*v1alpha1.Turn){
			"nothing":      func(t *v1alpha1.Turn) { t.Labels["team"] = "a" },
			"time to live": func(t *v1alpha1.Turn) { t.Spec.TTLSecondsAfterFinished = &ttl },
			"owner":        func(t *v1alpha1.Turn) { t.OwnerReferences = []metav1.OwnerReference{} },
		} {
			By(what)
			refuses(updating(ctx, managerAsAdmin(), own, func(t *v1alpha1.Turn) {
				change(t)
				if what != "nothing" {
					t.Spec.DesiredState = v1alpha1.DesiredStateCancelled
				}
			}), cancel)
		}
	})
})

var _ = Describe("The policy origins", func() {
	It("lets no user set the origin of a Session or a Turn", func(ctx context.Context) {
		const message = "only the manager may set spec.origin. Remove it."
		session, turn := agentCall().NewSession(), agentCall().NewTurn("s2")
		turn.Spec.SubmittedBy = ""
		refuses(creating(ctx, admin, session), message)
		refuses(creating(ctx, admin, turn), message)
		session.Spec.Origin, turn.Spec.Origin = nil, nil
		accepts(creating(ctx, admin, session))
		accepts(creating(ctx, admin, turn))
	})
})
