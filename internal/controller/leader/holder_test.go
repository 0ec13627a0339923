package leader

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var acquired = time.Date(2026, 5, 1, 12, 0, 10, 500_000_000, time.UTC)

func process(pod, uid, nonce string) Process {
	return Process{Pod: types.NamespacedName{Namespace: "capstan-system", Name: pod}, UID: types.UID(uid), Nonce: nonce}
}

// podWith is the holder's pod with one status of the manager's container.
func podWith(status corev1.ContainerStatus) *corev1.Pod {
	status.Name = "manager"
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "one", UID: "u1"}}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "sidecar"}, status}
	return pod
}

// after is a time so many seconds after the Lease was acquired, in whole seconds as the kubelet writes it.
func after(seconds int) metav1.Time {
	return metav1.NewTime(acquired.Add(time.Duration(seconds) * time.Second).Truncate(time.Second))
}

func running(since metav1.Time) corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: since}}
}

func terminated(at metav1.Time) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: at}}
}

func TestEnded(t *testing.T) {
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	replaced, finished := podWith(corev1.ContainerStatus{State: running(after(-5))}), podWith(corev1.ContainerStatus{})
	replaced.UID, finished.Status.Phase = "u2", corev1.PodFailed
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"the pod was deleted":               {nil, true},
		"the pod was replaced":              {replaced, true},
		"the pod has finished":              {finished, true},
		"nothing is known of the container": {podWith(corev1.ContainerStatus{}), false},
		"the container runs since before":   {podWith(corev1.ContainerStatus{State: running(after(-5))}), false},
		"it started in the same second":     {podWith(corev1.ContainerStatus{State: running(after(0))}), false},
		"the container runs since after":    {podWith(corev1.ContainerStatus{State: running(after(3))}), true},
		"the container has ended":           {podWith(corev1.ContainerStatus{State: terminated(after(3))}), true},
		"the container before it has ended": {podWith(corev1.ContainerStatus{State: terminated(after(-3))}), false},
		"it waits to be started again": {
			podWith(corev1.ContainerStatus{State: waiting, LastTerminationState: terminated(after(3))}), true,
		},
		"it waited, in the kubelet's last report": {
			podWith(corev1.ContainerStatus{State: waiting, LastTerminationState: terminated(after(-3))}), false,
		},
		"it waits to be started the first time":  {podWith(corev1.ContainerStatus{State: waiting}), false},
		"only another container of it has ended": {podWith(corev1.ContainerStatus{State: running(after(-1))}), false},
	} {
		t.Run(name, func(t *testing.T) {
			if test.pod != nil {
				test.pod.Status.ContainerStatuses[0].State = terminated(after(3))
			}
			if got := process("one", "u1", "n").ended(test.pod, "manager", acquired); got != test.want {
				t.Errorf("ended is %v, want %v", got, test.want)
			}
		})
	}
}

func TestReplacedBy(t *testing.T) {
	holder := process("one", "u1", "first")
	for _, test := range []struct {
		self Process
		want bool
	}{
		{process("one", "u1", "second"), true},
		{process("one", "u1", "first"), false},
		{process("one", "u2", "second"), false},
		{process("two", "u1", "second"), false},
	} {
		if got := holder.replacedBy(test.self); got != test.want {
			t.Errorf("replaced by %v: %v, want %v", test.self, got, test.want)
		}
	}
}

func TestIdentity(t *testing.T) {
	p := process("capstan-manager-5d8f-x2", "0b1d-4f", "77aa")
	if got, ok := parseIdentity("capstan-system", p.identity()); !ok || got != p {
		t.Errorf("read %v, %v; want %v", got, ok, p)
	}
	for _, identity := range []string{
		"", "pod", "pod_5f0e", "pod__nonce", "_uid_nonce", "pod_uid_", "pod_uid_nonce_more",
	} {
		if _, ok := parseIdentity("capstan-system", identity); ok {
			t.Errorf("%q is read as one of ours", identity)
		}
	}
}
