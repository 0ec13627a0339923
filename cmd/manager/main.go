// Command manager runs the Capstan controllers.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/capstan-dev/capstan/internal/controller"
	"github.com/capstan-dev/capstan/internal/controller/podlog"
	"github.com/capstan-dev/capstan/internal/controller/watchdog"
	journalkubernetes "github.com/capstan-dev/capstan/internal/runtime/journal/kubernetes"
)

func main() {
	o, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&o.logging)))
	if err := run(ctrl.SetupSignalHandler(), o); err != nil {
		ctrl.Log.Error(err, "the manager ends")
		os.Exit(1)
	}
}

// run starts the controllers and waits for their end.
func run(ctx context.Context, o options) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the cluster: %w", err)
	}
	config.QPS, config.Burst = o.qps, o.burst
	o.controllers.Watchdog = watchdog.New(time.Now)
	mgr, err := newManager(config, o)
	if err != nil {
		return err
	}
	o.controllers.Metrics = metrics.Registry
	if o.controllers.Store, err = journalkubernetes.ForConfig(config, mgr.GetHTTPClient()); err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
	if o.controllers.Logs, err = podlog.New(config); err != nil {
		return err
	}
	if o.controllers.Launcher.Delivery, err = o.delivery(config); err != nil {
		return err
	}
	if err := controller.Setup(ctx, mgr, o.controllers); err != nil {
		return err
	}
	ctrl.Log.Info("starting", "launcherImage", o.controllers.Launcher.Image, "launcherDelivery", o.controllers.Launcher.Delivery)
	return mgr.Start(ctx)
}

// newManager makes the manager with its cache, its probes and its metrics.
func newManager(config *rest.Config, o options) (ctrl.Manager, error) {
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        controller.NewScheme(),
		Cache:                         controller.CacheOptions(o.namespaces...),
		Metrics:                       metricsserver.Options{BindAddress: o.metricsAddress},
		HealthProbeBindAddress:        o.probeAddress,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              "manager.capstan.dev",
		LeaderElectionReleaseOnCancel: true,
		// Who waits to take over has all objects already.
		Controller: controllerconfig.Controller{EnableWarmup: ptr.To(true)},
	})
	if err != nil {
		return nil, fmt.Errorf("making the manager: %w", err)
	}
	if err := mgr.AddHealthzCheck("passes", o.controllers.Watchdog.Check); err != nil {
		return nil, fmt.Errorf("adding the liveness check: %w", err)
	}
	if err := mgr.AddReadyzCheck("caches", cachesFilled(mgr.GetCache())); err != nil {
		return nil, fmt.Errorf("adding the readiness check: %w", err)
	}
	return mgr, nil
}

// cachesFilled is a readiness check: a manager is of use, as the leader or as the one to take over, once it knows all objects.
func cachesFilled(c cache.Cache) healthz.Checker {
	return func(r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		if !c.WaitForCacheSync(ctx) {
			return errors.New("the caches are not filled: are the CustomResourceDefinitions installed, and may the manager list what it watches?")
		}
		return nil
	}
}
