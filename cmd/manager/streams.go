package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/capstan-dev/capstan/internal/controller/leader"
	"github.com/capstan-dev/capstan/internal/controller/streamcert"
	"github.com/capstan-dev/capstan/internal/controller/streaming"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/live"
)

// maxStreams is the most event streams that may be permitted.
const maxStreams = 100_000

// streamOptions are the settings of event streams.
type streamOptions struct {
	listen  string
	address string
	certs   string
	max     int
	// rate bounds the requests to the API server for streams.
	rate *fairshare.Rate
}

// bind adds the flags.
func (s *streamOptions) bind(flags *flag.FlagSet) {
	flags.StringVar(&s.listen, "stream-bind-address", ":9443",
		"Serve the events of Sessions over TLS at this address, to clients that may get sessions/events. 0 disables it.")
	flags.StringVar(&s.address, "stream-address", "",
		"Tell clients to connect to event streams at this host and port, such as capstan.example.com:443. What is there "+
			"must pass TLS through. Default: clients forward a port to the manager, if they may.")
	flags.StringVar(&s.certs, "stream-cert-dir", "",
		"Read the serving certificate of event streams from this directory (tls.crt and tls.key, and ca.crt for clients). "+
			"If empty, the manager signs one itself, and keeps it in Secret capstan-stream.")
	flags.IntVar(&s.max, "stream-max-subscribers", streaming.DefaultMaxSubscribers,
		"Serve at most this many event streams at once; half of them to one namespace, and a quarter each to one user and "+
			"to one Session. Each takes about 60 KiB of memory.")
}

// validate returns the error of invalid settings.
func (s *streamOptions) validate() error {
	if s.max < 1 || s.max > maxStreams {
		return fmt.Errorf("invalid --stream-max-subscribers %d: must be between 1 and %d", s.max, maxStreams)
	}
	if s.address == "" {
		return nil
	}
	if host, port, err := net.SplitHostPort(s.address); err != nil || host == "" || port == "" {
		return fmt.Errorf("invalid --stream-address %q: must be a host and a port, such as capstan.example.com:443",
			s.address)
	}
	return nil
}

// setUp prepares event streams. Outside of a pod there are none without a certificate in files.
func (s *streamOptions) setUp(ctx context.Context, mgr ctrl.Manager, o *options) error {
	self, inPod := leader.Self(os.Getenv)
	if s.listen == "0" || !inPod && s.certs == "" {
		return nil
	}
	streams := &streaming.Options{Bus: &live.Bus{}, MaxSubscribers: s.max, Rate: s.rate}
	store := streamcert.New(streamcert.Options{
		Live: mgr.GetAPIReader(), Client: mgr.GetClient(), Namespace: self.Pod.Namespace, Names: s.names(self.Pod.Namespace),
		Address: s.address, Clock: time.Now,
	})
	publish := func(ctx context.Context) error {
		_, err := store.Certificate(ctx)
		return err
	}
	streams.Certificate = store.Get
	if s.certs != "" {
		watcher, err := certwatcher.New(filepath.Join(s.certs, "tls.crt"), filepath.Join(s.certs, "tls.key"))
		if err != nil {
			return fmt.Errorf("reading the serving certificate of event streams: %w", err)
		}
		if err := mgr.Add(watcher); err != nil {
			return fmt.Errorf("adding the watch of the serving certificate of event streams: %w", err)
		}
		streams.Certificate = watcher.GetCertificate
		publish = func(ctx context.Context) error { return s.publishFile(ctx, store) }
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.listen)
	if err != nil {
		return fmt.Errorf("listening for event streams: %w", err)
	}
	streams.Listener = listener
	if inPod {
		if o.leaderElect {
			streams.Leader = s.leader(mgr, self.Pod.Namespace, listener)
		}
		if err := mgr.Add(published(publish)); err != nil {
			return fmt.Errorf("adding the publication of the address of event streams: %w", err)
		}
	}
	o.controllers.Live, o.controllers.Streaming = streams.Bus, streams
	return nil
}

// names are those that the certificate is for.
func (s *streamOptions) names(namespace string) []string {
	names := streamcert.ServiceNames(namespace)
	if host, _, err := net.SplitHostPort(s.address); err == nil {
		names = append(names, host)
	}
	return names
}

// leader finds the address of the leader, which listens at the same port.
func (s *streamOptions) leader(
	mgr ctrl.Manager, namespace string, listener net.Listener,
) func(context.Context) (string, error) {
	addresses := &leader.Addresses{Live: mgr.GetAPIReader(), Namespace: namespace, Clock: time.Now}
	return func(ctx context.Context) (string, error) {
		host, err := addresses.Address(ctx)
		if err != nil {
			return "", err
		}
		_, port, err := net.SplitHostPort(listener.Addr().String())
		if err != nil {
			return "", fmt.Errorf("reading the own port of event streams: %w", err)
		}
		return net.JoinHostPort(host, port), nil
	}
}

// publishFile publishes the authority that is beside the certificate in files.
func (s *streamOptions) publishFile(ctx context.Context, store *streamcert.Store) error {
	bundle, err := os.ReadFile(filepath.Join(s.certs, "ca.crt"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("reading the authority of event streams: %w", err)
	}
	return store.Publish(ctx, string(bundle))
}

// published is a Runnable of the leader that tells clients where event streams are. Without that they can still be
// followed by those who know, and Turns run.
func published(publish func(context.Context) error) manager.Runnable {
	return manager.RunnableFunc(func(ctx context.Context) error {
		if err := publish(ctx); err != nil && ctx.Err() == nil {
			ctrl.Log.WithName("streams").Error(err, "Failed to publish the address of event streams; the objects "+
				"capstan-stream of the installation may be missing")
		}
		return nil
	})
}
