package turns_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/test/internal/suite"
)

// countFrom returns the number in an environment variable, or the one that every run of the suite uses.
func countFrom(variable string, usual int) int {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil && n > 0 {
		return n
	}
	return usual
}

// Rules: SCHED-04.
//
// CAPSTAN_IDLE_SCHEDULES and CAPSTAN_SCHEDULES are how many Schedules idle and fire; make test-exhaustive takes 10,000
// and 1,000.
var _ = Describe("A crowd of Schedules", Ordered, func() {
	var separate *rest.Config
	var clock *capstantest.Clock
	BeforeAll(func() { separate = suite.Start().Config })
	BeforeEach(func() {
		restore := kit
		clock = &capstantest.Clock{}
		DeferCleanup(func() { kit = restore })
	})

	// begin starts a manager whose time is that of clock.
	begin := func(writes *requestLog) *mortalManager {
		GinkgoHelper()
		options := kitOptions()
		options.Clock = clock
		if writes != nil {
			options.Transport = writes.wrap
		}
		return startMortal(separate, options)
	}

	// gather creates Schedules that fire every hour, each in a Session of its own, and waits until they are observed.
	gather := func(ctx context.Context, count int) (namespace string) {
		GinkgoHelper()
		namespace = newNamespace(ctx, builder.Script("done"))
		for n := range count {
			create(ctx, scheduleOf(namespace, fmt.Sprintf("s-%d", n), func(spec *v1alpha1.ScheduleSpec) {
				inSessions(spec)
				spec.Schedule = "@hourly"
			}))
		}
		Eventually(func(g Gomega) {
			var list v1alpha1.ScheduleList
			g.Expect(kit.Client.List(ctx, &list, client.InNamespace(namespace))).To(Succeed())
			g.Expect(list.Items).To(And(HaveLen(count), HaveEach(HaveField("Status.NextScheduleTime", Not(BeNil())))))
		}).WithTimeout(time.Duration(count)*50*time.Millisecond + time.Minute).WithPolling(time.Second).Should(Succeed())
		return namespace
	}

	It("costs no writes while it is idle", func(ctx context.Context) {
		count, span := countFrom("CAPSTAN_IDLE_SCHEDULES", 100), 2*time.Second
		if os.Getenv("CAPSTAN_IDLE_SCHEDULES") != "" {
			span = 2 * time.Minute
		}
		writes := &requestLog{}
		manager := begin(writes)
		kit = manager.kit
		namespace := gather(ctx, count)
		before := writes.in(namespace)
		Consistently(func() int { return len(writes.in(namespace)) }).WithTimeout(span).WithPolling(time.Second / 4).
			Should(Equal(len(before)))
		AddReportEntry(fmt.Sprintf("%d Schedules, %d writes until all were observed, 0 in %s",
			count, len(before), span), ReportEntryVisibilityAlways)
		manager.kill()
	})

	It("creates one Turn each at its time, while two managers are killed again and again", func(ctx context.Context) {
		count := countFrom("CAPSTAN_SCHEDULES", 60)
		first, second := begin(nil), begin(nil)
		kit = first.kit
		namespace := gather(ctx, count)
		clock.Advance(time.Hour)
		kills := 0
		turns := func(g Gomega) []v1alpha1.Turn {
			var list v1alpha1.TurnList
			g.Expect(kit.Client.List(ctx, &list, client.InNamespace(namespace))).To(Succeed())
			return list.Items
		}
		// kill ends the older manager once the crowd has got further by a part of it.
		for share := range 5 {
			Eventually(func(g Gomega) {
				g.Expect(len(turns(g))).To(BeNumerically(">=", count*share/5))
			}).WithTimeout(5 * time.Minute).Should(Succeed())
			first.kill()
			first, second = second, begin(nil)
			kit = first.kit
			kills++
		}
		Eventually(func(g Gomega) {
			g.Expect(turns(g)).To(And(HaveLen(count), HaveEach(HaveField("Status.Phase", v1alpha1.TurnPhaseSucceeded))))
			var schedules v1alpha1.ScheduleList
			g.Expect(kit.Client.List(ctx, &schedules, client.InNamespace(namespace))).To(Succeed())
			g.Expect(schedules.Items).To(HaveEach(And(
				HaveField("Status.Ticks", int64(1)), HaveField("Status.Active", BeEmpty()))))
		}).WithTimeout(10 * time.Minute).WithPolling(time.Second).Should(Succeed())
		of := map[string]int{}
		for _, turn := range turns(NewWithT(GinkgoT())) {
			of[turn.Labels[v1alpha1.LabelSchedule]]++
		}
		Expect(of).To(And(HaveLen(count), HaveEach(1)))
		AddReportEntry(fmt.Sprintf("%d Schedules, %d Turns, %d kills", count, len(of), kills), ReportEntryVisibilityAlways)
		first.kill()
		second.kill()
	})
})
