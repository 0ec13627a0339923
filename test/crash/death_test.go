package crash_test

import (
	"context"
	"fmt"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// begun is a run that goes on by itself.
type begun struct {
	disturbed
	run *run
	end chan error
}

// begin starts a run, and comes back when the fault has come or the run is over.
func begin(ctx context.Context, d disturbed, p *process) (*begun, error) {
	r, err := prepare(ctx, scenarios[d.scenario], user, seen)
	if err != nil {
		return nil, err
	}
	r.starts = p.Starts
	p.wire.arm(r.namespace, d.fault)
	r.patience, r.rivals = untilSomebodyElse, true
	b := &begun{disturbed: d, run: r, end: make(chan error, 1)}
	go func() { b.end <- r.play(ctx) }()
	return b, await(ctx, func() error {
		if p.wire.isCut(r.namespace) || r.isOver() == nil {
			return nil
		}
		return fmt.Errorf("the fault did not come, and the Turns did not end: %w", r.isOver())
	})
}

// goOn waits for the end of a run and checks it.
func (b *begun) goOn(ctx context.Context, base []undisturbed) error {
	if err := <-b.end; err != nil {
		return err
	}
	return b.run.finish(ctx, base[b.scenario])
}

// all does something for each, several at a time, and expects that nothing was wrong.
func all[T fmt.Stringer](each []T, atOnce int, do func(T) error) {
	GinkgoHelper()
	found := &report{}
	places := make(chan struct{}, atOnce)
	var group sync.WaitGroup
	for _, one := range each {
		places <- struct{}{}
		group.Go(func() {
			defer func() { <-places }()
			found.add(one, do(one))
		})
	}
	group.Wait()
	found.expectNothing()
}

var _ = Describe("A process that dies", func() {
	It("is survived whichever write it dies at, before or after", func(ctx context.Context) {
		first := startProcess(true)
		base := measure(ctx, first)
		var runs []disturbed
		for i := range scenarios {
			for nth := range base[i].writes {
				runs = append(runs, disturbed{i, fault{writes, nth + 1, die}}, disturbed{i, fault{writes, nth + 1, dieAfter}})
			}
		}

		By(fmt.Sprintf("letting the first process die in %d conversations", len(runs)))
		var mu sync.Mutex
		var open []*begun
		died := 0
		all(runs, sideBySide, func(d disturbed) error {
			b, err := begin(ctx, d, first)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			open = append(open, b)
			if first.wire.isCut(b.run.namespace) {
				died++
			}
			return nil
		})
		first.wire.kill()
		Expect(died).To(BeNumerically(">=", len(runs)*9/10), "the process hardly ever died")

		By("letting a second process go on")
		startProcess(false)
		all(open, len(open), func(b *begun) error { return b.goOn(ctx, base) })
	})
})
