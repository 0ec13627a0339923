package jobstatus

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

func TestEveryEndingHasItsOutcome(t *testing.T) {
	for name, c := range endings() {
		t.Run(name, func(t *testing.T) {
			seen := c.scene.observe(c.after)
			got := seen.Outcome
			if seen.Phase != PhaseDone || !seen.Deadline.IsZero() || seen.Gated {
				t.Fatalf("the observation is %+v", seen)
			}
			if got.State != c.state || got.Reason != c.reason {
				t.Errorf("the outcome is %s, %s; want %s, %s: %q", got.State, got.Reason, c.state, c.reason, got.Error)
			}
			if got.Started != c.started || got.Retryable != c.retryable || seen.Stop != c.stop {
				t.Errorf(
					"started %v, retryable %v, stop %v; want %v, %v, %v", got.Started, got.Retryable, seen.Stop, c.started,
					c.retryable, c.stop,
				)
			}
			if (got.Error == "") != (c.state == v1alpha1.ToolCallStateSucceeded) || !strings.Contains(got.Error, c.message) {
				t.Errorf("the error is %q, want %q in it", got.Error, c.message)
			}
			if strings.Contains(got.Error, "stdout") {
				t.Errorf("the tool's stdout is in its error %q", got.Error)
			}
		})
	}
}

func TestNoEndingBreaksThePromiseOfItsClass(t *testing.T) {
	for name, c := range endings() {
		got := c.scene.observe(c.after).Outcome
		if got.Retryable && tool.AtMostOnce(c.scene.call) {
			t.Errorf("%s: a call that must not start twice is retryable", name)
		}
		if got.Retryable && (got.Reason == v1alpha1.ToolCallReasonExitCode || got.Reason == v1alpha1.ToolCallReasonTimeout ||
			got.Reason == v1alpha1.ToolCallReasonOOMKilled) {
			t.Errorf("%s: %s is retryable", name, got.Reason)
		}
		if got.State == v1alpha1.ToolCallStateUnknown && !tool.AtMostOnce(c.scene.call) {
			t.Errorf("%s: a call that may run again is unknown", name)
		}
		if got.State == v1alpha1.ToolCallStateNotExecuted && got.Started {
			t.Errorf("%s: a call that started was not executed", name)
		}
	}
}

func TestEveryReasonHasAnEnding(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range endings() {
		seen[c.reason] = true
	}
	for _, reason := range []string{
		v1alpha1.ToolCallReasonCompleted, v1alpha1.ToolCallReasonExitCode, v1alpha1.ToolCallReasonTimeout,
		v1alpha1.ToolCallReasonStartTimeout, v1alpha1.ToolCallReasonStartError, v1alpha1.ToolCallReasonImagePull,
		v1alpha1.ToolCallReasonUnschedulable,
		v1alpha1.ToolCallReasonNoPod, v1alpha1.ToolCallReasonOOMKilled, v1alpha1.ToolCallReasonDisruption,
		v1alpha1.ToolCallReasonKilled, v1alpha1.ToolCallReasonNodeLost, v1alpha1.ToolCallReasonOutputLost,
		v1alpha1.ToolCallReasonSecondStart, v1alpha1.ToolCallReasonPodGone, v1alpha1.ToolCallReasonJobGone,
	} {
		if !seen[reason] {
			t.Errorf("nothing ends with %s", reason)
		}
	}
}

// stage is the expected state of a call that has not ended.
type stage struct {
	scene    *fixture
	after    time.Duration
	phase    Phase
	reason   string
	deadline time.Duration // 0 for none
	gated    bool
	stop     bool
}

func steps() map[string]stage {
	return map[string]stage{
		"no pod yet": {
			scene: scene(pure, noPod), after: startTimeout - 1, phase: PhasePending, reason: v1alpha1.ToolCallReasonStarting,
			deadline: startTimeout,
		},
		"no pod yet to be recorded": {
			scene: scene(once, noPod, notRecorded), phase: PhasePending, reason: v1alpha1.ToolCallReasonStarting,
			deadline: startTimeout,
		},
		"starting": {
			scene: scene(once), after: startTimeout - 1, phase: PhasePending, reason: v1alpha1.ToolCallReasonStarting,
			deadline: startTimeout,
		},
		"the image is not there yet": {
			scene: scene(pure, waiting("ErrImagePull", "")), after: time.Second, phase: PhasePending,
			reason: v1alpha1.ToolCallReasonImagePull, deadline: startTimeout,
		},
		"no node yet": {
			scene: scene(once, unbound), after: time.Second, phase: PhasePending, reason: v1alpha1.ToolCallReasonUnschedulable,
			deadline: startTimeout,
		},
		"running": {
			scene: scene(once, runs(time.Minute)), after: 90 * time.Second, phase: PhaseRunning,
			deadline: time.Minute + runLimit,
		},
		"running to the last moment": {
			scene: scene(once, runs(0)), after: runLimit - 1, phase: PhaseRunning, deadline: runLimit,
		},
		"running long after its start": {
			scene: scene(pure, runs(time.Hour)), after: time.Hour, phase: PhaseRunning, deadline: time.Hour + runLimit,
		},
		"running and resuspended": {
			scene: scene(once, runs(0), suspend), after: time.Second, phase: PhaseRunning, deadline: runLimit,
		},
		"running and deleted": {
			scene: scene(once, runs(0), deleted(2*time.Second)), after: time.Second, phase: PhaseRunning,
			deadline: 32 * time.Second,
		},
		"running, deleted, about to end": {
			scene: scene(once, runs(0), deleted(time.Hour)), after: time.Second, phase: PhaseRunning, deadline: runLimit,
		},
		"starting and deleted": {
			scene: scene(once, deleted(2*time.Second)), after: time.Second, phase: PhasePending,
			reason: v1alpha1.ToolCallReasonStarting, deadline: 32 * time.Second,
		},
		"gated": {scene: scene(once, gatedPod), phase: PhasePending, reason: v1alpha1.ToolCallReasonGated, gated: true},
		"gated for long": {
			scene: scene(once, gatedPod), after: time.Hour, phase: PhasePending, reason: v1alpha1.ToolCallReasonGated,
			gated: true,
		},
		"gated and recorded": {
			scene: scene(once, gatedPod, recorded), after: time.Hour, phase: PhasePending, reason: v1alpha1.ToolCallReasonGated,
			gated: true,
		},
		"just released after long": {
			scene: scene(once, unbound, released(time.Hour)), after: time.Hour, phase: PhasePending,
			reason: v1alpha1.ToolCallReasonUnschedulable, deadline: time.Hour + startTimeout,
		},
		"released in the future": {
			scene: scene(once, released(10*time.Hour)), after: time.Second, phase: PhasePending,
			reason: v1alpha1.ToolCallReasonStarting, deadline: startTimeout,
		},
		"released by a clock ahead": {
			scene: scene(once, released(10*time.Second)), after: time.Second, phase: PhasePending,
			reason: v1alpha1.ToolCallReasonStarting, deadline: 10*time.Second + startTimeout,
		},
		"suspended": {
			scene: scene(pure, noPod, suspend), after: time.Hour, phase: PhasePending, reason: v1alpha1.ToolCallReasonSuspended,
		},
		"suspended before the record": {
			scene: scene(once, noPod, notRecorded, suspend), after: time.Hour, phase: PhasePending,
			reason: v1alpha1.ToolCallReasonSuspended,
		},
		"suspended, its pod goes unrecorded": {
			scene: scene(once, gatedPod, suspend, deleted(0)), after: time.Hour, phase: PhasePending,
			reason: v1alpha1.ToolCallReasonSuspended,
		},
		"suspended with a pod": {
			scene: scene(once, suspend), after: time.Hour, phase: PhasePending, reason: v1alpha1.ToolCallReasonSuspended,
		},
		"resumed a moment ago": {
			scene: scene(pure, noPod, resumed(time.Hour)), after: time.Hour, phase: PhasePending,
			reason: v1alpha1.ToolCallReasonStarting, deadline: time.Hour + startTimeout,
		},
		"resumed, and its controller has not noticed": {
			scene: scene(pure, noPod, resumed(0), unnoticed), after: time.Hour, phase: PhasePending,
			reason: v1alpha1.ToolCallReasonSuspended,
		},
		"suspended, its pod is stopped": {
			scene: scene(pure, suspend, reports("Error", result.Report{Outcome: result.Terminated, Exit: 143, Started: true})),
			phase: PhasePending, reason: v1alpha1.ToolCallReasonSuspended,
		},
		"suspended, its pod was deleted": {
			scene: scene(pure, suspend, noPod, jobFailed), phase: PhasePending, reason: v1alpha1.ToolCallReasonSuspended,
		},
		"not started in time": {
			scene: scene(once), after: startTimeout, phase: PhasePending, reason: v1alpha1.ToolCallReasonStarting,
			deadline: startTimeout + DeletionMargin, stop: true,
		},
		"not scheduled in time": {
			scene: scene(once, unbound), after: startTimeout, phase: PhasePending, reason: v1alpha1.ToolCallReasonUnschedulable,
			deadline: startTimeout + DeletionMargin, stop: true,
		},
		"not pulled in time": {
			scene: scene(once, waiting("ImagePullBackOff", "")), after: startTimeout, phase: PhasePending,
			reason: v1alpha1.ToolCallReasonImagePull, deadline: startTimeout + DeletionMargin, stop: true,
		},
		"permanent": {
			scene: scene(once, waiting("InvalidImageName", "")), phase: PhasePending, reason: v1alpha1.ToolCallReasonImagePull,
			deadline: DeletionMargin, stop: true,
		},
		"released by others, not in time": {
			scene: scene(once, notRecorded), after: startTimeout, phase: PhasePending, reason: v1alpha1.ToolCallReasonStarting,
			deadline: startTimeout + DeletionMargin, stop: true,
		},
		"a Job that was made long before": {
			scene: scene(once, func(f *fixture) { f.job.Status.StartTime = ptr.To(at(time.Hour)) }), after: time.Hour,
			phase: PhasePending, reason: v1alpha1.ToolCallReasonStarting, deadline: time.Hour + startTimeout,
		},
		"a pod without its Job": {
			scene: scene(once, noJob), after: time.Second, phase: PhasePending, reason: v1alpha1.ToolCallReasonStarting,
			deadline: startTimeout,
		},
		"a pure tool's restart that waits": {
			scene: scene(pure, restartedOnce), after: time.Second, phase: PhasePending, reason: v1alpha1.ToolCallReasonStarting,
			deadline: startTimeout,
		},
	}
}

// unnoticed is a Job that was resumed and whose controller has not reported it yet.
func unnoticed(f *fixture) {
	f.job.Status.StartTime = nil
	f.job.Status.Conditions[0].Status = corev1.ConditionTrue
}

func TestACallThatHasNotEndedReportsWhenToLookAgain(t *testing.T) {
	for name, c := range steps() {
		t.Run(name, func(t *testing.T) {
			seen := c.scene.observe(c.after)
			if seen.Phase != c.phase || seen.Outcome.Reason != c.reason || seen.Gated != c.gated || seen.Stop != c.stop {
				t.Errorf("the observation is %+v", seen)
			}
			want := time.Time{}
			if c.deadline != 0 {
				want = created.Add(c.deadline)
			}
			if !seen.Deadline.Equal(want) {
				t.Errorf("the deadline is %v, want %v", seen.Deadline, want)
			}
			state := map[Phase]v1alpha1.ToolCallState{
				PhasePending: v1alpha1.ToolCallStatePending, PhaseRunning: v1alpha1.ToolCallStateRunning,
			}[c.phase]
			if seen.Outcome.State != state || seen.Outcome.Started != (c.phase == PhaseRunning) || seen.Outcome.Error != "" ||
				seen.Outcome.Retryable {
				t.Errorf("the outcome is %+v", seen.Outcome)
			}
		})
	}
}

func TestAnObstacleIsNamedBeforeThePodHasToGo(t *testing.T) {
	for name, c := range map[string]struct {
		scene   *fixture
		after   time.Duration
		reason  string
		message string
	}{
		"an image that cannot be pulled": {
			scene(once, waiting("ImagePullBackOff", "no such host")), startTimeout, v1alpha1.ToolCallReasonImagePull,
			"(ImagePullBackOff): no such host",
		},
		"an image that must not be pulled": {
			scene(once, waiting("ErrImageNeverPull", "")), 0, v1alpha1.ToolCallReasonImagePull, "(ErrImageNeverPull)",
		},
		"no room on any node": {
			scene(once, unbound), startTimeout, v1alpha1.ToolCallReasonUnschedulable, "Insufficient memory",
		},
		"nothing to be seen": {
			scene(once), startTimeout, v1alpha1.ToolCallReasonStartTimeout, "its container did not start",
		},
	} {
		seen := c.scene.observe(c.after)
		if seen.Phase != PhasePending || !seen.Stop || seen.StartFailure == nil {
			t.Errorf("%s: phase %s, stop %v, start failure %v", name, seen.Phase, seen.Stop, seen.StartFailure)
			continue
		}
		got := seen.StartFailure
		if got.State != v1alpha1.ToolCallStateNotExecuted || got.Reason != c.reason || got.Started ||
			!strings.Contains(
				got.Error, c.message,
			) {
			t.Errorf("%s: start failure %s %s, %q", name, got.State, got.Reason, got.Error)
		}
	}
	for name, f := range map[string]*fixture{"there is time": scene(once), "the call is decided": scene(pure)} {
		if seen := f.observe(startTimeout - time.Second); seen.StartFailure != nil {
			t.Errorf("%s: start failure %v", name, seen.StartFailure)
		}
	}
}

func TestADeadlineLiesInTheFuture(t *testing.T) {
	for name, c := range steps() {
		if seen := c.scene.observe(c.after); !seen.Deadline.IsZero() && !seen.Deadline.After(created.Add(c.after)) {
			t.Errorf("%s: the deadline has passed: the caller would look again and again", name)
		}
	}
}

func TestObservingChangesNothing(t *testing.T) {
	for name, c := range endings() {
		before, first := encoded(t, c.scene.job, c.scene.pod, c.scene.call), encoded(t, c.scene.observe(c.after))
		after, second := encoded(t, c.scene.job, c.scene.pod, c.scene.call), encoded(t, c.scene.observe(c.after))
		if before != after || first != second {
			t.Errorf("%s: the observed objects have changed, or a second observation differs", name)
		}
	}
}

func encoded(t *testing.T, values ...any) string {
	t.Helper()
	text, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTheTimesOfARunAreTheNodes(t *testing.T) {
	got := scene(
		once, reports("Completed", result.Report{Outcome: result.Exited, Started: true}),
	).observe(time.Minute).Outcome
	if !got.StartedAt.Equal(created.Add(time.Second)) || !got.FinishedAt.Equal(created.Add(9*time.Second)) {
		t.Errorf("from %v to %v", got.StartedAt, got.FinishedAt)
	}
	got = scene(once, runs(3*time.Second)).observe(time.Minute).Outcome
	if !got.StartedAt.Equal(created.Add(3*time.Second)) || !got.FinishedAt.IsZero() {
		t.Errorf("from %v to %v", got.StartedAt, got.FinishedAt)
	}
}

func TestAResultIsInTheMessageOrTheLog(t *testing.T) {
	small := result.Report{Outcome: result.Exited, Started: true, Result: "four"}
	got := scene(once, reports("Completed", small)).observe(0).Outcome
	if got.Result == nil || *got.Result != "four" || got.NeedsLog {
		t.Errorf("the outcome is %+v", got)
	}
	large := result.Report{Outcome: result.Exited, Started: true, Result: strings.Repeat("x", 9000)}
	message, frame := large.Encode(result.NewNonce())
	f := scene(once, ends(0, "Completed", string(message)))
	got = f.observe(0).Outcome
	if got.State != v1alpha1.ToolCallStateSucceeded || got.Result != nil || !got.NeedsLog {
		t.Fatalf("the outcome is %+v", got)
	}
	text, _, err := ReadResult(strings.NewReader("stderr of the tool"+string(frame)), TerminationMessage(f.pod))
	if err != nil || text != large.Result {
		t.Errorf("the log gives %d bytes, %v", len(text), err)
	}
}
