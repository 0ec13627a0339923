package access

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/internal/streamclient"
)

// The ConfigMap by which the manager tells where its event stream is, and what verifies it.
const (
	streamName    = "capstan-stream"
	streamAddress = "address"
	streamCA      = "ca.crt"
)

// Streams returns a follower of the event streams of the manager in a namespace. Close ends its connections.
func (c *Cluster) Streams(managers string) (follower stream.Follower, closeAll func()) {
	e := &endpoints{cluster: c, namespace: managers}
	return &streamclient.Client{Endpoints: e}, e.close
}

// endpoints finds the event stream of a manager. It implements streamclient.Endpoints.
type endpoints struct {
	cluster   *Cluster
	namespace string

	mu      sync.Mutex
	forward *forward
}

// Endpoint implements streamclient.Endpoints. Without an address of its own, the manager is reached by a port that is
// forwarded through the API server, where the user may do that.
func (e *endpoints) Endpoint(ctx context.Context) (streamclient.Endpoint, error) {
	published := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: e.namespace, Name: streamName}
	if err := e.cluster.Get(ctx, key, published); err != nil {
		return streamclient.Endpoint{}, &streamclient.UnreachableError{
			Err: fmt.Errorf("reading where it is: %w", err),
		}
	}
	address, dial := published.Data[streamAddress], (func(context.Context, string, string) (net.Conn, error))(nil)
	name := ""
	if address == "" {
		port, err := e.forwarded(ctx)
		if err != nil {
			return streamclient.Endpoint{}, &streamclient.UnreachableError{Err: err}
		}
		name = streamName + "." + e.namespace + ".svc"
		address = name
		dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, port)
		}
	}
	sender, err := e.sender(published.Data[streamCA], name, dial)
	if err != nil {
		return streamclient.Endpoint{}, &streamclient.UnreachableError{Err: err}
	}
	return streamclient.Endpoint{URL: "https://" + address, Client: sender}, nil
}

// sender sends requests to the manager with the credentials of the user. They are sent only to a server whose
// certificate the published authority has signed.
func (e *endpoints) sender(
	authority, name string, dial func(context.Context, string, string) (net.Conn, error),
) (*http.Client, error) {
	config := rest.CopyConfig(e.cluster.Config)
	if config.Impersonate.UserName != "" {
		return nil, errors.New("it does not know who you impersonate")
	}
	config.TLSClientConfig.Insecure = false
	config.TLSClientConfig.CAFile, config.TLSClientConfig.CAData = "", []byte(authority)
	config.TLSClientConfig.ServerName = name
	config.Username, config.Password = "", ""
	config.Dial = dial
	if dial != nil {
		// A forwarded port is local.
		config.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	}
	// A stream has no end, and what it costs is bounded by the manager.
	config.Timeout, config.QPS, config.RateLimiter = 0, -1, nil
	sender, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("preparing the connection: %w", err)
	}
	return sender, nil
}

// forwarded returns a local address that is forwarded to a manager.
func (e *endpoints) forwarded(ctx context.Context) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.forward != nil && e.forward.alive() {
		return e.forward.address, nil
	}
	started, err := startForward(ctx, e.cluster, e.namespace)
	e.forward = started
	if err != nil {
		return "", err
	}
	return started.address, nil
}

// close ends the forwarding.
func (e *endpoints) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.forward != nil {
		e.forward.stop()
	}
}
