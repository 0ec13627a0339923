package capstantest

import "slices"

// Fault is a disruption of a tool call by the cluster. For the behaviour of the tool itself, use Options.Jobs. The kit
// writes the statuses that scheduler, kubelet and Job controller would write.
//
// For a call with a fault the function Options.Jobs is not called, except with OutputLost.
type Fault string

// Faults before there is a pod.
const (
	// JobRefused: an admission policy does not accept the Job. The call is NotExecuted, Refused.
	JobRefused Fault = "JobRefused"
	// JobSuspended: the Job is suspended, as by Kueue, until the fault is removed. The call stays Pending, Suspended;
	// no timeout runs.
	JobSuspended Fault = "JobSuspended"
	// PodRefused: the Job gets no pod, because a quota is exhausted. After the start timeout the call is NotExecuted,
	// QuotaExceeded.
	PodRefused Fault = "PodRefused"
)

// Faults between the pod and the start of its container.
const (
	// Unschedulable: no node has room. After the start timeout the call is NotExecuted, Unschedulable.
	Unschedulable Fault = "Unschedulable"
	// PodDeletedBeforeStart: the pod is deleted before it has a node. The call is NotExecuted, Disruption; one that may
	// start again is retried.
	PodDeletedBeforeStart Fault = "PodDeletedBeforeStart"
	// ImagePullBackOff: the image cannot be pulled. After the start timeout the call is NotExecuted, ImagePull.
	ImagePullBackOff Fault = "ImagePullBackOff"
	// NeverStarts: the container stays in ContainerCreating. After the start timeout the call is NotExecuted,
	// StartTimeout.
	NeverStarts Fault = "NeverStarts"
	// StartError: the container runtime cannot start the container. The call is NotExecuted, StartError.
	StartError Fault = "StartError"
)

// Faults while the container runs. After one of the last six the effect of the tool is unknown: a call of an AtMostOnce
// tool is Unknown; any other is retried after a pause, which a Clock can skip, and Failed if that does not help.
const (
	// Hangs: the tool does not end by itself. After its timeout the call is Failed, Timeout.
	Hangs Fault = "Hangs"
	// TimedOut: the same, and its timeout has already passed.
	TimedOut Fault = "TimedOut"
	// OOMKilled: the tool exceeds its memory limit. The call is Failed, OOMKilled.
	OOMKilled Fault = "OOMKilled"
	// OutputLost: the tool runs to its end, and its output is lost. The call is Failed, OutputLost.
	OutputLost Fault = "OutputLost"
	// Killed: the container is killed from outside, by an unknown party. The reason is Killed.
	Killed Fault = "Killed"
	// PodDeleted: the pod is deleted. The reason is Disruption.
	PodDeleted Fault = "PodDeleted"
	// Evicted: the pod is evicted, as when its node is drained. The reason is Disruption.
	Evicted Fault = "Evicted"
	// NodeLost: the node is removed from the cluster. The reason is NodeLost.
	NodeLost Fault = "NodeLost"
	// NodeSilent: the node stops responding, and the pod is deleted. Half a minute later the reason is NodeLost.
	NodeSilent Fault = "NodeSilent"
	// JobDeleted: the Job is deleted. The reason is JobGone.
	JobDeleted Fault = "JobDeleted"
)

// Match reports whether a fault applies to a call.
type Match func(Call) bool

// ForTool matches the calls of the Tool of this name.
func ForTool(name string) Match {
	return func(call Call) bool { return call.Tool == name }
}

// InNamespace matches the calls of the Turns of a namespace.
func InNamespace(name string) Match {
	return func(call Call) bool { return call.Namespace == name }
}

// OnAttempt matches the calls that are started for the nth time, from 1.
func OnAttempt(n int) Match {
	return func(call Call) bool { return call.Attempt == n }
}

// injection is a fault and the calls that it is for.
type injection struct {
	fault   Fault
	matches []Match
}

// Inject injects a fault into every tool call that all the given functions match, from its next step on; without any,
// into every call. Of several faults the one that was injected first counts. heal removes the fault: calls that it
// holds back continue.
func (k *Kit) Inject(fault Fault, matches ...Match) (heal func()) {
	return k.player.inject(&injection{fault: fault, matches: matches})
}

func (p *player) inject(i *injection) (heal func()) {
	p.mu.Lock()
	p.injections = append(p.injections, i)
	p.mu.Unlock()
	p.enqueueJobs()
	return func() {
		p.mu.Lock()
		p.injections = slices.DeleteFunc(p.injections, func(other *injection) bool { return other == i })
		p.mu.Unlock()
		p.enqueueJobs()
	}
}

// faultOf is the fault of a call; empty for none.
func (p *player) faultOf(call Call) Fault {
	p.mu.Lock()
	injections := slices.Clone(p.injections)
	p.mu.Unlock()
	for _, i := range injections {
		if !slices.ContainsFunc(i.matches, func(match Match) bool { return !match(call) }) {
			return i.fault
		}
	}
	return ""
}
