package capstantest

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/config/crd"
	"github.com/capstan-dev/capstan/internal/controller"
	"github.com/capstan-dev/capstan/internal/controller/identitykeys"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/hook/bash"
	"github.com/capstan-dev/capstan/internal/runtime/identity"
	journalkubernetes "github.com/capstan-dev/capstan/internal/runtime/journal/kubernetes"
	recordkubernetes "github.com/capstan-dev/capstan/internal/runtime/record/kubernetes"
	"github.com/capstan-dev/capstan/internal/runtime/sessiondb/sqlite"
	_ "github.com/capstan-dev/capstan/internal/runtime/tool/builtin/testmath" // for tests of users
	"github.com/capstan-dev/capstan/internal/runtime/tool/jobspec"
	"github.com/capstan-dev/capstan/internal/runtime/trace"
)

// Options are the settings of a Kit. The zero value is usable: every tool call then succeeds with the empty result.
type Options struct {
	// Jobs returns the result of a tool call that runs as a Job. Default: the empty result.
	Jobs JobRunner
	// Clock is the time of the controllers, and of the kit where it plays the cluster. Default: the real one.
	Clock *Clock
	// Transport wraps the HTTP transport of the controllers, to count or to disturb their requests. The kit's own
	// requests do not pass it.
	Transport func(http.RoundTripper) http.RoundTripper
	// JobRetention is how long the Jobs of finished Turns are kept. Default 10m.
	JobRetention time.Duration
	// MaxActiveTurns bounds how many Turns are active at once. Default 1000.
	MaxActiveTurns int
	// Namespaces are the ones that the controllers work in, as with the manager's flag --watch-namespaces. Default: all
	// of them.
	Namespaces []string
	// Policies installs the ValidatingAdmissionPolicies of an installation as well, by InstallPolicies. The controllers
	// then act under the manager's account, and the kit under the cluster's: cfg must be allowed to impersonate them. A
	// test's own clients are refused what users are refused.
	Policies bool
	// Providers are the drivers for Models of real providers: those of package capstantest/providers. Default: none, so
	// that only Models of provider Simulated are ready, and the SDKs of the providers are not compiled.
	Providers Providers
	// Prompts receives all model requests before the models respond. It is called from several goroutines at once.
	// Default: none.
	Prompts func(Prompt)
	// EgressAllow are ranges of addresses that HTTP tools, and requests to model providers, may reach although they are
	// not public, as with the manager's flag --egress-allow-cidr: 127.0.0.0/8 for a server of the test itself. Without
	// it, they reach the same addresses as in a cluster.
	EgressAllow []netip.Prefix
	// EgressRoots are the certificates that HTTP tools and requests to model providers trust servers by. Default: those
	// of the system.
	EgressRoots *x509.CertPool
	// Payments reports whether the manager pays for calls of Tools with http.payment, from the Secrets of the
	// environment. Default: it does not.
	Payments bool
	// OnLiveEvent is called with the events of Turns that no journal has, such as tool.progress, and must return at once.
	// Default: no such events are made.
	OnLiveEvent func(LiveEvent)
	// OnSpan is called with the spans of Turns, as the manager exports them, and must return at once. Default: no spans
	// are made.
	OnSpan func(Span)
	// IdentityNamespace has the Secret and the ConfigMap capstan-identity-keys, with which the tokens of MCPServers with
	// the identity AgentToken are signed. Empty: none are signed.
	IdentityNamespace string
	// Postgres keeps the journals and records of new Sessions in this PostgreSQL database, as the manager does with
	// --store=postgres: a connection string without a password, for a server of the test itself, which is connected to
	// without TLS. The schema is created. Default: they are in the API server.
	Postgres string
	// PostgresReader reads the events of Streams from that database by another connection string, whose account may have
	// no right but to read. Default: Postgres.
	PostgresReader string
	// Streams serves the events of Sessions, as the manager does; nil for none.
	Streams *Streams
	// NoJobPlayer leaves Jobs alone, for an environment where another kit plays them already.
	NoJobPlayer bool
}

// Kit is a running Capstan.
type Kit struct {
	// Client reads past any cache and writes, with the kinds of Capstan and of Kubernetes.
	Client client.Client

	player *player
	cancel context.CancelFunc
	ended  chan error
}

// Install creates the CustomResourceDefinitions in the cluster, and waits until they are served. It may be called
// again. The manager's Deployment and ServiceAccount are not part of it: the kit's controllers have the permissions of
// cfg.
func Install(_ context.Context, cfg *rest.Config) error {
	definitions, err := crd.Definitions()
	if err != nil {
		return err
	}
	_, err = envtest.InstallCRDs(cfg, envtest.CRDInstallOptions{CRDs: definitions})
	if err != nil {
		return fmt.Errorf("installing the CustomResourceDefinitions: %w", err)
	}
	return nil
}

// Start installs Capstan and starts its controllers. They end with the context, or by Stop.
func Start(ctx context.Context, cfg *rest.Config, o Options) (*Kit, error) {
	if err := Install(ctx, cfg); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	kit := &Kit{cancel: cancel, ended: make(chan error, 1)}
	if err := kit.start(ctx, cfg, o); err != nil {
		cancel()
		return nil, err
	}
	return kit, nil
}

// Stop stops the controllers and waits for their end, as a process that receives a stop signal would. Turns keep their
// state; another Kit, or the manager, continues them.
func (k *Kit) Stop() error {
	k.cancel()
	err := <-k.ended
	k.ended <- err
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// start makes the manager and starts it.
func (k *Kit) start(ctx context.Context, cfg *rest.Config, o Options) error {
	var err error
	unthrottled := rest.CopyConfig(cfg)
	unthrottled.QPS, unthrottled.Burst = -1, 0
	if k.Client, err = client.New(unthrottled, client.Options{Scheme: controller.NewScheme()}); err != nil {
		return fmt.Errorf("creating the client: %w", err)
	}
	if o.Clock == nil {
		o.Clock = &Clock{}
	}
	own, cluster := rest.CopyConfig(unthrottled), unthrottled
	if o.Policies {
		if err := InstallPolicies(ctx, unthrottled); err != nil {
			return err
		}
		own, cluster = actingAs(unthrottled, managerAccount), actingAs(unthrottled, jobControllerAccount)
	}
	clusterClient, err := client.New(cluster, client.Options{Scheme: controller.NewScheme()})
	if err != nil {
		return fmt.Errorf("creating the client of the simulated cluster: %w", err)
	}
	k.player = newPlayer(clusterClient, o.Jobs, o.Clock)
	if o.Transport != nil {
		own.Wrap(o.Transport)
	}
	mgr, err := newManager(own, &wire{clock: o.Clock, player: k.player}, o.Namespaces)
	if err != nil {
		return err
	}
	store, err := journalkubernetes.ForConfig(own, mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("opening the journal: %w", err)
	}
	records, err := recordkubernetes.ForConfig(own, mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("opening the records: %w", err)
	}
	database, err := o.database(ctx)
	if err != nil {
		return err
	}
	bus, streams := o.streams()
	err = controller.Setup(ctx, mgr, controller.Options{
		Store:          store,
		Records:        records,
		Database:       database,
		Logs:           k.player,
		ToolOutput:     k.player,
		Launcher:       jobspec.Launcher{Image: "capstan.dev/launcher:test", Delivery: jobspec.DeliveryImageVolume},
		MaxActiveTurns: o.MaxActiveTurns,
		JobRetention:   o.JobRetention,
		Models:         o.models(),
		Egress:         egress.New(egress.Options{Allow: o.EgressAllow, Roots: o.EgressRoots}),
		Payments:       o.Payments,
		Scripts:        bash.InProcess{},
		Queries:        sqlite.InProcess{},
		Identity:       o.signer(mgr),
		Traces:         o.traces(),
		Live:           bus,
		Streaming:      streams,
		Clock:          o.Clock.Now,
		Jumps: func(lookAgain func(context.Context) error) {
			// It fails if the kit has been stopped, and then there is no waiter any more.
			o.Clock.OnJump(func() { _ = lookAgain(ctx) })
		},
	})
	if err != nil {
		return err
	}
	if !o.NoJobPlayer {
		if err := k.play(ctx, cluster); err != nil {
			return err
		}
	}
	return k.run(ctx, mgr)
}

// Span is a span of the trace of a Turn.
type Span = trace.Span

// traces returns what receives the spans; nil for nothing.
func (o Options) traces() trace.Sink {
	if o.OnSpan == nil {
		return nil
	}
	return trace.Func(o.OnSpan)
}

// signer signs identity tokens; nil for none.
func (o Options) signer(mgr ctrl.Manager) *identity.Signer {
	if o.IdentityNamespace == "" {
		return nil
	}
	return &identity.Signer{
		Keys: identitykeys.New(identitykeys.Options{
			Live: mgr.GetAPIReader(), Client: mgr.GetClient(), Namespace: o.IdentityNamespace,
			Issuer: identity.DefaultIssuer, Clock: o.Clock.Now,
		}),
		Clock: o.Clock.Now,
	}
}

// newManager returns the manager that the controllers run in, for all namespaces or for those given.
func newManager(cfg *rest.Config, w *wire, namespaces []string) (ctrl.Manager, error) {
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:     controller.NewScheme(),
		Cache:      w.cached(controller.CacheOptions(namespaces...)),
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
		NewClient: func(cfg *rest.Config, o client.Options) (client.Client, error) {
			c, err := client.NewWithWatch(cfg, o)
			if err != nil {
				return nil, err
			}
			return w.wrap(c), nil
		},
	})
	if err != nil {
		return nil, fmt.Errorf("creating the manager: %w", err)
	}
	direct, err := client.NewWithWatch(
		cfg,
		client.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()},
	)
	if err != nil {
		return nil, fmt.Errorf("creating the client for live reads: %w", err)
	}
	return view{Manager: mgr, reader: w.wrap(direct)}, nil
}

// play starts the manager that plays Job controller and kubelet. It has a separate connection, so that its requests are
// not counted as the controllers'.
func (k *Kit) play(ctx context.Context, cfg *rest.Config) error {
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:     controller.NewScheme(),
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	if err != nil {
		return fmt.Errorf("creating the manager of the simulated kubelet: %w", err)
	}
	if err := k.player.setup(mgr); err != nil {
		return err
	}
	go func() { _ = mgr.Start(ctx) }()
	return nil
}

// run starts the controllers and waits until their caches are filled.
func (k *Kit) run(ctx context.Context, mgr manager.Manager) error {
	go func() { k.ended <- mgr.Start(ctx) }()
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		return fmt.Errorf("syncing the caches: %w", context.Cause(ctx))
	}
	return nil
}

// Turn returns a function that reads a Turn, for Eventually and Consistently.
func (k *Kit) Turn(ctx context.Context, namespace, name string) func() (*v1alpha1.Turn, error) {
	return func() (*v1alpha1.Turn, error) {
		turn := &v1alpha1.Turn{}
		err := k.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, turn)
		return turn, err
	}
}
