package crash_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
)

// sideBySide is how many runs are under way at once.
const sideBySide = 12

var _ = Describe("A request that fails", Ordered, func() {
	var (
		p    *process
		base []undisturbed
	)

	BeforeAll(func(ctx context.Context) {
		p = startProcess(true)
		base = measure(ctx, p)
	})

	// each runs the disturbed scenarios, several at a time.
	each := func(ctx context.Context, runs []disturbed) {
		GinkgoHelper()
		all(runs, sideBySide, func(d disturbed) error {
			r, err := prepare(ctx, scenarios[d.scenario], user, seen)
			if err != nil {
				return err
			}
			r.starts = p.Starts
			p.wire.arm(r.namespace, d.fault)
			if err := r.play(ctx); err != nil {
				return err
			}
			return r.finish(ctx, base[d.scenario])
		})
		AddReportEntry("runs", fmt.Sprint(len(runs)))
	}

	faults := func(k kind, how fate) []disturbed {
		var runs []disturbed
		for i := range scenarios {
			requests := base[i].writes
			if k == reads {
				requests = base[i].reads
			}
			for nth := range requests {
				runs = append(runs, disturbed{i, fault{k, nth + 1, how}})
			}
		}
		return runs
	}

	It("before it is carried out changes nothing, whichever write it is", func(ctx context.Context) {
		each(ctx, faults(writes, refuse))
	})

	It("after it was carried out changes nothing, whichever write it is", func(ctx context.Context) {
		each(ctx, faults(writes, lose))
	})

	It("changes nothing, whichever read past the caches it is", func(ctx context.Context) {
		each(ctx, faults(reads, refuse))
	})

	It("changes nothing when a fifth of all requests does", func(ctx context.Context) {
		var runs []disturbed
		for i := range scenarios {
			for seed := range 8 {
				runs = append(runs, disturbed{i, fault{nth: seed + 1, fate: chaos}})
			}
		}
		each(ctx, runs)
	})
})
