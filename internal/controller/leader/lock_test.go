package leader

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// heldBy is the Lease of the election, held by a process, just renewed.
func heldBy(holder string) *coordinationv1.Lease {
	now := metav1.NewMicroTime(time.Now())
	seconds := int32(LeaseDuration / time.Second)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "capstan-system", Name: LeaseName},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now,
		},
	}
}

func managerPod(name, uid string, state corev1.ContainerState) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "capstan-system", Name: name, UID: process(name, uid, "").UID},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "manager", State: state}},
		},
	}
}

// leads reports whether a process becomes the leader within the time.
func leads(t *testing.T, clients *fake.Clientset, self Process, within time.Duration) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	led := false
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          newLock(clients, self, "manager", func(string) {}, logr.Discard()),
		LeaseDuration: LeaseDuration, RenewDeadline: RenewDeadline, RetryPeriod: 10 * time.Millisecond,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {},
			OnStoppedLeading: func() {},
			OnNewLeader: func(identity string) {
				if identity == self.identity() {
					led = true
					cancel()
				}
			},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	elector.Run(ctx)
	return led
}

func TestALeaseWhoseHolderHasEndedIsAcquiredAtOnce(t *testing.T) {
	earlier := corev1.ContainerState{
		Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Now().Add(-time.Hour))},
	}
	later := corev1.ContainerState{
		Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Now().Add(time.Minute))},
	}
	for name, test := range map[string]struct {
		holder Process
		pods   []runtime.Object
		want   bool
	}{
		"its pod was deleted": {process("old", "u0", "a"), nil, true},
		"its pod was made again": {
			process("old", "u0", "a"), []runtime.Object{managerPod("old", "u9", earlier)}, true,
		},
		"its container was started again": {
			process("old", "u0", "a"), []runtime.Object{managerPod("old", "u0", later)}, true,
		},
		"it ran in this pod before": {
			process("new", "u1", "a"), []runtime.Object{managerPod("new", "u1", earlier)}, true,
		},
		"it runs": {
			process("old", "u0", "a"), []runtime.Object{managerPod("old", "u0", earlier)}, false,
		},
		"it is a manager without a pod name": {Process{}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			identity := test.holder.identity()
			if test.holder == (Process{}) {
				identity = "laptop_2f0c"
			}
			clients := fake.NewClientset(append(test.pods, heldBy(identity))...)
			within := 10 * time.Second
			if !test.want {
				within = 300 * time.Millisecond
			}
			if got := leads(t, clients, process("new", "u1", "b"), within); got != test.want {
				t.Errorf("leads: %v, want %v", got, test.want)
			}
		})
	}
}

func TestALeaseWhoseHolderCannotBeLookedAtIsLeft(t *testing.T) {
	clients := fake.NewClientset(heldBy(process("old", "u0", "a").identity()))
	clients.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("connection refused")
	})
	if leads(t, clients, process("new", "u1", "b"), 300*time.Millisecond) {
		t.Error("it leads beside a manager of which nothing is known")
	}
}

// A leader that was paused beyond its Lease releases on its way out: it still believes to be the leader, and client-go
// reads the Lease only for its resource version.
func TestAFormerLeaderDoesNotReleaseTheLeaseOfItsSuccessor(t *testing.T) {
	former, successor := process("old", "u0", "a"), process("new", "u1", "b")
	clients := fake.NewClientset(heldBy(successor.identity()))
	lock := newLock(clients, former, "manager", func(string) {}, logr.Discard())
	if _, _, err := lock.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := lock.Update(t.Context(), resourcelock.LeaderElectionRecord{LeaseDurationSeconds: 1}); err == nil {
		t.Error("the update succeeded")
	}
	if got := holder(t, clients); got != successor.identity() {
		t.Errorf("the Lease is held by %q, want %q", got, successor.identity())
	}
}

// A pod that was deleted by force is gone for the API server while its process runs.
func TestALeaderLearnsAtOnceThatAnotherHasItsLease(t *testing.T) {
	self, successor := process("old", "u0", "a"), process("new", "u1", "b")
	clients := fake.NewClientset(heldBy(""))
	var lost []string
	mine := newLock(clients, self, "manager", func(holder string) { lost = append(lost, holder) }, logr.Discard())
	acquire := func(l *lock, identity string) {
		t.Helper()
		record, _, err := l.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		record.HolderIdentity = identity
		if err := l.Update(t.Context(), *record); err != nil {
			t.Fatal(err)
		}
	}
	acquire(mine, self.identity())
	acquire(mine, self.identity())
	if len(lost) != 0 {
		t.Fatalf("notified of %q while it holds the Lease", lost)
	}
	acquire(newLock(clients, successor, "manager", func(string) {}, logr.Discard()), successor.identity())
	for range 2 {
		if _, _, err := mine.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(lost) != 1 || lost[0] != successor.identity() {
		t.Errorf("notified of %q, want once of %q", lost, successor.identity())
	}
}

func TestALeaderReleasesItsLease(t *testing.T) {
	self := process("new", "u1", "b")
	for name, before := range map[string]string{
		"held": self.identity(), "acquired from one that ended": process("old", "u0", "a").identity(),
	} {
		t.Run(name, func(t *testing.T) {
			clients := fake.NewClientset(heldBy(before))
			lock := newLock(clients, self, "manager", func(string) {}, logr.Discard())
			record, _, err := lock.Get(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			record.HolderIdentity = self.identity()
			if err := lock.Update(t.Context(), *record); err != nil {
				t.Fatal(err)
			}
			if err := lock.Update(t.Context(), resourcelock.LeaderElectionRecord{LeaseDurationSeconds: 1}); err != nil {
				t.Fatal(err)
			}
			if got := holder(t, clients); got != "" {
				t.Errorf("the Lease is held by %q after its release", got)
			}
		})
	}
}

// holder is the identity in the Lease.
func holder(t *testing.T, clients *fake.Clientset) string {
	t.Helper()
	lease, err := clients.CoordinationV1().Leases("capstan-system").Get(t.Context(), LeaseName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

func TestSelfIsKnownInAPodOnly(t *testing.T) {
	env := map[string]string{"POD_NAME": "one", "POD_NAMESPACE": "capstan-system", "POD_UID": "u1"}
	p, ok := Self(func(name string) string { return env[name] })
	if !ok || p.Pod.Name != "one" || p.Pod.Namespace != "capstan-system" || p.UID != "u1" || p.Nonce == "" {
		t.Errorf("%v, %v", p, ok)
	}
	again, _ := Self(func(name string) string { return env[name] })
	if again.Nonce == p.Nonce {
		t.Error("two processes of a pod have one identity")
	}
	for name := range env {
		if _, ok := Self(func(n string) string {
			if n == name {
				return ""
			}
			return env[n]
		}); ok {
			t.Errorf("without %s it reports that it knows its pod", name)
		}
	}
}
