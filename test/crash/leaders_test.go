package crash_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// batch is how many conversations are led by two at a time. Each request that is held back holds a worker of the paused leader.
const batch = 14

var _ = Describe("Two leaders at once", func() {
	DescribeTable("never divide a log, whichever write the first is paused at while the second goes on", func(ctx context.Context, how fate) {
		paused := startProcess(true)
		base := measure(ctx, paused)
		var runs []disturbed
		for i := range scenarios {
			for nth := range base[i].writes {
				runs = append(runs, disturbed{i, fault{writes, nth + 1, how}})
			}
		}
		AddReportEntry("runs", fmt.Sprint(len(runs)))
		held := 0
		for group := range slices.Chunk(runs, batch) {
			held += takeOver(ctx, paused, group, base)
		}
		Expect(held).To(BeNumerically(">=", len(runs)*9/10), "the first leader was hardly ever paused")
	},
		Entry("before it is carried out", hold),
		Entry("after it was carried out", holdAfter),
	)

	It("never divide a log when both lead the same conversations from the first to the last request", func(ctx context.Context) {
		first := startProcess(true)
		base := measure(ctx, first)
		second := startProcess(false)
		var runs []disturbed
		for i := range scenarios {
			runs = append(runs, slices.Repeat([]disturbed{{scenario: i}}, 6)...)
		}
		var byFirst, bySecond atomic.Int64
		all(runs, sideBySide, func(d disturbed) error {
			r, err := prepare(ctx, scenarios[d.scenario], user, seen)
			if err != nil {
				return err
			}
			r.starts, r.rivals = first.Starts, true
			first.wire.arm(r.namespace, fault{})
			second.wire.arm(r.namespace, fault{})
			if err := r.play(ctx); err != nil {
				return err
			}
			byFirst.Add(int64(len(first.wire.counted(r.namespace, writes))))
			bySecond.Add(int64(len(second.wire.counted(r.namespace, writes))))
			return r.finish(ctx, base[d.scenario])
		})
		Expect(byFirst.Load()).To(BeNumerically(">", len(runs)), "only the second did anything")
		Expect(bySecond.Load()).To(BeNumerically(">", len(runs)), "only the first did anything")
	})
})

// takeOver pauses one leader in each of the conversations, lets another one bring them to their end, and then lets the first go on with what it
// believes to be true. It gives the number of conversations in which the first was paused.
func takeOver(ctx context.Context, paused *process, runs []disturbed, base []undisturbed) (held int) {
	GinkgoHelper()
	var mu sync.Mutex
	var open []*begun
	all(runs, batch, func(d disturbed) error {
		b, err := begin(ctx, d, paused)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		open = append(open, b)
		if paused.wire.isCut(b.run.namespace) {
			held++
		}
		return nil
	})
	paused.wire.freeze()

	second := startProcess(false)
	all(open, len(open), func(b *begun) error { return b.goOn(ctx, base) })

	// The first wakes up: what it was about to do is done, then it learns what has happened meanwhile.
	paused.wire.release()
	Eventually(paused.wire.quiet).WithArguments(200 * time.Millisecond).WithTimeout(patience).Should(BeTrue())
	paused.wire.thaw()
	Eventually(paused.wire.quiet).WithArguments(200 * time.Millisecond).WithTimeout(patience).Should(BeTrue())
	Expect(second.Stop()).To(Succeed())
	all(open, len(open), func(b *begun) error { return b.run.finish(ctx, base[b.scenario]) })
	return held
}
