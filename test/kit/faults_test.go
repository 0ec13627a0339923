package kit_test

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
)

const (
	pure        = v1alpha1.SideEffectPure
	once        = v1alpha1.SideEffectAtMostOnce
	failed      = v1alpha1.ToolCallStateFailed
	notExecuted = v1alpha1.ToolCallStateNotExecuted
	unknown     = v1alpha1.ToolCallStateUnknown
)

// outcome is the expected end of a call that suffers a fault.
type outcome struct {
	fault  capstantest.Fault
	class  v1alpha1.SideEffect
	state  v1alpha1.ToolCallState
	reason string
	// shown is the reason that the call shows before the clock is put forward by after; without a time there is no
	// wait.
	shown string
	after time.Duration
	// starts of the container, over all attempts.
	starts int
	// text is part of the text for the model.
	result string
}

const (
	safe          = "It is safe to call it again."
	never         = "It has changed nothing and may be called again."
	unknownEffect = "It was not run again. Find out what it has done before you call it again."
)

var _ = Describe("A fault", func() {
	const startTimeout, timeout = 2 * time.Minute, 5 * time.Minute
	pending, running := v1alpha1.ToolCallStatePending, v1alpha1.ToolCallStateRunning
	DescribeTable(
		"ends the call as the runtime documents it",
		func(ctx context.Context, c outcome) {
			namespace := newNamespace(ctx)
			DeferCleanup(kit.Inject(c.fault, capstantest.InNamespace(namespace)))
			beginIn(ctx, namespace, worker(c.class))
			if c.after > 0 {
				state := pending
				if c.shown == "" {
					state = running
				}
				Eventually(turn(ctx, namespace)).Should(capstantest.HaveToolCall("work", state, c.shown))
				Eventually(started(namespace)).Should(Equal(c.starts))
				clock.Advance(c.after)
			}
			Eventually(capstantest.WithoutPauses(clock, turn(ctx, namespace))).Should(capstantest.HaveSucceeded())
			ended, err := turn(ctx, namespace)()
			Expect(err).NotTo(HaveOccurred())
			Expect(kit.ToolResultText(ctx, namespace, "demo-1", "1-0")()).To(ContainSubstring(c.result))
			Expect(ended.Status.Output).To(ContainSubstring(c.result), "the model must have read it")
			Expect(kit.Starts(namespace, "demo-1", "1-0")).To(Equal(c.starts))
			Expect(ended).To(capstantest.HaveToolCall("work", c.state, c.reason))
		},
		func(c outcome) string { return string(c.class) + ": " + string(c.fault) },
		Entry(
			nil,
			outcome{
				capstantest.JobRefused,
				once,
				notExecuted,
				v1alpha1.ToolCallReasonRefused,
				"",
				0,
				0,
				"the cluster rejected it",
			},
		),
		Entry(
			nil,
			outcome{
				capstantest.PodRefused,
				pure,
				notExecuted,
				v1alpha1.ToolCallReasonQuotaExceeded,
				"Starting",
				startTimeout,
				0,
				"a quota of the namespace is exhausted: pods",
			},
		),
		Entry(
			nil,
			outcome{
				capstantest.PodRefused,
				once,
				notExecuted,
				v1alpha1.ToolCallReasonQuotaExceeded,
				"Starting",
				startTimeout,
				0,
				never,
			},
		),
		Entry(
			nil,
			outcome{
				capstantest.Unschedulable,
				pure,
				notExecuted,
				v1alpha1.ToolCallReasonUnschedulable,
				v1alpha1.ToolCallReasonUnschedulable,
				startTimeout,
				0,
				"its pod could not be scheduled: 0/1 nodes are available",
			},
		),
		Entry(
			nil,
			outcome{
				capstantest.Unschedulable,
				once,
				notExecuted,
				v1alpha1.ToolCallReasonUnschedulable,
				v1alpha1.ToolCallReasonUnschedulable,
				startTimeout,
				0,
				never,
			},
		),
		Entry(
			nil,
			outcome{
				capstantest.PodDeletedBeforeStart,
				pure,
				notExecuted,
				v1alpha1.ToolCallReasonDisruption,
				"",
				0,
				0,
				"removed before it had started",
			},
		),
		Entry(
			nil,
			outcome{capstantest.PodDeletedBeforeStart, once, notExecuted, v1alpha1.ToolCallReasonDisruption, "", 0, 0, never},
		),
		Entry(
			nil,
			outcome{
				capstantest.ImagePullBackOff,
				pure,
				notExecuted,
				v1alpha1.ToolCallReasonImagePull,
				v1alpha1.ToolCallReasonImagePull,
				startTimeout,
				0,
				`Back-off pulling image "example.org/work:1"`,
			},
		),
		Entry(
			nil,
			outcome{
				capstantest.ImagePullBackOff,
				once,
				notExecuted,
				v1alpha1.ToolCallReasonImagePull,
				v1alpha1.ToolCallReasonImagePull,
				startTimeout,
				0,
				`Back-off pulling image "example.org/work:1"`,
			},
		),
		Entry(
			nil,
			outcome{
				capstantest.NeverStarts,
				pure,
				notExecuted,
				v1alpha1.ToolCallReasonStartTimeout,
				"Starting",
				startTimeout,
				0,
				"within 2m0s, its container did not start",
			},
		),
		Entry(
			nil,
			outcome{
				capstantest.NeverStarts,
				once,
				notExecuted,
				v1alpha1.ToolCallReasonStartTimeout,
				"Starting",
				startTimeout,
				0,
				never,
			},
		),
		Entry(
			nil,
			outcome{
				capstantest.StartError,
				once,
				notExecuted,
				v1alpha1.ToolCallReasonStartError,
				"",
				0,
				0,
				"its container could not be started: failed to create",
			},
		),
		Entry(
			nil,
			outcome{
				capstantest.Hangs,
				pure,
				failed,
				v1alpha1.ToolCallReasonTimeout,
				"",
				timeout,
				1,
				"it was stopped after 5m0s",
			},
		),
		Entry(
			nil,
			outcome{
				capstantest.Hangs,
				once,
				failed,
				v1alpha1.ToolCallReasonTimeout,
				"",
				timeout,
				1,
				"It may have done part of its work.",
			},
		),
		Entry(
			nil,
			outcome{capstantest.TimedOut, once, failed, v1alpha1.ToolCallReasonTimeout, "", 0, 1, "it was stopped after 5m0s"},
		),
		Entry(
			nil,
			outcome{
				capstantest.OOMKilled,
				pure,
				failed,
				v1alpha1.ToolCallReasonOOMKilled,
				"",
				0,
				1,
				"more memory than its limit",
			},
		),
		Entry(
			nil,
			outcome{
				capstantest.OOMKilled,
				once,
				failed,
				v1alpha1.ToolCallReasonOOMKilled,
				"",
				0,
				1,
				"more memory than its limit",
			},
		),
		Entry(
			nil,
			outcome{capstantest.OutputLost, pure, failed, v1alpha1.ToolCallReasonOutputLost, "", 0, 1, "its output was lost"},
		),
		Entry(
			nil,
			outcome{
				capstantest.OutputLost,
				once,
				failed,
				v1alpha1.ToolCallReasonOutputLost,
				"",
				0,
				1,
				"ran to its end, but its output was lost",
			},
		),
		Entry(nil, outcome{capstantest.Killed, pure, failed, v1alpha1.ToolCallReasonKilled, "", 0, 4, safe}),
		Entry(
			nil,
			outcome{capstantest.Killed, once, unknown, v1alpha1.ToolCallReasonKilled, "", 0, 1, "killed (exit code 137)"},
		),
		Entry(nil, outcome{capstantest.PodDeleted, pure, failed, v1alpha1.ToolCallReasonDisruption, "", 0, 4, safe}),
		Entry(
			nil,
			outcome{capstantest.PodDeleted, once, unknown, v1alpha1.ToolCallReasonDisruption, "", 0, 1, unknownEffect},
		),
		Entry(
			nil,
			outcome{capstantest.Evicted, pure, failed, v1alpha1.ToolCallReasonDisruption, "", 0, 4, "(EvictionByEvictionAPI)"},
		),
		Entry(nil, outcome{capstantest.Evicted, once, unknown, v1alpha1.ToolCallReasonDisruption, "", 0, 1, unknownEffect}),
		Entry(
			nil,
			outcome{
				capstantest.NodeLost,
				pure,
				failed,
				v1alpha1.ToolCallReasonNodeLost,
				"",
				0,
				4,
				"its node was lost while it ran",
			},
		),
		Entry(nil, outcome{capstantest.NodeLost, once, unknown, v1alpha1.ToolCallReasonNodeLost, "", 0, 1, unknownEffect}),
		Entry(
			nil,
			outcome{
				capstantest.NodeSilent,
				once,
				unknown,
				v1alpha1.ToolCallReasonNodeLost,
				"",
				time.Minute,
				1,
				"its node has not confirmed its end",
			},
		),
		Entry(nil, outcome{capstantest.JobDeleted, pure, failed, v1alpha1.ToolCallReasonJobGone, "", 0, 4, safe}),
		Entry(
			nil,
			outcome{
				capstantest.JobDeleted,
				once,
				unknown,
				v1alpha1.ToolCallReasonJobGone,
				"",
				0,
				1,
				"its Job no longer exists",
			},
		),
	)

	It("counts for the attempts that it is meant for: the next one has the result", func(ctx context.Context) {
		heal := kit.Inject(capstantest.Evicted, capstantest.ForTool("flaky"), capstantest.OnAttempt(1))
		DeferCleanup(heal)
		tool := worker(pure)
		tool.Name = "flaky"
		namespace := begin(ctx, tool)
		Eventually(capstantest.WithoutPauses(clock, turn(ctx, namespace))).Should(capstantest.HaveSucceeded())
		Expect(kit.ToolResultText(ctx, namespace, "demo-1", "1-0")()).To(Equal("result of 1-0"))
		Expect(kit.Starts(namespace, "demo-1", "1-0")).To(Equal(2))
	})

	It("whose Tool changes before the next attempt leaves open what the first one did", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		DeferCleanup(kit.Inject(capstantest.Evicted, capstantest.InNamespace(namespace)))
		tool := worker(v1alpha1.SideEffectIdempotent)
		beginIn(ctx, namespace, tool)
		Eventually(turn(ctx, namespace)).Should(
			capstantest.HaveToolCall("work", pending, v1alpha1.ToolCallReasonDisruption))
		before := client.MergeFrom(tool.DeepCopy())
		tool.Spec.Job.Image = "example.org/work:2"
		Expect(kit.Client.Patch(ctx, tool, before)).To(Succeed())
		Eventually(capstantest.WithoutPauses(clock, turn(ctx, namespace))).Should(capstantest.HaveSucceeded())
		Expect(turn(ctx, namespace)()).To(
			capstantest.HaveToolCall("work", failed, v1alpha1.ToolCallReasonToolChanged))
		Expect(kit.ToolResultText(ctx, namespace, "demo-1", "1-0")()).To(And(
			ContainSubstring("An earlier attempt of the tool was interrupted"), ContainSubstring(safe),
			Not(ContainSubstring("changed nothing"))))
		Expect(kit.Starts(namespace, "demo-1", "1-0")).To(Equal(1))
	})

	It("that suspends the Job holds it for as long as it lasts, and no timeout runs", func(ctx context.Context) {
		heal := kit.Inject(capstantest.JobSuspended, capstantest.ForTool("queued"))
		DeferCleanup(heal)
		tool := worker(once)
		tool.Name = "queued"
		namespace := begin(ctx, tool)
		Eventually(turn(ctx, namespace)).Should(capstantest.HaveToolCall("queued", pending, v1alpha1.ToolCallReasonSuspended))
		clock.Advance(24 * time.Hour)
		Consistently(
			turn(ctx, namespace),
		).WithTimeout(time.Second).
			Should(capstantest.HaveToolCall("queued", pending, v1alpha1.ToolCallReasonSuspended))
		heal()
		Eventually(turn(ctx, namespace)).Should(capstantest.HaveSucceeded())
		Expect(kit.ToolResultText(ctx, namespace, "demo-1", "1-0")()).To(Equal("result of 1-0"))
	})

	It("that is removed before the start timeout has no effect", func(ctx context.Context) {
		heal := kit.Inject(capstantest.Unschedulable, capstantest.ForTool("patient"))
		DeferCleanup(heal)
		tool := worker(once)
		tool.Name = "patient"
		namespace := begin(ctx, tool)
		Eventually(
			turn(ctx, namespace),
		).Should(capstantest.HaveToolCall("patient", pending, v1alpha1.ToolCallReasonUnschedulable))
		heal()
		Eventually(turn(ctx, namespace)).Should(capstantest.HaveSucceeded())
		Expect(kit.Starts(namespace, "demo-1", "1-0")).To(Equal(1))
	})

	It("of the tool itself needs no injection: an exit code, and a result that is too large", func(ctx context.Context) {
		tool := worker(once)
		tool.Name = "broken"
		namespace := newNamespace(ctx)
		tools.In(
			namespace,
			func(capstantest.Call) (stdout, stderr string, exit int) { return "never shown", "no such city", 3 },
		)
		beginIn(ctx, namespace, tool)
		Eventually(turn(ctx, namespace)).Should(capstantest.HaveSucceeded())
		Expect(turn(ctx, namespace)()).To(capstantest.HaveToolCall("broken", failed, v1alpha1.ToolCallReasonExitCode))
		Expect(
			kit.ToolResultText(ctx, namespace, "demo-1", "1-0")(),
		).To(Equal("The tool failed with exit code 3. The end of its stderr:\nno such city"))

		namespace = newNamespace(ctx)
		tools.In(namespace, func(capstantest.Call) (stdout, stderr string, exit int) {
			return strings.Repeat("much ", 20_000), "", 0
		})
		beginIn(ctx, namespace, worker(once))
		Eventually(turn(ctx, namespace)).Should(capstantest.HaveSucceeded())
		result, err := kit.ToolResultText(ctx, namespace, "demo-1", "1-0")()
		Expect(err).NotTo(HaveOccurred())
		Expect(result).To(And(HaveLen(64<<10), HavePrefix("much much "), ContainSubstring("of 100000 bytes")))
	})
})

// started is how often the container of the call was started.
func started(namespace string) func() int {
	return func() int { return kit.Starts(namespace, "demo-1", "1-0") }
}
