// Package controller puts the reconcilers of all kinds together.
package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/agent"
	"github.com/capstan-dev/capstan/internal/controller/harness"
	modelcontroller "github.com/capstan-dev/capstan/internal/controller/model"
	"github.com/capstan-dev/capstan/internal/controller/population"
	"github.com/capstan-dev/capstan/internal/controller/session"
	toolcontroller "github.com/capstan-dev/capstan/internal/controller/tool"
	"github.com/capstan-dev/capstan/internal/controller/toolresult"
	"github.com/capstan-dev/capstan/internal/controller/turn"
	"github.com/capstan-dev/capstan/internal/controller/wake"
	"github.com/capstan-dev/capstan/internal/controller/watchdog"
	"github.com/capstan-dev/capstan/internal/runtime/activity"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/host"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// Options are the settings of the reconcilers. The zero value of a field takes its default.
type Options struct {
	// Store is the backend of the log. Required.
	Store journal.Store
	// Logs reads the logs of tool containers. Required.
	Logs turn.LogReader
	// Launcher is put into tool pods.
	Launcher tool.Launcher
	// MaxActiveTurns bounds how many Turns are active at once, over all namespaces. Default 1000.
	MaxActiveTurns int
	// MaxActivities bounds how many model calls are under way at once, and how many requests of tools and log reads. Default 256.
	MaxActivities int
	// Workers is how many Turns, and how many Sessions, are worked on at once. Default 16.
	Workers int
	// JobRetention is how long the Jobs of a finished Turn are kept. Default 10m.
	JobRetention time.Duration
	// JournalCacheBytes bounds the memory that conversations are kept in. Default 64 MiB.
	JournalCacheBytes int64
	// Models makes the drivers of model providers. Default: all that the manager has.
	Models model.Registry
	// Egress sends the requests of HTTP tools, and those to model providers. Default: a client that reaches public addresses only.
	Egress *egress.Client
	// Clock tells the time. Default: the real one.
	Clock func() time.Time
	// Watchdog is told of every pass over a Turn or a Session. Default: one that nobody asks.
	Watchdog *watchdog.Watchdog
	// Metrics takes the counts of what exists. Default: none.
	Metrics prometheus.Registerer
	// Jumps is for a Clock that can jump, which requests that wait in a queue do not notice. It is called once, with a function that makes all
	// objects that may wait for a moment look at the Clock again. The manager leaves it out.
	Jumps func(lookAgain func(context.Context) error)
}

// withDefaults fills in what is not set.
func (o Options) withDefaults() Options {
	if o.MaxActiveTurns == 0 {
		o.MaxActiveTurns = 1000
	}
	if o.MaxActivities == 0 {
		o.MaxActivities = 256
	}
	if o.Workers == 0 {
		o.Workers = 16
	}
	if o.JobRetention == 0 {
		o.JobRetention = 10 * time.Minute
	}
	if o.Models == nil {
		o.Models = Models()
	}
	if o.Egress == nil {
		o.Egress = egress.New(egress.Options{})
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Watchdog == nil {
		o.Watchdog = watchdog.New(o.Clock)
	}
	return o
}

// NewScheme has every kind that the reconcilers read or write.
func NewScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	return scheme
}

// Setup registers the reconcilers of all kinds with the manager.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	o = o.withDefaults()
	if o.Store == nil || o.Logs == nil {
		return fmt.Errorf("setting up the reconcilers: a Store and a LogReader are required")
	}
	if err := turn.SetupIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	validator := tool.NewValidator()
	steps := &host.Host{
		Log:       journal.New(o.Store, journal.Options{CacheBytes: o.JournalCacheBytes, Clock: o.Clock}),
		Models:    o.Models,
		Validator: validator,
		Clock:     o.Clock,
		Egress:    o.Egress,
		Secrets:   turn.Secrets(mgr.GetAPIReader()),
		OnUnwritten: func(_ context.Context, t host.Turn, err error) {
			mgr.GetLogger().Error(err, "an answer of a model waits: the log does not take it", "namespace", t.Session.Namespace, "session", t.Session.Name, "turn", t.Ref.Name)
		},
	}
	turnWakes, sessionWakes := &wake.Source{}, &wake.Source{}
	activities := activity.NewExecutor(o.MaxActivities, turnWakes.Wake)
	if err := mgr.Add(activities); err != nil {
		return fmt.Errorf("adding the executor of activities: %w", err)
	}
	slots := session.NewSlots(o.MaxActiveTurns, sessionWakes.Wake)
	if o.Metrics != nil {
		err := o.Metrics.Register(&population.Collector{Cache: mgr.GetClient(), Held: slots.Held, Waiting: slots.Waiting, Activities: activities.Len})
		if err != nil {
			return fmt.Errorf("registering the counts of objects: %w", err)
		}
	}
	if o.Jumps != nil {
		o.Jumps(lookAgain(mgr.GetClient(), turnWakes, sessionWakes))
	}
	kinds := []struct {
		name  string
		setup func() error
	}{
		{"Harness", func() error {
			return (&harness.Reconciler{Client: mgr.GetClient(), Clock: o.Clock}).SetupWithManager(mgr)
		}},
		{"Agent", func() error {
			return (&agent.Reconciler{Client: mgr.GetClient(), Clock: o.Clock}).SetupWithManager(mgr)
		}},
		{"Model", func() error {
			return (&modelcontroller.Reconciler{Client: mgr.GetClient(), Clock: o.Clock, Drivers: o.Models}).SetupWithManager(mgr)
		}},
		{"Tool", func() error {
			return (&toolcontroller.Reconciler{Client: mgr.GetClient(), Clock: o.Clock, Schemas: validator}).SetupWithManager(mgr)
		}},
		{"Session", func() error {
			return (&session.Reconciler{
				Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Host: steps, Clock: o.Clock,
				Slots: slots, Wakes: sessionWakes, Watchdog: o.Watchdog,
			}).SetupWithManager(mgr, o.Workers)
		}},
		{"Turn", func() error {
			return (&turn.Reconciler{
				Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Host: steps, Clock: o.Clock, Activities: activities, Wakes: turnWakes,
				Logs: o.Logs, Launcher: o.Launcher, JobRetention: o.JobRetention, Watchdog: o.Watchdog,
			}).SetupWithManager(mgr, o.Workers)
		}},
		{"ToolResult", func() error {
			return (&toolresult.Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: o.Clock}).SetupWithManager(mgr)
		}},
	}
	for _, kind := range kinds {
		if err := kind.setup(); err != nil {
			return fmt.Errorf("setting up the reconciler of %s: %w", kind.name, err)
		}
	}
	return nil
}
