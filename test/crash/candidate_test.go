package crash_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/controller/leader"
)

// candidate is a process that stands for election.
type candidate struct {
	*process
	election *election
	name     string
	pod      *corev1.Pod
	// life is that of the process as it runs now, and end ends it.
	life context.Context
	end  context.CancelFunc
	// gone reports whether the process has ended, and successor is closed once another one leads.
	gone      bool
	successor chan struct{}
	// usurped reports whether the pod was deleted while the process runs, and pods counts those that it had.
	usurped bool
	pods    int
}

// createPod makes the pod that the process runs in, as the kubelet would.
func (c *candidate) createPod(ctx context.Context) error {
	c.pods++
	c.pod = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.election.namespace, Name: fmt.Sprintf("%s-%d", c.name, c.pods)},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: managerContainer, Image: "capstan.dev/manager:test"}},
		},
	}
	if err := user.Create(ctx, c.pod); err != nil {
		return err
	}
	c.pod.Status.Phase = corev1.PodRunning
	return c.contain(ctx, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: c.now()}})
}

// contain shows a state of the pod's container.
func (c *candidate) contain(ctx context.Context, state corev1.ContainerState) error {
	c.pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: managerContainer, State: state}}
	return user.Status().Update(ctx, c.pod)
}

// now is the time of the process's node.
func (c *candidate) now() metav1.Time { return metav1.NewTime(time.Now().Add(c.ahead)) }

// stand stands for election, and again each time the process has ended: the kubelet starts it again.
func (c *candidate) stand(ctx context.Context) {
	for ctx.Err() == nil {
		if err := c.standOnce(ctx); err != nil {
			c.election.fail(fmt.Errorf("standing for election: %w", err))
			return
		}
	}
}

func (c *candidate) standOnce(ctx context.Context) error {
	life, end := context.WithCancel(ctx)
	defer end()
	self := leader.Process{
		Pod: client.ObjectKeyFromObject(c.pod), UID: c.pod.UID, Nonce: uuid.NewString(),
	}
	connection := rest.CopyConfig(config)
	connection.Wrap(c.wrap)
	lock, err := leader.NewLock(connection, self, managerContainer, func(string) { end() }, logr.Discard())
	if err != nil {
		return err
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          &witness{Interface: lock, ahead: c.ahead, fail: c.election.fail},
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { c.lead(life, end) },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}
	c.election.log.note("%s stands", c.name)
	elector.Run(klog.NewContext(life, logr.Discard()))
	c.election.log.note("%s leads no longer", c.name)
	end()
	return c.leave(ctx, life)
}

// leave ends the process when it leads no longer. It still acts for a moment: one that was paused from when it goes on,
// and one that was usurped from when its request does. The kubelet starts it again: once another process leads, or at
// once if it never knew that it led.
func (c *candidate) leave(ctx, life context.Context) error {
	e, namespace := c.election, c.election.run.namespace
	if released := c.wire.heldBack(namespace); released != nil {
		select {
		case <-released:
		case <-ctx.Done():
			return nil
		}
	}
	select {
	case <-time.After(lastMoment):
	case <-ctx.Done():
		return nil
	}
	c.wire.kill(namespace)
	e.mu.Lock()
	e.log.note("%s has ended", c.name)
	c.gone = true
	led, successor, usurped := c.life == life, c.successor, c.usurped
	e.mu.Unlock()
	if !usurped {
		ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: c.now()}}
		if err := c.contain(ctx, ended); err != nil {
			return ignoreEnd(ctx, err)
		}
	}
	if led {
		select {
		case <-successor:
		case <-ctx.Done():
			return nil
		}
	}
	e.mu.Lock()
	e.log.note("%s is started again", c.name)
	c.gone, c.usurped = false, false
	e.mu.Unlock()
	if usurped {
		return ignoreEnd(ctx, c.createPod(ctx))
	}
	return ignoreEnd(
		ctx,
		c.contain(ctx, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: c.now()}}),
	)
}

// ignoreEnd drops the error of a request that failed because the election is over.
func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// wrap is the connection of the process's election: it fares as the process does.
func (c *candidate) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if released := c.wire.frozen(c.election.run.namespace); released != nil {
			select {
			case <-released:
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		}
		c.election.mu.Lock()
		gone := c.gone
		c.election.mu.Unlock()
		if gone {
			return refused()
		}
		return next.RoundTrip(r)
	})
}
