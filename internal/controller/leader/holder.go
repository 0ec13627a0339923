package leader

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Process identifies one process of the manager: the pod that it runs in, and a unique value.
type Process struct {
	Pod types.NamespacedName
	UID types.UID
	// Nonce distinguishes the processes of one pod, of which only the newest can be running.
	Nonce string
}

// separator is part of no pod's name, UID or nonce.
const separator = "_"

// identity is the holder identity of a process in the Lease.
func (p Process) identity() string {
	return strings.Join([]string{p.Pod.Name, string(p.UID), p.Nonce}, separator)
}

// parseIdentity reads the holder of a Lease in the namespace. It reports whether the identity has this package's
// format.
func parseIdentity(namespace, identity string) (Process, bool) {
	fields := strings.Split(identity, separator)
	if len(fields) != 3 || slices.Contains(fields, "") {
		return Process{}, false
	}
	pod := types.NamespacedName{Namespace: namespace, Name: fields[0]}
	return Process{Pod: pod, UID: types.UID(fields[1]), Nonce: fields[2]}, true
}

// replacedBy reports whether self runs in the pod of p as a later process: the kubelet starts a container again only
// after its end.
func (p Process) replacedBy(self Process) bool {
	return p.Pod == self.Pod && p.UID == self.UID && p.Nonce != self.Nonce
}

// ended reports whether p is known to have ended, given its pod in the API server (nil: not found) and the time at
// which p acquired the Lease. Both times in it are of the pod's own node, so that clocks of different nodes do not
// matter.
func (p Process) ended(pod *corev1.Pod, container string, acquired time.Time) bool {
	if pod == nil || pod.UID != p.UID {
		return true
	}
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return true
	}
	i := slices.IndexFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == container })
	if i < 0 {
		return false
	}
	status := pod.Status.ContainerStatuses[i]
	switch {
	case status.State.Running != nil:
		return status.State.Running.StartedAt.After(acquired)
	case status.State.Terminated != nil:
		return endedAfter(status.State.Terminated, acquired)
	default:
		return endedAfter(status.LastTerminationState.Terminated, acquired)
	}
}

// endedAfter reports whether a container ended after the Lease was acquired. One that ended before is not the holder:
// the next container of the pod may hold the Lease before the kubelet reports that it runs.
func endedAfter(state *corev1.ContainerStateTerminated, acquired time.Time) bool {
	return state != nil && state.FinishedAt.After(acquired)
}
