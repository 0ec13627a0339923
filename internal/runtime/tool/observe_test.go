package tool

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

// ending is what a call is expected to end with.
type ending struct {
	scene     *fixture
	after     time.Duration
	state     v1alpha1.ToolCallState
	reason    string
	started   bool
	retryable bool
	stop      bool
	says      string
}

const (
	pure = v1alpha1.SideEffectPure
	once = v1alpha1.SideEffectAtMostOnce
)

func endings() map[string]ending {
	exited := func(code int, stderr string) result.Report {
		return result.Report{Outcome: result.Exited, Exit: code, Started: true, Stderr: stderr, StdoutBytes: 6, Result: "stdout"}
	}
	success := exited(0, "")
	of := func(outcome result.Outcome, exit int, started bool, stderr string) result.Report {
		return result.Report{Outcome: outcome, Exit: exit, Started: started, Stderr: stderr}
	}
	const (
		succeeded   = v1alpha1.ToolCallStateSucceeded
		failed      = v1alpha1.ToolCallStateFailed
		notExecuted = v1alpha1.ToolCallStateNotExecuted
		unknown     = v1alpha1.ToolCallStateUnknown
	)
	return map[string]ending{
		// The launcher's own report.
		"success":                          {scene(once, reports("Completed", success)), 0, succeeded, v1alpha1.ToolCallReasonCompleted, true, false, false, ""},
		"success while the pod still runs": {scene(pure, reports("Completed", success), phase(corev1.PodRunning, "")), 0, succeeded, v1alpha1.ToolCallReasonCompleted, true, false, false, ""},
		"success although the pod went":    {scene(once, reports("Completed", success), deleted(5*time.Second)), 0, succeeded, v1alpha1.ToolCallReasonCompleted, true, false, false, ""},
		"success although a child was OOM": {scene(once, reports("OOMKilled", success)), 0, succeeded, v1alpha1.ToolCallReasonCompleted, true, false, false, ""},
		"success although resuspended":     {scene(once, reports("Completed", success), suspend), 0, succeeded, v1alpha1.ToolCallReasonCompleted, true, false, false, ""},
		"success without a Job":            {scene(pure, reports("Completed", success), noJob), 0, succeeded, v1alpha1.ToolCallReasonCompleted, true, false, false, ""},
		"an exit code":                     {scene(once, reports("Error", exited(3, "no such city"))), 0, failed, v1alpha1.ToolCallReasonExitCode, true, false, false, "exit code 3. The end of its stderr:\nno such city"},
		"an exit code of a pure tool":      {scene(pure, reports("Error", exited(1, ""))), 0, failed, v1alpha1.ToolCallReasonExitCode, true, false, false, "exit code 1. It wrote nothing to stderr."},
		"an exit code and an eviction":     {scene(pure, reports("Error", exited(1, "")), deleted(0)), 0, failed, v1alpha1.ToolCallReasonExitCode, true, false, false, "exit code 1"},
		"a signal":                         {scene(once, reports("Error", of(result.Signalled, 139, true, "dump"))), 0, failed, v1alpha1.ToolCallReasonExitCode, true, false, false, "signal 11. The end of its stderr:\ndump"},
		"a signal for want of memory":      {scene(pure, reports("OOMKilled", of(result.Signalled, 137, true, "working"))), 0, failed, v1alpha1.ToolCallReasonOOMKilled, true, false, false, "more memory than its limit. It may have done part of its work. The end of its stderr:\nworking"},
		"an exit code for want of memory":  {scene(once, reports("OOMKilled", exited(1, ""))), 0, failed, v1alpha1.ToolCallReasonOOMKilled, true, false, false, "memory"},
		"a timeout":                        {scene(once, reports("Error", of(result.TimedOut, 124, true, "still here"))), 0, failed, v1alpha1.ToolCallReasonTimeout, true, false, false, "after 1m0s. It may have done part of its work. The end of its stderr:\nstill here"},
		"a timeout of a pure tool":         {scene(pure, reports("Error", of(result.TimedOut, 124, true, ""))), 0, failed, v1alpha1.ToolCallReasonTimeout, true, false, false, "timed out"},
		"a missing command":                {scene(once, reports("Error", of(result.StartError, 127, false, "the command \"/x\" does not exist"))), 0, notExecuted, v1alpha1.ToolCallReasonStartError, false, false, false, "\"/x\" does not exist"},
		"a refused second start":           {scene(once, reports("Error", of(result.Refused, 125, false, ""))), 0, unknown, v1alpha1.ToolCallReasonSecondStart, false, false, false, "second time"},
		"a refused second start, pure":     {scene(pure, reports("Error", of(result.Refused, 125, false, ""))), 0, failed, v1alpha1.ToolCallReasonSecondStart, false, true, false, "second time"},
		"a stop":                           {scene(once, reports("Error", of(result.Terminated, 143, true, ""))), 0, unknown, v1alpha1.ToolCallReasonDisruption, true, false, false, "stopped before it had ended"},
		"a stop of a pure tool":            {scene(pure, reports("Error", of(result.Terminated, 143, true, ""))), 0, failed, v1alpha1.ToolCallReasonDisruption, true, true, false, "stopped before it had ended"},
		"a stop of an idempotent tool":     {scene(v1alpha1.SideEffectIdempotent, reports("Error", of(result.Terminated, 143, true, ""))), 0, failed, v1alpha1.ToolCallReasonDisruption, true, true, false, "safe to call it again"},
		"a stop of a tool without a class": {scene("", reports("Error", of(result.Terminated, 143, true, ""))), 0, unknown, v1alpha1.ToolCallReasonDisruption, true, false, false, ""},
		"a stop with a reason":             {scene(once, reports("Error", of(result.Terminated, 143, true, "")), phase(corev1.PodFailed, "Evicted")), 0, unknown, v1alpha1.ToolCallReasonDisruption, true, false, false, "(Evicted)"},
		"a stop before the start":          {scene(once, reports("Error", of(result.Terminated, 143, false, ""))), 0, notExecuted, v1alpha1.ToolCallReasonDisruption, false, false, false, "before it had started"},
		"a stop before the start, pure":    {scene(pure, reports("Error", of(result.Terminated, 143, false, ""))), 0, notExecuted, v1alpha1.ToolCallReasonDisruption, false, true, false, "before it had started"},

		// No report, or none that counts.
		"no report":                            {scene(once, ends(0, "Completed", "")), 0, failed, v1alpha1.ToolCallReasonOutputLost, true, false, false, "ran to its end, but its output was lost"},
		"no report of a pure tool":             {scene(pure, ends(0, "Completed", "")), 0, failed, v1alpha1.ToolCallReasonOutputLost, true, false, false, "safe to call it again"},
		"another program's message":            {scene(once, ends(3, "Error", "Error on reading termination log")), 0, failed, v1alpha1.ToolCallReasonOutputLost, true, false, false, "exit code 3"},
		"a report with another exit code":      {scene(once, reports("Error", success), func(f *fixture) { f.status().State.Terminated.ExitCode = 137 }), 0, unknown, v1alpha1.ToolCallReasonKilled, true, false, false, "killed (exit code 137)"},
		"a forged report before an OOM":        {scene(once, reports("OOMKilled", success), func(f *fixture) { f.status().State.Terminated.ExitCode = 137 }), 0, failed, v1alpha1.ToolCallReasonOOMKilled, true, false, false, "memory"},
		"a crash of the launcher":              {scene(once, ends(2, "Error", "")), 0, unknown, v1alpha1.ToolCallReasonKilled, true, false, false, "killed (exit code 2)"},
		"a kill":                               {scene(pure, ends(137, "Error", "")), 0, failed, v1alpha1.ToolCallReasonKilled, true, true, false, "killed (exit code 137)"},
		"OOM of everything":                    {scene(once, ends(137, "OOMKilled", "")), 0, failed, v1alpha1.ToolCallReasonOOMKilled, true, false, false, "more memory than its limit"},
		"a kill in an eviction":                {scene(once, ends(137, "Error", ""), condition(corev1.DisruptionTarget, corev1.ConditionTrue, "EvictionByEvictionAPI", "for an upgrade")), 0, unknown, v1alpha1.ToolCallReasonDisruption, true, false, false, "(EvictionByEvictionAPI): for an upgrade"},
		"a kill in a deletion":                 {scene(pure, ends(137, "Error", ""), deleted(0)), 0, failed, v1alpha1.ToolCallReasonDisruption, true, true, false, ""},
		"a container that the node lost":       {scene(once, ends(137, "ContainerStatusUnknown", "")), 0, unknown, v1alpha1.ToolCallReasonNodeLost, true, false, false, "lost the container"},
		"a container that the node lost, pure": {scene(pure, ends(137, "ContainerStatusUnknown", ""), restartedOnce), 0, failed, v1alpha1.ToolCallReasonNodeLost, true, true, false, "lost the container"},
		"a running one that the node lost": {scene(once, neverRan, func(f *fixture) {
			f.status().RestartCount = 1
			f.status().LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Reason: "ContainerStatusUnknown", ExitCode: 137}
		}), 0, unknown, v1alpha1.ToolCallReasonNodeLost, true, false, false, "lost the container"},

		// Containers that never started.
		"a container that cannot start": {scene(once, ends(128, "StartError", "exec: no such file"), func(f *fixture) {
			f.status().State.Terminated.StartedAt = metav1.Unix(0, 0)
		}), 0, notExecuted, v1alpha1.ToolCallReasonStartError, false, false, false, "could not be started: exec: no such file"},
		"a container that cannot run": {scene(pure, ends(128, "ContainerCannotRun", ""), func(f *fixture) {
			f.status().State.Terminated.StartedAt = metav1.Time{}
		}), 0, notExecuted, v1alpha1.ToolCallReasonStartError, false, false, false, "could not be started"},
		"stopped before the start":       {scene(once, neverRan, deleted(0)), 0, notExecuted, v1alpha1.ToolCallReasonDisruption, false, false, false, "removed before it had started"},
		"stopped before the start, pure": {scene(pure, neverRan, deleted(0)), 0, notExecuted, v1alpha1.ToolCallReasonDisruption, false, true, false, "removed before it had started"},
		"stopped after the start timeout": {
			scene(once, neverRan, deleted(0)), startTimeout, notExecuted, v1alpha1.ToolCallReasonStartTimeout, false, false, false,
			"within 2m0s, its container did not start",
		},
		"an init container that failed": {scene(once, phase(corev1.PodFailed, ""), func(f *fixture) {
			f.pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "launcher", State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: 125, Message: "no space left"},
			}}}
		}), 0, notExecuted, v1alpha1.ToolCallReasonStartError, false, false, false, "no space left"},

		// Containers that do not start in time.
		"a pure tool's image that cannot be pulled": {
			scene(pure, waiting("ImagePullBackOff", "Back-off pulling image")), startTimeout, notExecuted, v1alpha1.ToolCallReasonImagePull, false, false, true,
			"within 2m0s, its image could not be pulled (ImagePullBackOff): Back-off pulling image",
		},
		"a launcher that cannot be pulled": {scene(pure, func(f *fixture) {
			f.pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "launcher", State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"},
			}}}
		}), startTimeout, notExecuted, v1alpha1.ToolCallReasonImagePull, false, false, true, "(ErrImagePull): not found"},
		"an image name that is none":        {scene(pure, waiting("InvalidImageName", "bad")), time.Second, notExecuted, v1alpha1.ToolCallReasonImagePull, false, false, true, "its image could not be pulled (InvalidImageName): bad"},
		"an image that must not be pulled":  {scene(pure, waiting("ErrImageNeverPull", "")), 0, notExecuted, v1alpha1.ToolCallReasonImagePull, false, false, true, "(ErrImageNeverPull)"},
		"a container that cannot be made":   {scene(pure, waiting("CreateContainerConfigError", "no such secret")), startTimeout, notExecuted, v1alpha1.ToolCallReasonStartError, false, false, true, "no such secret"},
		"no room on any node":               {scene(pure, unbound), startTimeout, notExecuted, v1alpha1.ToolCallReasonUnschedulable, false, false, true, "3 Insufficient memory"},
		"nothing happens":                   {scene(pure), startTimeout, notExecuted, v1alpha1.ToolCallReasonStartTimeout, false, false, true, "within 2m0s, its container did not start"},
		"nothing happens and no status":     {scene(pure, func(f *fixture) { f.pod.Status = corev1.PodStatus{} }), startTimeout, notExecuted, v1alpha1.ToolCallReasonStartTimeout, false, false, true, ""},
		"nothing after a false release":     {scene(pure, released(time.Hour)), startTimeout, notExecuted, v1alpha1.ToolCallReasonStartTimeout, false, false, true, ""},
		"an unreadable time of the release": {scene(pure, func(f *fixture) { f.pod.Annotations = map[string]string{v1alpha1.AnnotationReleasedAt: "soon"} }), startTimeout, notExecuted, v1alpha1.ToolCallReasonStartTimeout, false, false, true, ""},
		"no pod":                            {scene(pure, noPod), startTimeout, notExecuted, v1alpha1.ToolCallReasonNoPod, false, false, true, "its Job got no pod"},
		"no pod yet to be recorded":         {scene(once, noPod, notRecorded), startTimeout, notExecuted, v1alpha1.ToolCallReasonNoPod, false, false, true, "its Job got no pod"},

		// Pods that went away before their container started.
		"unbound and deleted":       {scene(once, unbound, deleted(0)), 0, notExecuted, v1alpha1.ToolCallReasonDisruption, false, false, false, ""},
		"unbound and deleted, pure": {scene(pure, unbound, deleted(0)), 0, notExecuted, v1alpha1.ToolCallReasonDisruption, false, true, false, ""},
		"unbound and given up":      {scene(once, unbound, deleted(0)), startTimeout, notExecuted, v1alpha1.ToolCallReasonUnschedulable, false, false, false, "Insufficient memory"},
		"gated and deleted":         {scene(once, gatedPod, deleted(0)), time.Hour, notExecuted, v1alpha1.ToolCallReasonDisruption, false, false, false, ""},
		"gated, recorded, deleted":  {scene(once, gatedPod, recorded, deleted(0)), time.Hour, notExecuted, v1alpha1.ToolCallReasonDisruption, false, false, false, ""},
		"gated and failed":          {scene(once, gatedPod, phase(corev1.PodFailed, "")), 0, notExecuted, v1alpha1.ToolCallReasonDisruption, false, false, false, ""},
		"unbound and failed":        {scene(once, unbound, phase(corev1.PodFailed, "Preempting")), 0, notExecuted, v1alpha1.ToolCallReasonDisruption, false, false, false, "(Preempting)"},
		"refused by the node": {
			scene(pure, phase(corev1.PodFailed, "OutOfcpu"), func(f *fixture) { f.pod.Status.ContainerStatuses = nil }), 0,
			notExecuted, v1alpha1.ToolCallReasonDisruption, false, true, false, "(OutOfcpu)",
		},
		// A kubelet that restarts can say the same of a pod that has run.
		"refused by the node, perhaps after it ran": {
			scene(once, phase(corev1.PodFailed, "OutOfcpu"), func(f *fixture) { f.pod.Status.ContainerStatuses = nil }), 0,
			unknown, v1alpha1.ToolCallReasonDisruption, false, false, false, "it is unknown whether it had started (OutOfcpu)",
		},
		"waiting when its node was given up": {
			scene(once, phase(corev1.PodFailed, ""), condition(corev1.DisruptionTarget, corev1.ConditionTrue, "DeletionByPodGC", "")), 0,
			unknown, v1alpha1.ToolCallReasonDisruption, false, false, false, "(DeletionByPodGC)",
		},

		// Containers that run and do not end.
		"running when its node was given up": {scene(once, runs(time.Second), phase(corev1.PodFailed, "")), 0, unknown, v1alpha1.ToolCallReasonNodeLost, true, false, false, "node was lost while it ran"},
		"running when its node went, pure":   {scene(pure, runs(time.Second), phase(corev1.PodFailed, "")), 0, failed, v1alpha1.ToolCallReasonNodeLost, true, true, false, ""},
		"too long":                           {scene(pure, runs(0)), runLimit, failed, v1alpha1.ToolCallReasonTimeout, true, false, true, "had not ended 10s after its timeout of 1m0s"},
		"too long, and nobody knows":         {scene(once, runs(0)), runLimit, unknown, v1alpha1.ToolCallReasonTimeout, true, false, true, "had not ended 10s after its timeout of 1m0s"},
		"too long, from an unknown start":    {scene(pure, runs(0), func(f *fixture) { f.status().State.Running.StartedAt = metav1.Time{} }), runLimit, failed, v1alpha1.ToolCallReasonTimeout, true, false, true, ""},
		"too long on a silent node":          {scene(pure, runs(0), condition(corev1.PodReady, corev1.ConditionFalse, "", "")), runLimit, failed, v1alpha1.ToolCallReasonNodeLost, true, true, true, "stopped reporting"},
		"too long on a silent node, once":    {scene(once, runs(0), condition(corev1.PodReady, corev1.ConditionFalse, "", "")), runLimit, unknown, v1alpha1.ToolCallReasonNodeLost, true, false, true, "stopped reporting"},
		"deleted and never heard of again":   {scene(once, runs(0), deleted(2*time.Second)), 32 * time.Second, unknown, v1alpha1.ToolCallReasonNodeLost, true, false, false, "its node has not confirmed its end"},
		"deleted, waiting, never heard of":   {scene(once, deleted(2*time.Second)), 32 * time.Second, unknown, v1alpha1.ToolCallReasonNodeLost, false, false, false, ""},
		"deleted, never heard of, pure":      {scene(pure, deleted(2*time.Second)), 32 * time.Second, failed, v1alpha1.ToolCallReasonNodeLost, false, true, false, ""},

		// A second start.
		"another pod":         {scene(once, func(f *fixture) { f.call.PodUID = "pod-0" }), 0, unknown, v1alpha1.ToolCallReasonSecondStart, false, false, false, "a pod other than"},
		"a restart":           {scene(once, runs(0), restartedOnce), 0, unknown, v1alpha1.ToolCallReasonSecondStart, true, false, false, "second time"},
		"a restart that ends": {scene(once, reports("Completed", success), restartedOnce), 0, unknown, v1alpha1.ToolCallReasonSecondStart, true, false, false, "second time"},

		// Nothing left to look at.
		"the recorded pod is gone":                 {scene(once, noPod), 0, unknown, v1alpha1.ToolCallReasonPodGone, false, false, false, "no longer exists"},
		"the recorded pod is gone and resuspended": {scene(once, noPod, suspend), 0, unknown, v1alpha1.ToolCallReasonPodGone, false, false, false, ""},
		"the pod of a Job that ended is gone":      {scene(pure, noPod, jobFailed), 0, failed, v1alpha1.ToolCallReasonPodGone, false, true, false, ""},
		"a gated pod is gone":                      {scene(once, noPod, notRecorded, jobFailed), 0, notExecuted, v1alpha1.ToolCallReasonPodGone, false, false, false, "before it was released"},
		"everything is gone":                       {scene(once, noPod, noJob), 0, unknown, v1alpha1.ToolCallReasonJobGone, false, false, false, ""},
		"everything is gone, pure":                 {scene(pure, noPod, noJob), 0, failed, v1alpha1.ToolCallReasonJobGone, false, true, false, ""},
		"everything is gone before the release":    {scene(once, noPod, noJob, notRecorded), 0, notExecuted, v1alpha1.ToolCallReasonJobGone, false, false, false, "before its pod was released"},
	}
}

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
				t.Errorf("started %v, retryable %v, stop %v; want %v, %v, %v", got.Started, got.Retryable, seen.Stop, c.started, c.retryable, c.stop)
			}
			if (got.Error == "") != (c.state == v1alpha1.ToolCallStateSucceeded) || !strings.Contains(got.Error, c.says) {
				t.Errorf("the error is %q, want %q in it", got.Error, c.says)
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
		if got.Retryable && AtMostOnce(c.scene.call) {
			t.Errorf("%s: a call that must not start twice is retryable", name)
		}
		if got.Retryable && (got.Reason == v1alpha1.ToolCallReasonExitCode || got.Reason == v1alpha1.ToolCallReasonTimeout || got.Reason == v1alpha1.ToolCallReasonOOMKilled) {
			t.Errorf("%s: %s is retryable", name, got.Reason)
		}
		if got.State == v1alpha1.ToolCallStateUnknown && !AtMostOnce(c.scene.call) {
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
		v1alpha1.ToolCallReasonCompleted, v1alpha1.ToolCallReasonExitCode, v1alpha1.ToolCallReasonTimeout, v1alpha1.ToolCallReasonStartTimeout, v1alpha1.ToolCallReasonStartError, v1alpha1.ToolCallReasonImagePull, v1alpha1.ToolCallReasonUnschedulable,
		v1alpha1.ToolCallReasonNoPod, v1alpha1.ToolCallReasonOOMKilled, v1alpha1.ToolCallReasonDisruption, v1alpha1.ToolCallReasonKilled, v1alpha1.ToolCallReasonNodeLost, v1alpha1.ToolCallReasonOutputLost, v1alpha1.ToolCallReasonSecondStart, v1alpha1.ToolCallReasonPodGone, v1alpha1.ToolCallReasonJobGone,
	} {
		if !seen[reason] {
			t.Errorf("nothing ends with %s", reason)
		}
	}
}

// stage is what a call that has not ended is expected to be.
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
		"no pod yet":                         {scene(pure, noPod), startTimeout - 1, PhasePending, v1alpha1.ToolCallReasonStarting, startTimeout, false, false},
		"no pod yet to be recorded":          {scene(once, noPod, notRecorded), 0, PhasePending, v1alpha1.ToolCallReasonStarting, startTimeout, false, false},
		"starting":                           {scene(once), startTimeout - 1, PhasePending, v1alpha1.ToolCallReasonStarting, startTimeout, false, false},
		"the image is not there yet":         {scene(pure, waiting("ErrImagePull", "")), time.Second, PhasePending, v1alpha1.ToolCallReasonImagePull, startTimeout, false, false},
		"no node yet":                        {scene(once, unbound), time.Second, PhasePending, v1alpha1.ToolCallReasonUnschedulable, startTimeout, false, false},
		"running":                            {scene(once, runs(time.Minute)), 90 * time.Second, PhaseRunning, "", time.Minute + runLimit, false, false},
		"running to the last moment":         {scene(once, runs(0)), runLimit - 1, PhaseRunning, "", runLimit, false, false},
		"running long after its start":       {scene(pure, runs(time.Hour)), time.Hour, PhaseRunning, "", time.Hour + runLimit, false, false},
		"running and resuspended":            {scene(once, runs(0), suspend), time.Second, PhaseRunning, "", runLimit, false, false},
		"running and deleted":                {scene(once, runs(0), deleted(2*time.Second)), time.Second, PhaseRunning, "", 32 * time.Second, false, false},
		"running, deleted, about to end":     {scene(once, runs(0), deleted(time.Hour)), time.Second, PhaseRunning, "", runLimit, false, false},
		"starting and deleted":               {scene(once, deleted(2*time.Second)), time.Second, PhasePending, v1alpha1.ToolCallReasonStarting, 32 * time.Second, false, false},
		"gated":                              {scene(once, gatedPod), 0, PhasePending, v1alpha1.ToolCallReasonGated, 0, true, false},
		"gated for long":                     {scene(once, gatedPod), time.Hour, PhasePending, v1alpha1.ToolCallReasonGated, 0, true, false},
		"gated and recorded":                 {scene(once, gatedPod, recorded), time.Hour, PhasePending, v1alpha1.ToolCallReasonGated, 0, true, false},
		"just released after long":           {scene(once, unbound, released(time.Hour)), time.Hour, PhasePending, v1alpha1.ToolCallReasonUnschedulable, time.Hour + startTimeout, false, false},
		"released in the future":             {scene(once, released(10*time.Hour)), time.Second, PhasePending, v1alpha1.ToolCallReasonStarting, startTimeout, false, false},
		"released by a clock ahead":          {scene(once, released(10*time.Second)), time.Second, PhasePending, v1alpha1.ToolCallReasonStarting, 10*time.Second + startTimeout, false, false},
		"suspended":                          {scene(pure, noPod, suspend), time.Hour, PhasePending, v1alpha1.ToolCallReasonSuspended, 0, false, false},
		"suspended before the record":        {scene(once, noPod, notRecorded, suspend), time.Hour, PhasePending, v1alpha1.ToolCallReasonSuspended, 0, false, false},
		"suspended, its pod goes unrecorded": {scene(once, gatedPod, suspend, deleted(0)), time.Hour, PhasePending, v1alpha1.ToolCallReasonSuspended, 0, false, false},
		"suspended with a pod":               {scene(once, suspend), time.Hour, PhasePending, v1alpha1.ToolCallReasonSuspended, 0, false, false},
		"resumed a moment ago":               {scene(pure, noPod, resumed(time.Hour)), time.Hour, PhasePending, v1alpha1.ToolCallReasonStarting, time.Hour + startTimeout, false, false},
		"resumed, and nobody noticed":        {scene(pure, noPod, resumed(0), unnoticed), time.Hour, PhasePending, v1alpha1.ToolCallReasonSuspended, 0, false, false},
		"suspended, its pod is stopped":      {scene(pure, suspend, reports("Error", result.Report{Outcome: result.Terminated, Exit: 143, Started: true})), 0, PhasePending, v1alpha1.ToolCallReasonSuspended, 0, false, false},
		"suspended, its pod is gone":         {scene(pure, suspend, noPod, jobFailed), 0, PhasePending, v1alpha1.ToolCallReasonSuspended, 0, false, false},
		"not started in time":                {scene(once), startTimeout, PhasePending, v1alpha1.ToolCallReasonStarting, startTimeout + DeletionMargin, false, true},
		"not scheduled in time":              {scene(once, unbound), startTimeout, PhasePending, v1alpha1.ToolCallReasonUnschedulable, startTimeout + DeletionMargin, false, true},
		"not pulled in time":                 {scene(once, waiting("ImagePullBackOff", "")), startTimeout, PhasePending, v1alpha1.ToolCallReasonImagePull, startTimeout + DeletionMargin, false, true},
		"hopeless":                           {scene(once, waiting("InvalidImageName", "")), 0, PhasePending, v1alpha1.ToolCallReasonImagePull, DeletionMargin, false, true},
		"released by others, not in time":    {scene(once, notRecorded), startTimeout, PhasePending, v1alpha1.ToolCallReasonStarting, startTimeout + DeletionMargin, false, true},
		"a Job that was made long before":    {scene(once, func(f *fixture) { f.job.Status.StartTime = ptr.To(at(time.Hour)) }), time.Hour, PhasePending, v1alpha1.ToolCallReasonStarting, time.Hour + startTimeout, false, false},
		"a pod without its Job":              {scene(once, noJob), time.Second, PhasePending, v1alpha1.ToolCallReasonStarting, startTimeout, false, false},
		"a pure tool's restart that waits":   {scene(pure, restartedOnce), time.Second, PhasePending, v1alpha1.ToolCallReasonStarting, startTimeout, false, false},
	}
}

// unnoticed is a Job that was let go and whose controller has not said so yet.
func unnoticed(f *fixture) {
	f.job.Status.StartTime = nil
	f.job.Status.Conditions[0].Status = corev1.ConditionTrue
}

func TestACallThatHasNotEndedTellsWhenToLookAgain(t *testing.T) {
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
			state := map[Phase]v1alpha1.ToolCallState{PhasePending: v1alpha1.ToolCallStatePending, PhaseRunning: v1alpha1.ToolCallStateRunning}[c.phase]
			if seen.Outcome.State != state || seen.Outcome.Started != (c.phase == PhaseRunning) || seen.Outcome.Error != "" || seen.Outcome.Retryable {
				t.Errorf("the outcome is %+v", seen.Outcome)
			}
		})
	}
}

func TestAnObstacleIsNamedBeforeThePodHasToGo(t *testing.T) {
	for name, c := range map[string]struct {
		scene  *fixture
		after  time.Duration
		reason string
		says   string
	}{
		"an image that cannot be pulled":   {scene(once, waiting("ImagePullBackOff", "no such host")), startTimeout, v1alpha1.ToolCallReasonImagePull, "(ImagePullBackOff): no such host"},
		"an image that must not be pulled": {scene(once, waiting("ErrImageNeverPull", "")), 0, v1alpha1.ToolCallReasonImagePull, "(ErrImageNeverPull)"},
		"no room on any node":              {scene(once, unbound), startTimeout, v1alpha1.ToolCallReasonUnschedulable, "Insufficient memory"},
		"nothing to be seen":               {scene(once), startTimeout, v1alpha1.ToolCallReasonStartTimeout, "its container did not start"},
	} {
		seen := c.scene.observe(c.after)
		if seen.Phase != PhasePending || !seen.Stop || seen.GaveUp == nil {
			t.Errorf("%s: phase %s, stop %v, gave up with %v", name, seen.Phase, seen.Stop, seen.GaveUp)
			continue
		}
		if got := seen.GaveUp; got.State != v1alpha1.ToolCallStateNotExecuted || got.Reason != c.reason || got.Started || !strings.Contains(got.Error, c.says) {
			t.Errorf("%s: gave up with %s %s, %q", name, got.State, got.Reason, got.Error)
		}
	}
	for name, f := range map[string]*fixture{"there is time": scene(once), "the call is decided": scene(pure)} {
		if seen := f.observe(startTimeout - time.Second); seen.GaveUp != nil {
			t.Errorf("%s: gave up with %v", name, seen.GaveUp)
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
			t.Errorf("%s: what was observed has changed, or a second look gives something else", name)
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
	got := scene(once, reports("Completed", result.Report{Outcome: result.Exited, Started: true})).observe(time.Minute).Outcome
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
	text, err := ReadResult(strings.NewReader("stderr of the tool"+string(frame)), TerminationMessage(f.pod))
	if err != nil || text != large.Result {
		t.Errorf("the log gives %d bytes, %v", len(text), err)
	}
}
