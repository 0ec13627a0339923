// Command manager runs the Capstan controllers.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/capstan-dev/capstan/internal/controller"
	"github.com/capstan-dev/capstan/internal/controller/apiserver"
	"github.com/capstan-dev/capstan/internal/controller/egresspolicy"
	"github.com/capstan-dev/capstan/internal/controller/identitykeys"
	"github.com/capstan-dev/capstan/internal/controller/leader"
	"github.com/capstan-dev/capstan/internal/controller/podlog"
	"github.com/capstan-dev/capstan/internal/controller/policies"
	"github.com/capstan-dev/capstan/internal/controller/shares"
	"github.com/capstan-dev/capstan/internal/controller/watchdog"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/identity"
	journalkubernetes "github.com/capstan-dev/capstan/internal/runtime/journal/kubernetes"
	"github.com/capstan-dev/capstan/internal/runtime/model/drivers"
	recordkubernetes "github.com/capstan-dev/capstan/internal/runtime/record/kubernetes"
	"github.com/capstan-dev/capstan/internal/version"
)

// program is the manager's name in requests.
const program = "capstan-manager"

// managerContainer is the name of the manager's container in its pod.
const managerContainer = "manager"

func main() {
	if runsProgram(os.Args) {
		os.Exit(runProgram())
	}
	o, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if o.version {
		fmt.Println(program, version.Get())
		return
	}
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&o.logging)))
	if err := run(ctrl.SetupSignalHandler(), o); err != nil {
		ctrl.Log.Error(err, "Manager exited with error")
		os.Exit(1)
	}
}

// run starts the controllers and waits for their end.
func run(ctx context.Context, o options) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("loading the client configuration: %w", err)
	}
	if o.memory > 0 {
		limitCollector(o.memory)
	}
	config.UserAgent = version.Get().UserAgent(program)
	o.limit(config)
	o.controllers.Watchdog = watchdog.New(time.Now)
	mgr, err := newManager(config, o, func(holder string) { stop(&lostError{holder}) })
	if err != nil {
		return err
	}
	o.controllers.Metrics, o.controllers.Models = metrics.Registry, drivers.All()
	metrics.Registry.MustRegister(version.Get().Metric())
	if o.controllers.Store, err = journalkubernetes.ForConfig(config, mgr.GetHTTPClient()); err != nil {
		return fmt.Errorf("opening the journal: %w", err)
	}
	if o.controllers.Records, err = recordkubernetes.ForConfig(config, mgr.GetHTTPClient()); err != nil {
		return fmt.Errorf("opening the records: %w", err)
	}
	closeDatabase, err := o.openDatabase(ctx, mgr)
	if err != nil {
		return err
	}
	defer closeDatabase()
	logs, err := podlog.New(config)
	if err != nil {
		return err
	}
	o.controllers.Logs, o.controllers.ToolOutput = logs, logs
	if o.controllers.Launcher.Delivery, err = o.delivery(config); err != nil {
		return err
	}
	stopPrograms := o.startPrograms()
	defer stopPrograms()
	if err := awayFromAPIServer(ctx, mgr, config, o); err != nil {
		return err
	}
	if err := permitted(mgr, o); err != nil {
		return err
	}
	if o.controllers.Policies, err = verified(ctx, mgr); err != nil {
		return err
	}
	o.controllers.Identity = signer(mgr, o.issuer)
	flush, err := o.trace(ctx)
	if err != nil {
		return err
	}
	defer flush()
	if err := o.streams.setUp(ctx, mgr, &o); err != nil {
		return err
	}
	if err := controller.Setup(ctx, mgr, o.controllers); err != nil {
		return err
	}
	ctrl.Log.Info("Computed the memory for conversations", "bytes", o.controllers.ConversationBytes,
		"perNamespace", fairshare.Ceiling(o.controllers.ConversationBytes), "largestConversation", o.largestConversation(),
		"cache", o.controllers.JournalCacheBytes, "scripts", o.scriptMemory())
	ctrl.Log.Info("Starting manager", "version", version.Get().String(),
		"launcherImage", o.controllers.Launcher.Image, "launcherDelivery", o.controllers.Launcher.Delivery)
	err = mgr.Start(ctx)
	if lost := (*lostError)(nil); errors.As(context.Cause(ctx), &lost) {
		return lost
	}
	return err
}

// limit bounds the requests to the API server, of which a tenth may only show progress, and a tenth only serve event
// streams.
func (o *options) limit(config *rest.Config) {
	// client-go's own limit would hold for each kind by itself and know no namespaces.
	config.QPS = -1
	requests := fairshare.NewRate(o.qps, o.burst, shares.Waited(shares.APIRequests))
	config.Wrap(requests.Transport)
	o.controllers.Progress, o.streams.rate = requests.Tenth(), requests.Tenth()
}

// lostError ends a manager whose Lease another one has acquired.
type lostError struct{ holder string }

// Error implements error.
func (e *lostError) Error() string {
	return fmt.Sprintf("lost the leader election: %s holds the Lease %s", e.holder, leader.LeaseName)
}

// newManager returns the manager with its cache, its probes and its metrics. onLost is called once another manager
// holds the Lease that this one has held.
func newManager(config *rest.Config, o options, onLost func(holder string)) (ctrl.Manager, error) {
	lock, err := electionLock(config, o, onLost)
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        controller.NewScheme(),
		Cache:                         controller.CacheOptions(o.namespaces...),
		Metrics:                       o.metrics(),
		HealthProbeBindAddress:        o.probeAddress,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              leader.LeaseName,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 ptr.To(leader.LeaseDuration),
		RenewDeadline:                 ptr.To(leader.RenewDeadline),
		RetryPeriod:                   ptr.To(leader.RetryPeriod),
		// Without a lock of our own, as outside of a pod, it is controller-runtime's.
		LeaderElectionResourceLockInterface: lock,
		// Who waits to take over has all objects already.
		Controller: controllerconfig.Controller{EnableWarmup: ptr.To(true)},
	})
	if err != nil {
		return nil, fmt.Errorf("creating the manager: %w", err)
	}
	if err := mgr.AddHealthzCheck("passes", o.controllers.Watchdog.Check); err != nil {
		return nil, fmt.Errorf("adding the liveness check: %w", err)
	}
	if err := mgr.AddReadyzCheck("caches", cachesFilled(mgr.GetCache())); err != nil {
		return nil, fmt.Errorf("adding the readiness check: %w", err)
	}
	return mgr, nil
}

// metrics are the settings of the metrics server. Without HTTP/2, whose streams cost more than the metrics.
func (o *options) metrics() metricsserver.Options {
	if !o.metricsSecure {
		return metricsserver.Options{BindAddress: o.metricsAddress}
	}
	return metricsserver.Options{
		BindAddress:    o.metricsAddress,
		SecureServing:  true,
		CertDir:        o.metricsCerts,
		FilterProvider: filters.WithAuthenticationAndAuthorization,
		TLSOpts: []func(*tls.Config){func(c *tls.Config) {
			c.NextProtos, c.MinVersion = []string{"http/1.1"}, tls.VersionTLS12
		}},
	}
}

// verified looks at the policies of the install, now and then on a timer. The manager is not ready while one is
// missing.
func verified(ctx context.Context, mgr ctrl.Manager) (*policies.Verifier, error) {
	review := &authenticationv1.SelfSubjectReview{}
	if err := mgr.GetClient().Create(ctx, review); err != nil {
		return nil, fmt.Errorf("getting the user name of the manager from the API server: %w", err)
	}
	v := &policies.Verifier{Live: mgr.GetAPIReader(), Account: review.Status.UserInfo.Username}
	v.Refresh(ctx)
	if err := mgr.AddReadyzCheck("policies", v.Check); err != nil {
		return nil, fmt.Errorf("adding the readiness check of the policies: %w", err)
	}
	return v, nil
}

// signer signs identity tokens with the keys in the namespace of the manager. Outside of a pod there are none.
func signer(mgr ctrl.Manager, issuer string) *identity.Signer {
	self, ok := leader.Self(os.Getenv)
	if !ok {
		return nil
	}
	return &identity.Signer{
		Keys: identitykeys.New(identitykeys.Options{
			Live: mgr.GetAPIReader(), Client: mgr.GetClient(), Namespace: self.Pod.Namespace, Issuer: issuer, Clock: time.Now,
		}),
		Issuer: issuer, Clock: time.Now,
	}
}

// awayFromAPIServer keeps the requests that are sent for others away from the API server, from the start on.
func awayFromAPIServer(ctx context.Context, mgr ctrl.Manager, config *rest.Config, o options) error {
	places := &apiserver.Addresses{Live: mgr.GetAPIReader(), Hosts: []string{config.Host}, Deny: o.controllers.Egress.Deny}
	if host := os.Getenv("KUBERNETES_SERVICE_HOST"); host != "" {
		places.Hosts = append(places.Hosts, net.JoinHostPort(host, os.Getenv("KUBERNETES_SERVICE_PORT")))
	}
	if err := places.Refresh(ctx); err != nil {
		ctrl.Log.Info("Failed to look up all addresses of the API server; connections to the missing ones are not denied",
			"error", err.Error())
	}
	if err := mgr.Add(places); err != nil {
		return fmt.Errorf("adding the lookup of the API server's addresses: %w", err)
	}
	return nil
}

// permitted reads the egress configuration, if there is one, and reads it again when it changes.
func permitted(mgr ctrl.Manager, o options) error {
	if o.egressConfig == "" {
		return nil
	}
	file := &egresspolicy.File{Path: o.egressConfig, Set: o.controllers.Egress.SetPolicy}
	if err := file.Load(); err != nil {
		return err
	}
	if err := mgr.Add(file); err != nil {
		return fmt.Errorf("adding the reader of the egress configuration: %w", err)
	}
	return nil
}

// electionLock returns the lock of the leader election: nil for that of controller-runtime, where this process is not
// in a pod.
func electionLock(config *rest.Config, o options, onLost func(holder string)) (resourcelock.Interface, error) {
	self, ok := leader.Self(os.Getenv)
	if !o.leaderElect || !ok {
		return nil, nil
	}
	return leader.NewLock(config, self, managerContainer, onLost, ctrl.Log.WithName("election"))
}

// cachesFilled is a readiness check: a manager is of use, as the leader or as the one to take over, once it knows all
// objects.
func cachesFilled(c cache.Cache) healthz.Checker {
	return func(r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		if !c.WaitForCacheSync(ctx) {
			return errors.New("the caches are not synced: check that the CustomResourceDefinitions are installed and " +
				"that the manager may list and watch them")
		}
		return nil
	}
}
