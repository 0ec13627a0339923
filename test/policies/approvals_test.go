package policies_test

import (
	"context"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// paying is a Model that calls the tool pay once in each Turn, with the given arguments.
func paying(name, arguments string) *v1alpha1.Model {
	model := newModel(name)
	model.Spec.Simulation.ToolCalls = &v1alpha1.SimulatedToolCalls{Sequence: []v1alpha1.SimulatedStep{
		{Calls: []v1alpha1.SimulatedToolCall{{Name: "pay", Arguments: &v1alpha1.JSON{Raw: []byte(arguments)}}}}, {},
	}}
	return model
}

// payTool pays once it is approved.
func payTool(image string) *v1alpha1.Tool {
	tool := newTool("pay")
	tool.Spec.Job.Image, tool.Spec.SideEffect = image, v1alpha1.SideEffectAtMostOnce
	tool.Spec.Policy = v1alpha1.ToolPolicyRequiresApproval
	return tool
}

var _ = Describe("An approval is bound to the approved call", func() {
	const (
		small = `{"what":"1 franc to Ann"}`
		large = `{"what":"1000000 francs to Mallory"}`
	)
	var (
		kit  *capstantest.Kit
		mu   sync.Mutex
		paid []string
		// mallory talks to agents, ann approves, and the platform team writes tools. None of them has a right more.
		mallory, ann, platform client.Client
		mallorysName, annsName string
	)

	BeforeEach(func(ctx context.Context) {
		paid = nil
		var err error
		kit, err = capstantest.Start(
			context.Background(),
			impersonating(jobController, "system:masters"),
			capstantest.Options{
				Namespaces: []string{teamA}, Transport: (&accountTransport{}).wrap,
				Jobs: func(call capstantest.Call) (string, string, int) {
					mu.Lock()
					defer mu.Unlock()
					paid = append(paid, call.Arguments)
					return "paid", "", 0
				},
			},
		)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(kit.Stop()).To(Succeed()) })
		mallory, mallorysName = newUser(ctx, "capstan-edit")
		ann, annsName = newUser(ctx, "capstan-approve")
		platform, _ = newUser(ctx, "capstan-tools")
		harness := builder.Harness("base").In(teamA).Obj()
		harness.Spec.Tools = []v1alpha1.LocalReference{{Name: "pay"}}
		for _, object := range []client.Object{
			paying("small", small), paying("large", large), harness, payTool("example.org/pay:1"),
		} {
			stored(ctx, platform, object)
		}
		for session, model := range map[string]string{"one": "small", "two": "large"} {
			of := builder.Session(session).In(teamA).Obj()
			of.Spec.ModelRef = &v1alpha1.LocalReference{Name: model}
			stored(ctx, mallory, of)
		}
	})

	done := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string{}, paid...)
	}
	// sends has mallory send a message, and returns the Turn once it waits.
	sends := func(ctx context.Context, session string) *v1alpha1.Turn {
		GinkgoHelper()
		turn := builder.Turn("pay-1").In(teamA).Obj()
		turn.Spec.SessionRef.Name = session
		stored(ctx, mallory, turn)
		Eventually(kit.Turn(ctx, teamA, "pay-1")).Should(capstantest.WaitForApproval("pay"))
		Expect(ann.Get(ctx, client.ObjectKeyFromObject(turn), turn)).To(Succeed())
		return turn
	}
	approval := func(turn *v1alpha1.Turn, name string) *v1alpha1.ToolResult {
		decision := capstantest.Decision(turn, "1-0", v1alpha1.DecisionApprove, annsName)
		decision.Name = name
		return decision
	}
	acceptance := func(ctx context.Context, name string) func() string {
		return func() string {
			result := &v1alpha1.ToolResult{}
			if err := ann.Get(ctx, client.ObjectKey{Namespace: teamA, Name: name}, result); err != nil {
				return err.Error()
			}
			accepted := apimeta.FindStatusCondition(result.Status.Conditions, v1alpha1.ConditionAccepted)
			if accepted == nil {
				return "not judged yet"
			}
			return string(accepted.Status) + " " + accepted.Reason
		}
	}
	expectNothingPaid := func(ctx context.Context) {
		GinkgoHelper()
		Consistently(func(g Gomega) {
			turn, err := kit.Turn(ctx, teamA, "pay-1")()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(turn).To(capstantest.WaitForApproval("pay"))
			var jobs batchv1.JobList
			g.Expect(
				admin.List(ctx, &jobs, client.InNamespace(teamA), client.MatchingLabels{v1alpha1.LabelTurnUID: string(turn.UID)}),
			).
				To(Succeed())
			g.Expect(jobs.Items).To(BeEmpty())
			g.Expect(done()).To(BeEmpty())
		}).WithTimeout(time.Second).Should(Succeed())
	}

	It("and not to another Turn that is created with the same name before the decision", func(ctx context.Context) {
		first := sends(ctx, "one")
		Expect(first.Status.ToolCalls[0].Arguments).To(Equal(small), "ann sees the arguments of the call")

		By("deciding by name alone, which the API refuses")
		byName := approval(first, "by-name")
		byName.Spec.TurnRef.UID = ""
		refuses(creating(ctx, ann, byName), "a decision requires turnRef.uid and callDigest")
		byNumber := approval(first, "by-number")
		byNumber.Spec.CallDigest = ""
		refuses(creating(ctx, ann, byNumber), "a decision requires turnRef.uid and callDigest")

		By("deciding while there is no such Turn")
		Expect(mallory.Delete(ctx, first)).To(Succeed())
		Eventually(func() bool {
			return apierrors.IsNotFound(admin.Get(ctx, client.ObjectKeyFromObject(first), first.DeepCopy()))
		}).Should(BeTrue())
		stored(ctx, ann, approval(first, "early"))
		Eventually(acceptance(ctx, "early")).Should(Equal("False TurnNotFound"))

		By("deciding about the first when there is a second")
		second := sends(ctx, "two")
		Expect(second.UID).NotTo(Equal(first.UID))
		expectNothingPaid(ctx)
		stored(ctx, ann, approval(first, "of-the-first"))
		Eventually(acceptance(ctx, "of-the-first")).Should(Equal("False TurnReplaced"))

		By("naming the second Turn and the call of the first")
		mixed := approval(second, "mixed")
		mixed.Spec.CallDigest = approval(first, "first").Spec.CallDigest
		stored(ctx, ann, mixed)
		Eventually(acceptance(ctx, "mixed")).Should(Equal("False CallDigestMismatch"))
		expectNothingPaid(ctx)

		By("deciding about the call that she sees")
		Expect(second.Status.ToolCalls[0].Arguments).To(Equal(large))
		stored(ctx, ann, approval(second, "of-the-second"))
		Eventually(kit.Turn(ctx, teamA, "pay-1")).Should(capstantest.HaveSucceeded())
		Expect(acceptance(ctx, "of-the-second")()).To(Equal("True Accepted"))
		Expect(done()).To(Equal([]string{large}))
	})

	It("and not to a Tool that is created again with another image before the decision", func(ctx context.Context) {
		turn := sends(ctx, "one")
		pay := &v1alpha1.Tool{}
		Expect(platform.Get(ctx, client.ObjectKey{Namespace: teamA, Name: "pay"}, pay)).To(Succeed())
		Expect(pay.Generation).To(BeEquivalentTo(1))
		Expect(platform.Delete(ctx, pay)).To(Succeed())
		again := stored(ctx, platform, payTool("evil.example/pay:1"))
		Expect(again.Generation).To(BeEquivalentTo(1), "by its generation it is the same")

		stored(ctx, ann, approval(turn, "yes"))
		Eventually(acceptance(ctx, "yes")).Should(Equal("True Accepted"))
		Eventually(kit.Turn(ctx, teamA, "pay-1")).Should(capstantest.HaveSucceeded())
		Expect(
			kit.Turn(ctx, teamA, "pay-1")(),
		).To(capstantest.HaveToolCall("pay", v1alpha1.ToolCallStateNotExecuted, "ToolChanged"))
		Expect(done()).To(BeEmpty())
	})

	It("and with four eyes not for the Turn that one has submitted oneself", func(ctx context.Context) {
		By("switching the policy on")
		const fourEyes = "../../config/four-eyes"
		both, bothName := newUser(ctx, "capstan-edit", "capstan-approve")
		selfApproval := newDecision("self", bothName)
		selfApproval.Spec.TurnSubmittedBy = bothName
		accepts(creating(ctx, both, selfApproval)) // off by default
		server.Kubectl(ctx, "apply", "--server-side", "-k", fourEyes)
		DeferCleanup(func(ctx context.Context) { server.Kubectl(ctx, "delete", "-k", fourEyes) })

		refuses(creating(ctx, both, selfApproval), "you submitted this Turn")
		refuses(creating(ctx, both, newDecision("self", bothName)), "an approval requires turnSubmittedBy")
		steered := newDecision("steered", bothName)
		steered.Spec.TurnSubmittedBy, steered.Spec.TurnSteeredBy = mallorysName, []string{"another-user", bothName}
		refuses(creating(ctx, both, steered), "you sent a message into this Turn")
		steered.Spec.TurnSteeredBy = []string{"another-user", ""}
		refuses(creating(ctx, both, steered), "a user who is not known sent a message into this Turn")
		steered.Spec.TurnSteeredBy = []string{"another-user"}
		accepts(creating(ctx, both, steered))
		const agent = "system:serviceaccount:" + teamA + ":bot"
		steered.Spec.TurnSteeredBy = []string{"another-user", agent}
		refuses(creating(ctx, both, steered), "a ServiceAccount submitted this Turn or sent a message into it")
		ofAgent := newDecision("of-agent", bothName)
		ofAgent.Spec.TurnSubmittedBy = agent
		refuses(creating(ctx, both, ofAgent), "a ServiceAccount submitted this Turn or sent a message into it")
		rejection := newDecision("no", bothName)
		rejection.Spec.Decision, rejection.Spec.TurnSubmittedBy = v1alpha1.DecisionReject, agent
		accepts(creating(ctx, both, rejection))

		By("with another user as the submitter, which the manager compares")
		turn := builder.Turn("pay-1").In(teamA).Obj()
		turn.Spec.SessionRef.Name, turn.Spec.SubmittedBy = "one", mallorysName
		stored(ctx, mallory, turn)
		Eventually(kit.Turn(ctx, teamA, "pay-1")).Should(capstantest.WaitForApproval("pay"))
		Expect(ann.Get(ctx, client.ObjectKeyFromObject(turn), turn)).To(Succeed())
		lying := approval(turn, "lying")
		lying.Spec.TurnSubmittedBy = "another-user"
		stored(ctx, ann, lying)
		Eventually(acceptance(ctx, "lying")).Should(Equal("False TurnSubmitterMismatch"))
		expectNothingPaid(ctx)

		By("a second user")
		stored(ctx, ann, approval(turn, "yes"))
		Eventually(kit.Turn(ctx, teamA, "pay-1")).Should(capstantest.HaveSucceeded())
		Expect(done()).To(Equal([]string{small}))
	})
})

var _ = Describe("A Turn's submittedBy", func() {
	It("is the user who creates the Turn, and cannot be changed", func(ctx context.Context) {
		user, name := newUser(ctx, "capstan-edit")
		turn := builder.Turn("mine").In(teamA).Obj()
		turn.Spec.SubmittedBy = name
		accepts(creating(ctx, user, turn))
		accepts(creating(ctx, user, builder.Turn("anonymous").In(teamA).Obj()))
		forged := turn.DeepCopy()
		forged.Spec.SubmittedBy = "another-user"
		refuses(creating(ctx, user, forged), "submittedBy must be your own user name, "+name)
		stored(ctx, user, turn)
		refuses(
			updating(ctx, user, turn, func(t *v1alpha1.Turn) { t.Spec.SubmittedBy = "another-user" }),
			"submittedBy cannot be changed",
		)
	})
})

var _ = Describe("The role capstan-approve", func() {
	It("decides, and does not answer for clients", func(ctx context.Context) {
		user, name := newUser(ctx, "capstan-approve")
		accepts(creating(ctx, user, newDecision("decision", name)))
		refuses(creating(ctx, user, newToolResult("answer", name)),
			`you are not allowed to provide results of client tools, or input, in namespace "team-a"`)
		failed := newToolResult("error", name)
		text := "No."
		failed.Spec.Result, failed.Spec.Error = nil, &text
		refuses(creating(ctx, user, failed), "you are not allowed to provide results of client tools")
		refuses(creating(ctx, user, newInput("input", name)), "input requires the verb answer")
	})
})

var _ = Describe("A user who may answer for clients", func() {
	It("answers questions of tools, under the user's own name", func(ctx context.Context) {
		user, name := newUser(ctx, "capstan-edit")
		accepts(creating(ctx, user, newInput("input", name)))
		refuses(creating(ctx, user, newInput("forged", "another-user")), "submittedBy must be your own user name")
	})
})
