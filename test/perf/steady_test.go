package perf_test

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/test/internal/passes"
)

const (
	// finishedTurns have ended, those of one Session after another.
	finishedTurns    = 1000
	finishedSessions = 20
	// waitingTurns wait for a client, each in a Session of its own, and keep another Turn in the queue.
	waitingTurns = 100
	// steadyFor is how long nothing happens.
	steadyFor = 2 * time.Minute
)

var _ = Describe("A thousand finished Turns and a hundred that wait", func() {
	It(
		"cost no request and no reconcile for two minutes, and a new process only reads",
		SpecTimeout(15*time.Minute),
		func(ctx SpecContext) {
			requests := &traffic{}
			start(requests)
			began := time.Now()
			done := newNamespace(
				ctx,
				builder.Script("done"),
			)
			waiting := newNamespace(
				ctx,
				asking(),
				&v1alpha1.Tool{
					ObjectMeta: metav1.ObjectMeta{Name: "work"},
					Spec: v1alpha1.ToolSpec{
						Description: "Works.",
						Job:         &v1alpha1.JobTool{Image: "capstan.dev/toolbox:test", Command: []string{"/toolbox", "work"}},
					},
				},
				builder.ClientTool("ask-ann").Obj(),
			)
			for s := range finishedSessions {
				session := fmt.Sprintf("done-%d", s)
				create(ctx, builder.Session(session).In(done).Obj())
				for t := range finishedTurns / finishedSessions {
					create(ctx, builder.Turn(fmt.Sprintf("%s-%d", session, t)).In(done).Session(session).Obj())
				}
			}
			for s := range waitingTurns {
				session := fmt.Sprintf("waiting-%d", s)
				create(ctx, builder.Session(session).In(waiting).Obj())
				create(ctx, builder.Turn(session+"-1").In(waiting).Session(session).Obj())
				create(ctx, builder.Turn(session+"-2").In(waiting).Session(session).Obj())
			}
			Eventually(ctx, phases(ctx, done)).WithTimeout(5 * time.Minute).WithPolling(time.Second).
				Should(Equal(map[v1alpha1.TurnPhase]int{v1alpha1.TurnPhaseSucceeded: finishedTurns}))
			Eventually(ctx, phases(ctx, waiting)).WithTimeout(5 * time.Minute).WithPolling(time.Second).
				Should(
					Equal(
						map[v1alpha1.TurnPhase]int{
							v1alpha1.TurnPhaseWaitingForToolResults: waitingTurns, v1alpha1.TurnPhaseQueued: waitingTurns,
						},
					),
				)
			show("all Turns ended or waited after", took(began))

			made, sent := atRest(ctx), requests.all()
			show("passes and requests", fmt.Sprint(made, sent))
			Expect(made["turn"]).To(BeNumerically(">=", finishedTurns+waitingTurns), "the metric is not the one that counts")
			Expect(
				requests.writes(),
			).To(
				HaveKeyWithValue("PATCH turns/status", BeNumerically(">=", finishedTurns)),
				"the requests are not those that count",
			)
			Expect(
				requests.writes(),
			).To(
				And(HaveKeyWithValue("POST jobs", waitingTurns), HaveKeyWithValue("POST serviceaccounts", 1)),
				"one for the first Job of the namespace",
			)
			rested := map[string]passes.Counts{done: reconciled.In(done), waiting: reconciled.In(waiting)}
			Consistently(ctx, func() (map[string]float64, error) {
				for namespace, before := range rested {
					Expect(reconciled.In(namespace).Since(before)).To(BeEmpty(), "a controller polls")
				}
				Expect(requests.all()).To(Equal(sent), "a request is sent")
				return reconciles()
			}).WithTimeout(steadyFor).WithPolling(time.Second).Should(Equal(made), "a controller polls")

			Expect(kit.Stop()).To(Succeed())
			fresh := &traffic{}
			restarted := time.Now()
			start(fresh)
			again := atRest(ctx)
			show("a new process had looked at everything after", took(restarted))
			show("requests of the new process", fmt.Sprint(fresh.all()))
			Expect(
				again["turn"]-made["turn"],
			).To(BeNumerically(">=", finishedTurns+2*waitingTurns), "it has not looked at every Turn")
			Expect(fresh.writes()).To(BeEmpty(), "a new process writes")
			Expect(fresh.all()).NotTo(BeEmpty())

			answer := &v1alpha1.ToolResult{ObjectMeta: metav1.ObjectMeta{Namespace: waiting, Name: "ann"}}
			result := "yes"
			answer.Spec = v1alpha1.ToolResultSpec{
				TurnRef: v1alpha1.TurnReference{Name: "waiting-7-1"},
				CallID:  "1-1",
				Result:  &result,
			}
			create(ctx, answer)
			Eventually(
				ctx,
				kit.Turn(ctx, waiting, "waiting-7-1"),
			).WithTimeout(30 * time.Second).
				Should(capstantest.HaveSucceeded())
			Expect(fresh.writes()).To(HaveKey("PATCH turns/status"))
		},
	)
})

// asking is a model that calls a tool and a client tool, and then responds.
func asking() v1alpha1.Simulation {
	return builder.Script("Ann said {{tool:ask-ann}}.", builder.Calls("work", "ask-ann"))
}
