// Package controller sets up the reconcilers of all kinds.
package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/agent"
	"github.com/capstan-dev/capstan/internal/controller/background"
	"github.com/capstan-dev/capstan/internal/controller/capability"
	"github.com/capstan-dev/capstan/internal/controller/configsource"
	"github.com/capstan-dev/capstan/internal/controller/executor"
	"github.com/capstan-dev/capstan/internal/controller/fieldindex"
	"github.com/capstan-dev/capstan/internal/controller/harness"
	"github.com/capstan-dev/capstan/internal/controller/mcpserver"
	modelcontroller "github.com/capstan-dev/capstan/internal/controller/model"
	"github.com/capstan-dev/capstan/internal/controller/modelprobe"
	"github.com/capstan-dev/capstan/internal/controller/notice"
	"github.com/capstan-dev/capstan/internal/controller/objectmetrics"
	"github.com/capstan-dev/capstan/internal/controller/policies"
	"github.com/capstan-dev/capstan/internal/controller/servicepods"
	"github.com/capstan-dev/capstan/internal/controller/session"
	"github.com/capstan-dev/capstan/internal/controller/shares"
	"github.com/capstan-dev/capstan/internal/controller/streaming"
	toolcontroller "github.com/capstan-dev/capstan/internal/controller/tool"
	"github.com/capstan-dev/capstan/internal/controller/tooloutput"
	"github.com/capstan-dev/capstan/internal/controller/turn"
	"github.com/capstan-dev/capstan/internal/controller/wake"
	"github.com/capstan-dev/capstan/internal/controller/watchdog"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/hook/bash"
	"github.com/capstan-dev/capstan/internal/runtime/identity"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/live"
	"github.com/capstan-dev/capstan/internal/runtime/mcp"
	"github.com/capstan-dev/capstan/internal/runtime/mcp/discovery"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/sessiondb"
	"github.com/capstan-dev/capstan/internal/runtime/step"
	limits "github.com/capstan-dev/capstan/internal/runtime/subagent"
	"github.com/capstan-dev/capstan/internal/runtime/tool/inputschema"
	"github.com/capstan-dev/capstan/internal/runtime/tool/jobspec"
	"github.com/capstan-dev/capstan/internal/runtime/trace"
)

const (
	// DefaultMaxJournalBytes is far below the memory of the manager, which holds several times a conversation while its
	// model is called.
	DefaultMaxJournalBytes = 32 << 20
	// DefaultMaxNamespaceRecordBytes is a quarter of etcd's default limit.
	DefaultMaxNamespaceRecordBytes = 512 << 20
	// outputBytes is the memory for outputs of tools that are longer than a result, while they are read and stored.
	outputBytes = 32 << 20
	// DefaultMaxNamespaceJournalBytes is a quarter of etcd's default limit.
	DefaultMaxNamespaceJournalBytes = 512 << 20
	// DefaultRecordBytesPerSecond is about a seventh of what etcd stores by default, in the five minutes for which it
	// keeps old versions.
	DefaultRecordBytesPerSecond = 1 << 20

	// recordBurst is how many bytes of records may be written at once, and recordPlaces how many operations and reads of
	// records run at once.
	recordBurst  = 16 << 20
	recordPlaces = 8
)

// Options are the settings of the reconcilers. The zero value of a field takes its default.
type Options struct {
	// Store is the backend of the journal. Required.
	Store journal.Store
	// Records is the backend of the stores of Sessions, such as their files. Required.
	Records record.Objects
	// Database is a further backend of both.
	Database DatabaseOptions
	// RecordBytesPerSecond bounds the bytes written to it, in all namespaces together. Default 1 MiB.
	RecordBytesPerSecond int64
	// MaxNamespaceRecordBytes bounds the files of all Sessions of each namespace together. Default 512 MiB.
	MaxNamespaceRecordBytes int64
	// Logs reads the logs of tool containers. Required.
	Logs turn.LogReader
	// Launcher is added to tool pods.
	Launcher jobspec.Launcher
	// MaxActiveTurns bounds the number of active Turns of all namespaces together. Default 1000.
	MaxActiveTurns int
	// MaxBegunTurns bounds the number of Turns per namespace that have begun and not ended, waiting Turns included.
	// Default 2000.
	MaxBegunTurns int
	// MaxActivities bounds the number of concurrent model calls, and that of concurrent tool requests and log reads.
	// Default 256.
	MaxActivities int
	// ConversationBytes bounds the memory of the conversations that models are called with. Default 256 MiB.
	ConversationBytes int64
	// ModelCallLimit is the longest that one model call may take. Default 30m.
	ModelCallLimit time.Duration
	// Progress bounds the status writes that only show how far tool calls have come. Default: no bound but one write a
	// second for each Turn.
	Progress *fairshare.Rate
	// SubAgents bounds the sub-agents of Turns. Default: 3 levels, and 32 for each Turn.
	SubAgents limits.Limits
	// MaxBackgroundTasks bounds the background tasks of each namespace. Default 100.
	MaxBackgroundTasks int32
	// Workers is the number of Turns, and the number of Sessions, that are reconciled in parallel. Default 16.
	Workers int
	// JobRetention is how long the Jobs and the sub-agents of a finished Turn are kept. Default 10m.
	JobRetention time.Duration
	// JournalCacheBytes bounds the memory of the conversation cache. Default 64 MiB.
	JournalCacheBytes int64
	// ConfigCacheBytes bounds the memory of the cache of long texts of configuration. Default 16 MiB.
	ConfigCacheBytes int64
	// RecordCacheBytes bounds the memory of the cache of Records. Default 16 MiB.
	RecordCacheBytes int64
	// MaxJournalBytes bounds the journal of every Session, whatever its journalLimit. Default 32 MiB.
	MaxJournalBytes int64
	// MaxNamespaceJournalBytes bounds the journals of each namespace together. Default 512 MiB.
	MaxNamespaceJournalBytes int64
	// Models creates the drivers of model providers. Required.
	Models model.Registry
	// Egress sends the requests of HTTP tools and those to model providers. Default: a client that reaches only public
	// addresses.
	Egress *egress.Client
	// Scripts runs hooks that are scripts. Default: none can run.
	Scripts bash.Processes
	// Queries runs the SQL of Sessions. Default: none can run.
	Queries sessiondb.Processes
	// Traces exports the spans of Turns. Default: none are exported.
	Traces trace.Sink
	// Live receives the events of Turns that no journal has. Default: none are made.
	Live live.Sink
	// ToolOutput follows the logs of running tools for those who follow events of Sessions. Default: none is followed.
	ToolOutput tooloutput.Logs
	// Streaming serves events of Sessions. Default: none are served.
	Streaming *streaming.Options
	// Payments reports whether calls of tools are paid for. Default: none are.
	Payments bool
	// Identity signs the tokens by which MCPServers recognize agents. Default: none are signed.
	Identity *identity.Signer
	// Policies verifies that the admission policies of the installation are in force. Default: they are assumed to be.
	Policies *policies.Verifier
	// Clock returns the current time. Default: the real one.
	Clock func() time.Time
	// Watchdog observes every pass over a Turn or a Session. Default: one without a liveness check.
	Watchdog *watchdog.Watchdog
	// Metrics registers the metrics of existing objects. Default: none.
	Metrics prometheus.Registerer
	// Jumps is for a Clock that can jump, which requests in a delayed queue do not notice. It is called once, with a
	// function that enqueues all objects that may wait for a point in time. The manager does not set it.
	Jumps func(lookAgain func(context.Context) error)
}

// withDefaults sets the default of every unset field.
func (o Options) withDefaults() Options {
	if o.MaxActiveTurns == 0 {
		o.MaxActiveTurns = 1000
	}
	if o.MaxBegunTurns == 0 {
		o.MaxBegunTurns = 2000
	}
	if o.MaxActivities == 0 {
		o.MaxActivities = 256
	}
	if o.ConversationBytes == 0 {
		o.ConversationBytes = 256 << 20
	}
	if o.ModelCallLimit == 0 {
		o.ModelCallLimit = 30 * time.Minute
	}
	if o.MaxBackgroundTasks == 0 {
		o.MaxBackgroundTasks = background.DefaultMaxPerNamespace
	}
	if o.Workers == 0 {
		o.Workers = 16
	}
	if o.JobRetention == 0 {
		o.JobRetention = 10 * time.Minute
	}
	if o.ConfigCacheBytes == 0 {
		o.ConfigCacheBytes = 16 << 20
	}
	if o.RecordCacheBytes == 0 {
		o.RecordCacheBytes = 16 << 20
	}
	if o.MaxJournalBytes == 0 {
		o.MaxJournalBytes = DefaultMaxJournalBytes
	}
	if o.MaxNamespaceJournalBytes == 0 {
		o.MaxNamespaceJournalBytes = DefaultMaxNamespaceJournalBytes
	}
	if o.MaxNamespaceRecordBytes == 0 {
		o.MaxNamespaceRecordBytes = DefaultMaxNamespaceRecordBytes
	}
	if o.RecordBytesPerSecond == 0 {
		o.RecordBytesPerSecond = DefaultRecordBytesPerSecond
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

// NewScheme returns a scheme with every kind that the reconcilers read or write.
func NewScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	return scheme
}

// Setup registers the reconcilers of all kinds with the manager.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	o = o.withDefaults()
	if o.Store == nil || o.Records == nil || o.Logs == nil || o.Models == nil {
		return fmt.Errorf("setting up the reconcilers: missing Store, Records, Logs or Models")
	}
	o.Egress.UseServices(servicepods.Finder{Live: mgr.GetAPIReader()})
	if err := fieldindex.SetUp(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	validator := inputschema.NewValidator()
	turnWakes, sessionWakes := &wake.Source{}, &wake.Source{}
	modelWakes, serverWakes, agentWakes, budgetWakes := &wake.Source{}, &wake.Source{}, &wake.Source{}, &wake.Source{}
	router, collector, err := o.router(mgr)
	if err != nil {
		return err
	}
	o.Store, o.Records = router.Journal(), router.Records()
	steps, err := o.steps(mgr, validator, router)
	if err != nil {
		return err
	}
	steps.OnNoKey = modelWakes.Wake
	tasks := o.background(mgr, steps, sessionWakes)
	steps.Tasks = tasks
	schedules := o.schedules(mgr)
	steps.Schedules = schedules
	texts := configsource.NewTexts(mgr.GetAPIReader(), steps.Records, o.ConfigCacheBytes)
	err = errors.Join(o.verifyPolicies(mgr, steps, turnWakes, modelWakes), o.streams(ctx, mgr, steps, texts, router))
	if err != nil {
		return err
	}
	pools := o.pools()
	leases := o.leases(mgr, texts, steps, pools)
	activities := executor.NewExecutor(pools, turnWakes.Wake)
	sessionActivities := executor.NewExecutor(pools, sessionWakes.Wake)
	if err := addAll(mgr, activities, sessionActivities, leases.Activities); err != nil {
		return err
	}
	turns := o.turns()
	servers := o.servers(mgr, texts, steps, serverWakes)
	err = o.register(mgr.GetClient(), turns, pools, servers, activities, sessionActivities, leases.Activities)
	if err != nil {
		return err
	}
	if o.Jumps != nil {
		o.Jumps(enqueueAll(mgr.GetClient(), turnWakes, sessionWakes, modelWakes, serverWakes, agentWakes,
			tasks.Wakes, schedules.Wakes, budgetWakes, leases.Wakes))
	}
	retracer, err := turn.AddRetracer(mgr, steps, o.Clock)
	if err != nil {
		return err
	}
	sessions := &session.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Texts: texts, Steps: steps, Activities: sessionActivities,
		Clock: o.Clock, Turns: turns, Wakes: sessionWakes, TurnWakes: turnWakes, Watchdog: o.Watchdog, Tasks: tasks,
		TraceAgain: retracer.Again, Stores: router, NewStore: o.newSessions(),
	}
	if collector != nil {
		sessions.Gone = collector.Gone
	}
	kinds := append(o.configuration(mgr, texts, steps, validator, modelWakes), []kind{
		{"MCPServer", func() error { return servers.SetupWithManager(mgr) }},
		{"Session", func() error { return sessions.SetupWithManager(mgr, o.Workers) }},
		{"Turn", func() error {
			return (&turn.Reconciler{
				Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Texts: texts, Steps: steps, Clock: o.Clock,
				Activities: activities, Turns: turns, Admitted: sessions.Admitted, Progress: o.Progress, Wakes: turnWakes,
				Traces:  retracer,
				Notices: notice.NewRecorder(mgr.GetEventRecorder("capstan-manager"), o.Clock),
				Logs:    o.Logs, Launcher: o.Launcher, Policies: o.Policies, JobRetention: o.JobRetention, Watchdog: o.Watchdog,
			}).SetupWithManager(mgr, o.Workers)
		}},
		{"Job", func() error { return o.setUpJobs(mgr) }},
		{"background task", func() error { return tasks.SetupWithManager(mgr) }},
		{"Schedule", func() error { return schedules.SetupWithManager(mgr) }},
		{"LeasedResource", func() error { return leases.SetupWithManager(mgr) }},
		{"Budget", func() error { return o.setUpBudgets(mgr, steps, budgetWakes) }},
		{"sub-agent", func() error { return o.setUpSubAgents(mgr, agentWakes) }},
		{"ToolResult", func() error { return o.setUpToolResults(mgr) }},
	}...)
	return setUpAll(kinds)
}

// configuration are the kinds that configure Sessions, but for MCPServers.
func (o Options) configuration(
	mgr ctrl.Manager, texts *configsource.Texts, steps *step.Runner, validator *inputschema.Validator,
	modelWakes *wake.Source,
) []kind {
	return []kind{
		{"Harness", func() error {
			return (&harness.Reconciler{Client: mgr.GetClient(), Clock: o.Clock}).SetupWithManager(mgr)
		}},
		{"Agent", func() error {
			return (&agent.Reconciler{Client: mgr.GetClient(), Clock: o.Clock}).SetupWithManager(mgr)
		}},
		{"Capability", func() error {
			return (&capability.Reconciler{Client: mgr.GetClient(), Clock: o.Clock}).SetupWithManager(mgr)
		}},
		{"Model", func() error {
			return o.models(mgr, texts, steps, modelWakes).SetupWithManager(mgr)
		}},
		{"Model probe", func() error {
			return (&modelprobe.Reconciler{
				Client: mgr.GetClient(), Clock: o.Clock, Prober: steps, Policies: o.Policies,
			}).SetupWithManager(mgr)
		}},
		{"Tool", func() error {
			return (&toolcontroller.Reconciler{
				Client: mgr.GetClient(), Texts: texts, Clock: o.Clock, Schemas: validator,
			}).SetupWithManager(mgr)
		}},
	}
}

// models returns the reconciler of Models.
func (o Options) models(
	mgr ctrl.Manager, texts *configsource.Texts, steps *step.Runner, wakes *wake.Source,
) *modelcontroller.Reconciler {
	return &modelcontroller.Reconciler{
		Client: mgr.GetClient(), Texts: texts, Clock: o.Clock, Drivers: o.Models, Keys: steps, Policies: o.Policies,
		Wakes: wakes,
	}
}

// servers returns the reconciler of MCPServers.
func (o Options) servers(
	mgr ctrl.Manager, texts *configsource.Texts, steps *step.Runner, wakes *wake.Source,
) *mcpserver.Reconciler {
	r := &mcpserver.Reconciler{
		Client: mgr.GetClient(), Texts: texts, Records: steps.Records, Clock: o.Clock, Policies: o.Policies, Wakes: wakes,
		Clients: steps.Clients,
		Discoverer: discovery.Discoverer{
			Egress: o.Egress, Secrets: steps.Secrets, ConfigMaps: steps.ConfigMaps, Schemas: steps.Validator,
			Account:  steps.Account,
			Identity: o.Identity,
		},
	}
	r.Discoverer.Listeners = mcp.NewListeners(o.Egress, mcp.ListenersOptions{Noticed: r.Noticed})
	return r
}

// background returns the reconciler of background tasks, which is also their host.
func (o Options) background(
	mgr ctrl.Manager, steps *step.Runner, sessionWakes *wake.Source,
) *background.Reconciler {
	return &background.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Records: steps.Records, Logs: o.Logs, Launcher: o.Launcher,
		Policies: o.Policies, Clock: o.Clock, Retention: o.JobRetention, MaxPerNamespace: o.MaxBackgroundTasks,
		Wakes: &wake.Source{}, SessionWakes: sessionWakes,
	}
}

// addAll adds executors to the manager.
func addAll(mgr ctrl.Manager, executors ...*executor.Executor) error {
	for _, e := range executors {
		if err := mgr.Add(e); err != nil {
			return fmt.Errorf("adding the executors: %w", err)
		}
	}
	return nil
}

// kind is the reconciler of a kind.
type kind struct {
	name  string
	setup func() error
}

// setUpAll sets the reconcilers up in order.
func setUpAll(kinds []kind) error {
	for _, kind := range kinds {
		if err := kind.setup(); err != nil {
			return fmt.Errorf("setting up the reconciler of %s: %w", kind.name, err)
		}
	}
	return nil
}

// verifyPolicies adds the check of the policies to the manager, if there is one.
func (o Options) verifyPolicies(mgr ctrl.Manager, steps *step.Runner, turnWakes, modelWakes *wake.Source) error {
	if o.Policies == nil {
		return nil
	}
	steps.Account, o.Policies.Wake, o.Policies.WakeModel = o.Policies.Account, turnWakes.Wake, modelWakes.Wake
	if err := mgr.Add(o.Policies); err != nil {
		return fmt.Errorf("adding the policy verifier: %w", err)
	}
	return nil
}

// turns returns the places of active Turns.
func (o Options) turns() *fairshare.Turns {
	return fairshare.NewTurns(fairshare.TurnsOptions{
		Active: int64(o.MaxActiveTurns), BegunPerNamespace: int64(o.MaxBegunTurns), Waited: shares.Waited(shares.ActiveTurns),
	})
}

// pools returns the slots of model calls, with the memory of their conversations, and the slots of tool requests.
func (o Options) pools() executor.Pools {
	return executor.Pools{
		Models: fairshare.NewPool(fairshare.Options{
			Total:  fairshare.Amount{Places: int64(o.MaxActivities), Bytes: o.ConversationBytes},
			Waited: shares.Waited(shares.ModelCalls),
		}),
		Tools: fairshare.NewPool(fairshare.Options{
			Total:  fairshare.Amount{Places: int64(o.MaxActivities), Bytes: outputBytes},
			Waited: shares.Waited(shares.ToolRequests),
		}),
	}
}

// register registers the metrics of objects and shares, if there is a registry.
func (o Options) register(
	c client.Client, turns *fairshare.Turns, pools executor.Pools, servers *mcpserver.Reconciler,
	activities ...*executor.Executor,
) error {
	if o.Metrics == nil {
		return nil
	}
	err := o.Metrics.Register(&objectmetrics.Collector{
		Cache: c, Held: turns.Active, Waiting: turns.Waiting,
		Activities: func() int {
			running := 0
			for _, e := range activities {
				running += e.Len()
			}
			return running
		},
	})
	if err != nil {
		return fmt.Errorf("registering the object metrics: %w", err)
	}
	collector := &shares.Collector{Models: pools.Models, Tools: pools.Tools}
	if scripts, ok := o.Scripts.(bash.Confined); ok {
		collector.Scripts = scripts.Pool.Places()
	}
	if queries, ok := o.Queries.(sessiondb.Confined); ok {
		collector.SQLCalls = queries.Pool.Places()
	}
	if o.Database.DB != nil {
		collector.Connections = o.Database.DB.Places()
	}
	if o.Database.Reader != nil {
		collector.ReaderConnections = o.Database.Reader.Places()
	}
	if err := errors.Join(o.Metrics.Register(collector),
		o.Metrics.Register(&mcpserver.Collector{
			Clients: servers.Clients, Listeners: servers.Discoverer.Listeners,
		})); err != nil {
		return fmt.Errorf("registering the share metrics: %w", err)
	}
	return nil
}
