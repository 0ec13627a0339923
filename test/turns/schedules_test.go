package turns_test

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/test/internal/suite"
)

const (
	scheduleWrite       = "PATCH schedules/status"
	scheduleCreateWrite = "POST schedules"
)

// scheduleOf is a Schedule that sends "Hello" to the Session demo.
func scheduleOf(namespace, name string, change func(*v1alpha1.ScheduleSpec)) *v1alpha1.Schedule {
	s := &v1alpha1.Schedule{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.ScheduleSpec{
			SessionRef: &v1alpha1.LocalReference{Name: builder.SessionName}, Turn: v1alpha1.ScheduledTurn{Input: "Hello"},
		},
	}
	change(&s.Spec)
	return s
}

func every(expression string) func(*v1alpha1.ScheduleSpec) {
	return func(spec *v1alpha1.ScheduleSpec) { spec.Schedule = expression }
}

// inSessions creates a Session for each tick.
func inSessions(spec *v1alpha1.ScheduleSpec) {
	spec.SessionRef = nil
	spec.SessionTemplate = &v1alpha1.SessionTemplate{
		HarnessRef: v1alpha1.LocalReference{Name: builder.HarnessName}, Labels: map[string]v1alpha1.LabelValue{"team": "a"},
	}
}

// readSchedule reads a Schedule.
func readSchedule(ctx context.Context, namespace, name string) func() (*v1alpha1.Schedule, error) {
	return func() (*v1alpha1.Schedule, error) {
		s := &v1alpha1.Schedule{}
		return s, kit.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, s)
	}
}

// turnsOf lists the Turns of a Schedule, in the order of their names.
func turnsOf(ctx context.Context, namespace, name string) func() ([]v1alpha1.Turn, error) {
	return func() ([]v1alpha1.Turn, error) {
		var list v1alpha1.TurnList
		err := kit.Client.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelSchedule: name})
		return list.Items, err
	}
}

var _ = Describe("A Schedule", Ordered, func() {
	var clock *capstantest.Clock
	var writes *requestLog
	options := capstantest.Options{Jobs: jobs.Run}
	BeforeAll(func() {
		clock, writes = &capstantest.Clock{}, &requestLog{}
		options.Clock, options.Transport = clock, writes.wrap
	})
	// The kit and the clock are set when the specs run.
	var separate *suite.Server
	BeforeAll(func(context.Context) {
		separate = suite.Start()
		restore := kit
		var err error
		kit, err = capstantest.Start(context.Background(), separate.Config, options)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() {
			Expect(kit.Stop()).To(Succeed())
			kit = restore
		})
	})
	// ofSchedules are the writes of a namespace that belong to Schedules.
	ofSchedules := func(namespace string) []string {
		return slices.DeleteFunc(writes.in(namespace), func(write string) bool {
			return !slices.Contains([]string{scheduleWrite, scheduleCreateWrite, agentSessionWrite, agentTurnWrite}, write)
		})
	}
	// rested waits until a Schedule is observed.
	rested := func(ctx context.Context, namespace, name string) {
		GinkgoHelper()
		Eventually(readSchedule(ctx, namespace, name)).Should(HaveField("Status.ObservedGeneration", int64(1)))
	}

	// Rules: SCHED-04.
	It("creates a Turn at each tick, costs four writes for it, and nothing while it is idle", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("done"))
		create(ctx, builder.Session("demo").In(namespace).Obj())
		Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseStarted))
		create(ctx, scheduleOf(namespace, "hourly", every("@hourly")))
		rested(ctx, namespace, "hourly")
		Consistently(func() []string { return ofSchedules(namespace) }).WithTimeout(time.Second).
			Should(Equal([]string{scheduleWrite}))
		for tick := range 2 {
			clock.Advance(time.Hour)
			Eventually(turnsOf(ctx, namespace, "hourly")).Should(HaveLen(tick + 1))
			Eventually(readSchedule(ctx, namespace, "hourly")).Should(And(
				HaveField("Status.Ticks", int64(tick+1)), HaveField("Status.Active", BeEmpty())))
		}
		turns, err := turnsOf(ctx, namespace, "hourly")()
		Expect(err).NotTo(HaveOccurred())
		for i := range turns {
			Expect(&turns[i]).To(capstantest.HaveSucceeded())
			Expect(turns[i].Spec.SessionRef.Name).To(Equal("demo"))
			Expect(turns[i].Spec.Origin.Type).To(Equal(v1alpha1.TurnOriginTypeSchedule))
		}
		tick := []string{scheduleWrite, agentTurnWrite, scheduleWrite, scheduleWrite}
		Expect(ofSchedules(namespace)).To(Equal(slices.Concat([]string{scheduleWrite}, tick, tick)))
	})

	// Rules: SCHED-04.
	It("creates a Session for each tick, and deletes what its history limits do not keep", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("done"))
		create(ctx, scheduleOf(namespace, "fresh", func(spec *v1alpha1.ScheduleSpec) {
			inSessions(spec)
			spec.Schedule, spec.SuccessfulTurnsHistoryLimit = "@hourly", ptr.To[int32](1)
		}))
		rested(ctx, namespace, "fresh")
		for tick := range 3 {
			clock.Advance(time.Hour)
			Eventually(readSchedule(ctx, namespace, "fresh")).Should(And(
				HaveField("Status.Ticks", int64(tick+1)), HaveField("Status.Active", BeEmpty())))
		}
		Eventually(turnsOf(ctx, namespace, "fresh")).Should(HaveLen(1))
		Eventually(func() ([]v1alpha1.Session, error) {
			var list v1alpha1.SessionList
			err := kit.Client.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{"team": "a"})
			return list.Items, err
		}).Should(HaveLen(1))
	})

	// Rules: SCHED-04.
	It("replaces a Turn that waits, by cancelling it", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("done", builder.Calls("ask-ann")), builder.ClientTool("ask-ann").Obj())
		create(ctx, scheduleOf(namespace, "again", func(spec *v1alpha1.ScheduleSpec) {
			inSessions(spec)
			spec.Schedule, spec.ConcurrencyPolicy = "@hourly", v1alpha1.ConcurrencyPolicyReplace
		}))
		rested(ctx, namespace, "again")
		clock.Advance(time.Hour)
		Eventually(turnsOf(ctx, namespace, "again")).Should(ConsistOf(
			HaveField("Status.Phase", v1alpha1.TurnPhaseWaitingForToolResults)))
		clock.Advance(time.Hour)
		Eventually(turnsOf(ctx, namespace, "again")).Should(ConsistOf(
			HaveField("Status.Phase", v1alpha1.TurnPhaseCancelled),
			HaveField("Status.Phase", v1alpha1.TurnPhaseWaitingForToolResults)))
		Eventually(readSchedule(ctx, namespace, "again")).Should(HaveField("Status.Active", HaveLen(1)))
	})

	It("waits for its Session, and for a single time", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("done"))
		create(ctx, scheduleOf(namespace, "once", func(spec *v1alpha1.ScheduleSpec) {
			spec.At = ptr.To(metav1.NewTime(clock.Now().Add(30 * time.Minute).Truncate(time.Second)))
		}))
		Eventually(readSchedule(ctx, namespace, "once")).Should(
			HaveField("Status.Conditions", ContainElement(HaveField("Reason", v1alpha1.ReasonSessionNotFound))))
		clock.Advance(time.Hour)
		create(ctx, builder.Session("demo").In(namespace).Obj())
		Eventually(turnsOf(ctx, namespace, "once")).Should(ConsistOf(HaveField("Status.Phase", v1alpha1.TurnPhaseSucceeded)))
		Eventually(readSchedule(ctx, namespace, "once")).Should(
			HaveField("Status.Conditions", ContainElement(HaveField("Reason", v1alpha1.ReasonCompleted))))
	})

	// Rules: SCHED-01, SCHED-02, SCHED-03, CTX-01.
	It("is created and cancelled by a model", func(ctx context.Context) {
		call := builder.Calls("create_schedule", "create_schedule", "list_schedules")
		call[0].Arguments = &v1alpha1.JSON{Raw: []byte(`{"message": "Look again.", "cron": "0 * * * *"}`)}
		call[1].Arguments = &v1alpha1.JSON{Raw: []byte(`{"message": "Too often.", "cron": "* * * * *"}`)}
		namespace := newNamespace(ctx, builder.Script("done", call))
		session := builder.Session("demo").In(namespace).Obj()
		session.Spec.Capabilities = []v1alpha1.CapabilityReference{{Builtin: "session_schedule"}}
		create(ctx, session, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		var list v1alpha1.ScheduleList
		Expect(kit.Client.List(ctx, &list, client.InNamespace(namespace))).To(Succeed())
		Expect(list.Items).To(ConsistOf(HaveField("Spec.Turn.Input", "Look again.")))
		name := list.Items[0].Name
		Expect(kit.ToolResultText(ctx, namespace, "demo-1", "1-2")()).To(ContainSubstring(`"schedule_id":"` + name + `"`))
		Expect(kit.ToolResultText(ctx, namespace, "demo-1", "1-1")()).To(ContainSubstring("at least 5m0s are required"))
		Expect(writes.in(namespace)).To(ContainElement(scheduleCreateWrite))
		Eventually(readSchedule(ctx, namespace, name)).Should(HaveField("Status.NextScheduleTime", Not(BeNil())))
		clock.Advance(time.Hour)
		Eventually(turnsOf(ctx, namespace, name)).Should(HaveLen(1))
	})
})
