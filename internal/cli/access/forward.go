package access

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream" //nolint:staticcheck // portforward of client-go takes its types.
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// streamPort is the name of the port of the manager's container.
const streamPort = "stream"

// forward is a local port that is forwarded to the pod of a manager.
type forward struct {
	address string
	ended   chan struct{}
	stop    func()
}

// alive reports whether the port is still forwarded.
func (f *forward) alive() bool {
	select {
	case <-f.ended:
		return false
	default:
		return true
	}
}

// startForward forwards a free local port to a manager that is ready. Any of them passes connections on to the leader.
func startForward(ctx context.Context, c *Cluster, namespace string) (*forward, error) {
	pod, port, err := managerPod(ctx, c, namespace)
	if err != nil {
		return nil, err
	}
	dialer, err := podDialer(c.Config, pod)
	if err != nil {
		return nil, err
	}
	stop, ready := make(chan struct{}), make(chan struct{})
	ports := []string{fmt.Sprintf("0:%d", port)}
	forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, ports, stop, ready, io.Discard, io.Discard)
	if err != nil {
		return nil, fmt.Errorf("forwarding a port to pod %s: %w", pod.Name, err)
	}
	f := &forward{ended: make(chan struct{}), stop: sync.OnceFunc(func() { close(stop) })}
	failed := make(chan error, 1)
	go func() {
		defer close(f.ended)
		failed <- forwarder.ForwardPorts()
	}()
	select {
	case <-ready:
	case err := <-failed:
		return nil, fmt.Errorf("forwarding a port to pod %s: %w", pod.Name, err)
	case <-ctx.Done():
		f.stop()
		return nil, ctx.Err()
	}
	local, err := forwarder.GetPorts()
	if err != nil || len(local) != 1 {
		f.stop()
		return nil, fmt.Errorf("forwarding a port to pod %s: %w", pod.Name, err)
	}
	f.address = fmt.Sprintf("127.0.0.1:%d", local[0].Local)
	return f, nil
}

// managerPod returns a pod of the manager that is ready, and its port for streams.
func managerPod(ctx context.Context, c *Cluster, namespace string) (*corev1.Pod, int32, error) {
	var pods corev1.PodList
	err := c.List(ctx, &pods, client.InNamespace(namespace),
		client.MatchingLabels{"app.kubernetes.io/name": "capstan", "app.kubernetes.io/component": "manager"})
	if err != nil {
		return nil, 0, fmt.Errorf("finding the manager: %w", err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
			continue
		}
		for _, container := range pod.Spec.Containers {
			for _, port := range container.Ports {
				if port.Name == streamPort {
					return pod, port.ContainerPort, nil
				}
			}
		}
	}
	return nil, 0, errors.New("finding the manager: no pod of it serves event streams")
}

// podDialer connects to the port-forward of a pod, by WebSockets or, at an API server without them, by SPDY.
func podDialer(config *rest.Config, pod *corev1.Pod) (httpstream.Dialer, error) {
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the API server: %w", err)
	}
	at := base.JoinPath("api", "v1", "namespaces", pod.Namespace, "pods", pod.Name, "portforward")
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, fmt.Errorf("preparing the forwarding of a port: %w", err)
	}
	older := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, &url.URL{
		Scheme: at.Scheme, Host: at.Host, Path: at.Path,
	})
	newer, err := portforward.NewSPDYOverWebsocketDialer(at, config)
	if err != nil {
		return nil, fmt.Errorf("preparing the forwarding of a port: %w", err)
	}
	return portforward.NewFallbackDialer(newer, older, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}
