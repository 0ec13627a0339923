package leader

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const (
	// LeaseName is the name of the Lease, in the manager's namespace.
	LeaseName = "manager.capstan.dev"

	// LeaseDuration is the time after which a Lease that is not renewed is free if its holder's state is unknown,
	// because its node is lost. It is long, so that a loaded API server does not end the leader; there is no wait for a
	// holder that is known to have ended.
	LeaseDuration = 45 * time.Second

	// RenewDeadline is the time within which the leader must renew the Lease; otherwise it exits.
	RenewDeadline = 30 * time.Second

	// RetryPeriod is the pause between two attempts to acquire or renew the Lease.
	RetryPeriod = 2 * time.Second
)

// Self returns this process, as the pod's fields in the environment describe it (POD_NAME, POD_NAMESPACE and POD_UID).
// It reports false outside of a pod.
func Self(getenv func(string) string) (Process, bool) {
	p := Process{
		Pod:   types.NamespacedName{Namespace: getenv("POD_NAMESPACE"), Name: getenv("POD_NAME")},
		UID:   types.UID(getenv("POD_UID")),
		Nonce: uuid.NewString(),
	}
	return p, p.Pod.Name != "" && p.Pod.Namespace != "" && p.UID != ""
}

// NewLock returns the lock of the election for a process that runs in the container of that name. Its client has its
// own rate limit, because renewing must not wait behind other requests. onLost is called once another process holds the
// Lease that this one has held: client-go keeps trying to renew it until RenewDeadline, and this process would act
// beside its successor for that time.
func NewLock(
	config *rest.Config, self Process, container string, onLost func(holder string), log logr.Logger,
) (resourcelock.Interface, error) {
	config = rest.CopyConfig(config)
	config.RateLimiter, config.QPS, config.Burst = nil, 20, 30
	config.Timeout = RenewDeadline / 2
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating the client for leader election: %w", err)
	}
	return newLock(clients, self, container, onLost, log), nil
}

func newLock(clients kubernetes.Interface, self Process, container string, onLost func(string), log logr.Logger) *lock {
	return &lock{
		Interface: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: self.Pod.Namespace, Name: LeaseName},
			Client:     clients.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: self.identity()},
		},
		self: self, container: container, pods: clients.CoreV1(), onLost: onLost, log: log,
	}
}

// lock is a lock on a Lease that shows the Lease as free when its holder has ended.
type lock struct {
	resourcelock.Interface
	self      Process
	container string
	pods      corev1client.PodsGetter
	onLost    func(holder string)
	log       logr.Logger
	// holder is the identity in the Lease as it was last read or written.
	holder string
}

// Get returns the record of the Lease. The following update requires the resource version read here, so that only one
// of two managers that see a free Lease acquires it.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil {
		if l.holder == l.Identity() && record.HolderIdentity != l.holder {
			l.onLost(record.HolderIdentity)
		}
		l.holder = record.HolderIdentity
	}
	if err != nil || record.HolderIdentity == "" || record.HolderIdentity == l.Identity() {
		return record, raw, err
	}
	holder, ok := parseIdentity(l.self.Pod.Namespace, record.HolderIdentity)
	if !ok {
		return record, raw, nil
	}
	gone, err := l.gone(ctx, holder, record.AcquireTime.Time)
	if err != nil {
		// Unknown: the Lease has to expire.
		l.log.Error(err, "Failed to check the holder of the Lease", "holder", record.HolderIdentity)
		return record, raw, nil
	}
	if gone {
		l.log.Info("Holder of the Lease has ended; taking over", "holder", record.HolderIdentity)
		record.HolderIdentity = ""
	}
	return record, raw, nil
}

// Create creates the Lease.
func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := l.Interface.Create(ctx, record); err != nil {
		return err
	}
	l.holder = record.HolderIdentity
	return nil
}

// Update writes the Lease. A release by a process that no longer holds the Lease is an error: client-go releases by its
// last known state, and a leader that was paused for longer than its Lease would release that of its successor.
func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" && l.holder != l.Identity() {
		return fmt.Errorf("releasing Lease %s: it is held by %q", l.Describe(), l.holder)
	}
	if err := l.Interface.Update(ctx, record); err != nil {
		return err
	}
	l.holder = record.HolderIdentity
	return nil
}

// gone reports whether the holder is known to have ended.
func (l *lock) gone(ctx context.Context, holder Process, acquired time.Time) (bool, error) {
	if holder.replacedBy(l.self) {
		return true, nil
	}
	pod, err := l.pods.Pods(holder.Pod.Namespace).Get(ctx, holder.Pod.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return holder.ended(nil, l.container, acquired), nil
	}
	if err != nil {
		return false, fmt.Errorf("reading Pod %s: %w", holder.Pod, err)
	}
	return holder.ended(pod, l.container, acquired), nil
}

var _ resourcelock.Interface = (*lock)(nil)
