package streamclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

const (
	// managers selects the pods of the manager, of which any answers.
	managers = "app.kubernetes.io/name=capstan,app.kubernetes.io/component=manager"
	// portName is the name of the port in the pods, and defaultPort its number where it has no name.
	portName    = "stream"
	defaultPort = 9443
)

// forwarding is a local port that is forwarded to a pod of the manager.
type forwarding struct {
	address string
	ended   chan struct{}
}

// forwards share one forwarded port between the connections that use it at the same time.
type forwards struct {
	mu      sync.Mutex
	current *shared
}

// shared is a forwarding with the number of contexts that use it. It ends with the last of them.
type shared struct {
	*forwarding
	users int
	stop  context.CancelFunc
}

// use returns the address of the port that is forwarded already, or else of the one that begin forwards until its
// context ends. It is forwarded at least until ctx ends.
func (f *forwards) use(
	ctx context.Context, begin func(ctx context.Context) (*forwarding, error),
) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current == nil || f.current.over() {
		// The context of the first user would cut the connections of all others.
		lasting, stop := context.WithCancel(context.WithoutCancel(ctx))
		abandoned := context.AfterFunc(ctx, stop)
		begun, err := begin(lasting)
		if !abandoned() && err == nil {
			err = ctx.Err()
		}
		if err != nil {
			stop()
			return "", err
		}
		f.current = &shared{forwarding: begun, stop: stop}
	}
	used := f.current
	used.users++
	context.AfterFunc(ctx, func() { f.leave(used) })
	return used.address, nil
}

// leave ends a forwarding that has no more users.
func (f *forwards) leave(used *shared) {
	f.mu.Lock()
	defer f.mu.Unlock()
	used.users--
	if used.users > 0 {
		return
	}
	used.stop()
	if f.current == used {
		f.current = nil
	}
}

// over reports whether the port is not forwarded any more.
func (s *shared) over() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// begin forwards a local port to a pod of the manager that is ready, until the context ends. Any of them passes
// connections on to the leader. The error is an *UnreachableError if the user may not do that.
func (d *discovered) begin(ctx context.Context) (*forwarding, error) {
	if err := d.mayForward(ctx); err != nil {
		return nil, err
	}
	pods, err := d.clients.CoreV1().Pods(d.namespace).List(ctx, metav1.ListOptions{LabelSelector: managers})
	if apierrors.IsForbidden(err) {
		return nil, &UnreachableError{err}
	}
	if err != nil {
		return nil, fmt.Errorf("listing the pods of the manager: %w", err)
	}
	ready := slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return !isReady(pod) })
	if len(ready) == 0 {
		return nil, errors.New("no pod of the manager is ready")
	}
	pod := ready[rand.N(len(ready))]
	dialer, err := d.dialer(pod)
	if err != nil {
		return nil, err
	}
	begun, failed := make(chan struct{}), make(chan error, 1)
	f := &forwarding{ended: make(chan struct{})}
	forwarder, err := portforward.NewOnAddressesForStreamingWithContext(
		ctx, dialer, []string{"127.0.0.1"}, []string{"0:" + strconv.Itoa(portOf(pod))}, begun, io.Discard, io.Discard,
	)
	if err != nil {
		return nil, fmt.Errorf("preparing to forward a port to pod %s: %w", pod.Name, err)
	}
	go func() {
		defer close(f.ended)
		failed <- forwarder.ForwardPorts()
	}()
	select {
	case <-begun:
	case err := <-failed:
		return nil, fmt.Errorf("forwarding a port to pod %s: %w", pod.Name, err)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		return nil, fmt.Errorf("forwarding a port to pod %s: %w", pod.Name, err)
	}
	f.address = "127.0.0.1:" + strconv.Itoa(int(ports[0].Local))
	return f, nil
}

// mayForward returns an *UnreachableError if the user may not forward ports to the manager.
func (d *discovered) mayForward(ctx context.Context) error {
	review, err := d.clients.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx,
		&authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: d.namespace, Verb: "create", Resource: "pods", Subresource: "portforward",
			},
		}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("asking whether a port may be forwarded: %w", err)
	}
	if !review.Status.Allowed {
		return &UnreachableError{fmt.Errorf("the manager publishes no address, and the user may not forward a port to it "+
			"(create on pods/portforward in the namespace %s)", d.namespace)}
	}
	return nil
}

// dialer connects to a pod over a WebSocket, and over SPDY where the API server does not know that.
func (d *discovered) dialer(pod corev1.Pod) (httpstream.Dialer, error) {
	url := d.clients.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).
		SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(d.config)
	if err != nil {
		return nil, fmt.Errorf("preparing to forward a port: %w", err)
	}
	older := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	newer, err := portforward.NewSPDYOverWebsocketDialerForStreaming(url, d.config)
	if err != nil {
		return nil, fmt.Errorf("preparing to forward a port: %w", err)
	}
	return portforward.NewFallbackDialerForStreaming(newer, older, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}

// isReady reports whether connections to a pod are answered.
func isReady(pod corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// portOf is the port of event streams in a pod.
func portOf(pod corev1.Pod) int {
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			if port.Name == portName {
				return int(port.ContainerPort)
			}
		}
	}
	return defaultPort
}
