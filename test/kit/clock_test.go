package kit_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/test/internal/passes"
)

var _ = Describe("The clock", func() {
	It("starts at the given time, and never goes back", func() {
		c := capstantest.NewClock(start)
		Expect(c.Now()).To(BeTemporally("~", start, 5*time.Second))
		c.Advance(time.Hour)
		Expect(c.Now()).To(BeTemporally("~", start.Add(time.Hour), 5*time.Second))
		c.Set(start)
		c.Advance(-time.Minute)
		Expect(c.Now()).To(BeTemporally(">=", start.Add(time.Hour)))
		c.Set(start.Add(2 * time.Hour))
		Expect(c.Now()).To(BeTemporally("~", start.Add(2*time.Hour), 5*time.Second))
		var zero capstantest.Clock
		Expect(zero.Now()).To(BeTemporally("~", time.Now(), 5*time.Second))
	})

	It("sets the timestamps that the controllers write", func(ctx context.Context) {
		before := clock.Now()
		namespace := begin(ctx, worker(once))
		Eventually(turn(ctx, namespace)).Should(capstantest.HaveSucceeded())
		ended, err := turn(ctx, namespace)()
		Expect(err).NotTo(HaveOccurred())
		Expect(
			ended.Status.Summary.StartedAt.Time,
		).To(And(BeTemporally(">=", before.Truncate(time.Second)), BeTemporally("<=", clock.Now())))
		Expect(ended.Status.Summary.FinishedAt.Time).To(BeTemporally("<=", clock.Now()))
	})

	It("ends a tool that exceeds its timeout, and no reconcile runs before", func(ctx context.Context) {
		stopped := make(chan error, 1)
		namespace := newNamespace(ctx)
		tools.In(namespace, func(call capstantest.Call) (stdout, stderr string, exit int) {
			<-call.Context.Done()
			stopped <- call.Context.Err()
			return "", "", 1
		})
		beginIn(ctx, namespace, worker(once))
		Eventually(turn(ctx, namespace)).Should(capstantest.HaveToolCall("work", v1alpha1.ToolCallStateRunning))
		before := quiet(namespace)
		clock.Advance(4 * time.Minute)
		Consistently(
			turn(ctx, namespace),
		).WithTimeout(time.Second).
			Should(capstantest.HaveToolCall("work", v1alpha1.ToolCallStateRunning), "five minutes are not over")
		Expect(
			turnPasses(namespace)().Since(before),
		).To(HaveKeyWithValue("turn demo-1", BeNumerically(">", 0)), "an advance wakes what waits")
		began := time.Now()
		clock.Advance(time.Minute)
		Eventually(turn(ctx, namespace)).Should(capstantest.HaveSucceeded())
		Expect(time.Since(began)).To(BeNumerically("<", 10*time.Second))
		Expect(
			turn(ctx, namespace)(),
		).To(capstantest.HaveToolCall("work", v1alpha1.ToolCallStateFailed, v1alpha1.ToolCallReasonTimeout))
		Eventually(stopped).Should(Receive(Equal(context.Canceled)))
	})

	It("does not count a jump as the age of a later object", func(ctx context.Context) {
		clock.Advance(24 * time.Hour)
		namespace := newNamespace(ctx)
		DeferCleanup(kit.Inject(capstantest.NeverStarts, capstantest.InNamespace(namespace)))
		beginIn(ctx, namespace, worker(pure))
		Eventually(turn(ctx, namespace)).Should(capstantest.HaveToolCall("work", v1alpha1.ToolCallStatePending, "Starting"))
		Consistently(
			turn(ctx, namespace),
		).WithTimeout(time.Second).
			ShouldNot(capstantest.HaveToolCall("work", v1alpha1.ToolCallStateNotExecuted))
	})

	It("skips the pauses that begin after it was advanced", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		for attempt := range 2 {
			DeferCleanup(kit.Inject(capstantest.Evicted, capstantest.InNamespace(namespace), capstantest.OnAttempt(attempt+1)))
		}
		clock.Advance(time.Hour)
		began := time.Now()
		beginIn(ctx, namespace, worker(pure))
		Eventually(capstantest.WithoutPauses(clock, turn(ctx, namespace))).Should(capstantest.HaveSucceeded())
		Expect(time.Since(began)).To(BeNumerically("<", 10*time.Second), "the pauses take 20s")
		Expect(started(namespace)()).To(Equal(3))
	})

	It("ends the retention of Jobs", func(ctx context.Context) {
		namespace := begin(ctx, worker(once))
		Eventually(turn(ctx, namespace)).Should(capstantest.HaveSucceeded())
		Consistently(jobs(ctx, namespace)).WithTimeout(time.Second).Should(HaveLen(1))
		clock.Advance(10 * time.Minute)
		Eventually(jobs(ctx, namespace)).Should(BeEmpty())
	})
})

// jobs are the Jobs of a namespace.
func jobs(ctx context.Context, namespace string) func() ([]batchv1.Job, error) {
	return func() ([]batchv1.Job, error) {
		var list batchv1.JobList
		err := kit.Client.List(ctx, &list, client.InNamespace(namespace))
		return list.Items, err
	}
}

// quiet waits until no Turn of the namespace is reconciled for two seconds, and returns the passes. The write that
// shows what a Turn waits for wakes it once more.
func quiet(namespace string) passes.Counts {
	GinkgoHelper()
	var counted passes.Counts
	Eventually(func(g Gomega) {
		counted = turnPasses(namespace)()
		g.Expect(counted).NotTo(BeEmpty(), "passes are not counted")
		g.Consistently(turnPasses(namespace)).
			WithTimeout(2*time.Second).
			Should(Equal(counted), "a Turn that waits is reconciled")
	}).Should(Succeed())
	return counted
}

// turnPasses returns a function that counts the passes over the Turns of a namespace.
func turnPasses(namespace string) func() passes.Counts {
	return func() passes.Counts { return reconciled.In(namespace).Of("turn") }
}
