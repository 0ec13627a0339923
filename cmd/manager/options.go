package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/capstan-dev/capstan/internal/controller"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/identity"
	"github.com/capstan-dev/capstan/internal/runtime/runner"
	"github.com/capstan-dev/capstan/internal/runtime/subagent"
	"github.com/capstan-dev/capstan/internal/runtime/tool/jobspec"
)

// imageVolumesSince is the minor version of Kubernetes from which on image volumes are enabled by default.
const imageVolumesSince = 35

// deliveryAuto lets the manager choose how the launcher gets into tool pods.
const deliveryAuto = "Auto"

// options are the settings of the manager.
type options struct {
	controllers    controller.Options
	logging        zap.Options
	metricsAddress string
	probeAddress   string
	leaderElect    bool
	qps            float64
	burst          int
	launcher       string
	pullPolicy     string
	namespaces     []string
	egressAllow    []netip.Prefix
	egressDeny     []netip.Prefix
	metricsSecure  bool
	metricsCerts   string
	version        bool
	scripts        int
	sqlCalls       int
	issuer         string
	egressConfig   string
	traceContent   bool
	streams        streamOptions
	database       databaseOptions
	// memory is what the process may use; 0 for no limit.
	memory int64
}

// parse reads the command line.
func parse(args []string) (options, error) {
	o := options{}
	if err := o.flags().Parse(args); err != nil || o.version {
		return o, err
	}
	o.memory = memoryLimit(o.scriptMemory())
	o.divide(o.memory)
	o.controllers.Egress = o.egress()
	return o, o.validate()
}

// flags returns the flags of the manager.
func (o *options) flags() *flag.FlagSet {
	flags := flag.NewFlagSet("manager", flag.ContinueOnError)
	o.bindServing(flags)
	o.streams.bind(flags)
	o.database.bind(flags)
	o.bindTools(flags)
	o.bindLimits(flags)
	o.bindLogging(flags)
	return flags
}

// bindLogging adds the flags of controller-runtime for the log. Its texts leave out the defaults of production, or name
// others.
func (o *options) bindLogging(flags *flag.FlagSet) {
	o.logging.BindFlags(flags)
	for name, usage := range map[string]string{
		"zap-devel":   "Log for development: console lines from the level debug on, with stack traces of warnings.",
		"zap-encoder": "Write the log as json or as console lines. Default: json.",
		"zap-log-level": "Log from this level on: debug, info, error, panic, or a number above 0, of which a higher one " +
			"logs more. Default: info.",
		"zap-stacktrace-level": "Log stack traces from this level on: info, error or panic. Default: error.",
		"zap-time-encoding": "Write times in this form: epoch, millis, nano, iso8601, rfc3339 or rfc3339nano. " +
			"Default: rfc3339.",
	} {
		flags.Lookup(name).Usage = usage
	}
}

// bindServing adds the flags for the endpoints of the manager and its namespaces.
func (o *options) bindServing(flags *flag.FlagSet) {
	flags.BoolVar(&o.version, "version", false, "Print the version and exit.")
	flags.StringVar(&o.metricsAddress, "metrics-bind-address", ":8443",
		"Bind the metrics endpoint to this address. 0 disables it.")
	flags.BoolVar(&o.metricsSecure, "metrics-secure", true,
		"Serve the metrics over HTTPS, to clients that are authorized to get /metrics (ClusterRole "+
			"capstan-metrics-reader). If false, serve them over HTTP, without authentication.")
	flags.StringVar(&o.metricsCerts, "metrics-cert-dir", "",
		"Read the serving certificate of the metrics endpoint from this directory (tls.crt and tls.key). If empty, "+
			"generate a self-signed certificate at every start.")
	flags.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081",
		"Bind the liveness and readiness probes to this address.")
	flags.BoolVar(&o.traceContent, "trace-content", false,
		"Export the texts of users, models and tools with traces, each cut at 8 KiB. They may have personal data and "+
			"secrets. Default: false.")
	flags.BoolVar(&o.leaderElect, "leader-elect", false,
		"Enable leader election, so that only one manager is active at a time.")
	flags.Func(
		"watch-namespaces",
		"Watch only these namespaces (comma-separated). May be repeated. Default: all namespaces.",
		o.addNamespaces,
	)
}

// bindTools adds the flags for tools: the destinations of HTTP tools, and the settings of tool pods.
func (o *options) bindTools(flags *flag.FlagSet) {
	flags.Func("egress-allow-cidr",
		"Allow HTTP tools and model calls to connect to this CIDR, such as 10.96.0.0/12, although its addresses are "+
			"not public. May be repeated. Default: public addresses only.", into(&o.egressAllow))
	flags.Func("egress-deny-cidr",
		"Deny HTTP tools and model calls connections to this CIDR, even if its addresses are public or allowed. May "+
			"be repeated. The addresses of the API server are always denied.", into(&o.egressDeny))
	flags.StringVar(
		&o.egressConfig,
		"egress-config",
		"",
		"Permit Models, HTTP tools, MCPServers and webhooks of certain namespaces further destinations by this file, of "+
			"kind EgressPolicy, at most 1 MiB. It is read at start and, every 10s, when it has changed. Default: none.",
	)
	flags.StringVar(&o.issuer, "identity-issuer", identity.DefaultIssuer,
		"Sign the tokens of MCPServers with the identity AgentToken under this issuer, such as the URL where the key set "+
			"is published.")
	flags.BoolVar(&o.controllers.Payments, "payments", false,
		"Pay for calls of Tools with http.payment from the wallets of their namespaces, within the limits of both.")
	flags.StringVar(&o.controllers.Launcher.Image, "launcher-image", "",
		"Run tools with the launcher of this image. Required.")
	flags.StringVar(
		&o.pullPolicy,
		"launcher-pull-policy",
		string(corev1.PullIfNotPresent),
		"Pull the launcher image by this policy: Always, IfNotPresent or Never.",
	)
	flags.StringVar(&o.controllers.Launcher.RuntimeClass, "tool-runtime-class", "",
		"Run tool pods with this RuntimeClass, such as one of gVisor or Kata. Default: the default of the cluster.")
	flags.StringVar(
		&o.controllers.Launcher.PriorityClass,
		"tool-priority-class",
		"",
		"Run tool pods with this PriorityClass. Tool pods with at least the manager's priority (capstan-manager, "+
			"1000000) are not preempted for it. Default: the default of the cluster.",
	)
	flags.BoolVar(&o.controllers.Launcher.UserNamespaces, "tool-user-namespaces", false,
		"Run every tool pod in a user namespace (hostUsers: false). Requires Kubernetes 1.33, and nodes with a "+
			"container runtime that supports user namespaces.")
	flags.StringVar(
		&o.launcher,
		"launcher-delivery",
		deliveryAuto,
		"Mount the launcher into tool pods as an ImageVolume, or copy it with an InitContainer. Auto selects "+
			"ImageVolume if the cluster supports it.",
	)
}

// bindLimits adds the flags for limits and retention.
func (o *options) bindLimits(flags *flag.FlagSet) {
	flags.IntVar(&o.controllers.MaxActiveTurns, "max-active-turns", 1000, "Run at most this many Turns at once, "+
		"shared fairly between namespaces. A Turn that waits for client results or approvals does not count.")
	flags.IntVar(&o.controllers.MaxBegunTurns, "max-begun-turns-per-namespace", 2000,
		"Limit the Turns of a namespace that have begun and not ended, including those that wait. A waiting Turn counts "+
			"once for each 8 KiB of its status.")
	flags.IntVar(
		&o.controllers.MaxActivities,
		"max-activities",
		256,
		"Run at most this many model calls at once, and as many requests of HTTP tools and reads of tool logs.",
	)
	flags.IntVar(
		&o.scripts,
		"hook-scripts",
		runner.DefaultProcesses,
		"Run at most this many scripts of hooks at once, 1 to 64, each in a process of its own with up to 64 MiB of memory.",
	)
	flags.IntVar(
		&o.sqlCalls,
		"sql-calls",
		runner.DefaultProcesses,
		"Run at most this many calls of SQL databases at once, 1 to 64, each in a process of its own with up to 64 MiB of "+
			"memory.",
	)
	flags.Int64Var(&o.controllers.ConversationBytes, "conversation-bytes", 0,
		"Use at most this many bytes of memory for the conversations of model calls in progress, shared fairly between "+
			"namespaces. At least 16777216 (16 MiB). Default: half of the memory limit above 64 MiB.")
	flags.DurationVar(&o.controllers.ModelCallLimit, "model-call-limit", 30*time.Minute,
		"Abandon a model call whose response is not complete after this time.")
	flags.IntVar(&o.controllers.Workers, "workers", 16, "Reconcile at most this many Turns at once, and as many Sessions.")
	flags.DurationVar(
		&o.controllers.JobRetention,
		"job-retention",
		10*time.Minute,
		"Keep the Jobs and the sub-agents of a finished Turn for this time.",
	)
	flags.Func("max-background-tasks-per-namespace", "Run at most this many background tasks in each namespace, "+
		"1 to 10000. Default: 100.", inRange(&o.controllers.MaxBackgroundTasks, maxBackgroundTasks))
	flags.Func("max-sub-agent-depth", "Run sub-agents at most this many levels below a Session that a user has created, "+
		"1 to 16. Default: 3.", inRange(&o.controllers.SubAgents.Depth, subagent.HighestMaxDepth))
	flags.Func("max-sub-agents-per-turn", "Run at most this many tool calls of a Turn as sub-agents, 1 to 1024. "+
		"Default: 32.", inRange(&o.controllers.SubAgents.PerTurn, maxSubAgents))
	flags.Int64Var(&o.controllers.MaxJournalBytes, "max-journal-bytes", controller.DefaultMaxJournalBytes,
		"Limit the journal of a Session to this many bytes, even if its journalLimit is larger.")
	flags.Int64Var(&o.controllers.MaxNamespaceJournalBytes, "max-journal-bytes-per-namespace",
		controller.DefaultMaxNamespaceJournalBytes,
		"Limit the journals of a namespace to this many bytes in total.")
	flags.Int64Var(&o.controllers.JournalCacheBytes, "journal-cache-bytes", 0,
		"Use at most this many bytes of memory for cached conversations. Default: an eighth of the memory limit above "+
			"64 MiB, at most 64 MiB.")
	flags.Int64Var(&o.controllers.MaxNamespaceRecordBytes, "max-record-bytes-per-namespace",
		controller.DefaultMaxNamespaceRecordBytes,
		"Limit the files of all Sessions of a namespace to this many bytes in total.")
	flags.Int64Var(&o.controllers.RecordBytesPerSecond, "record-bytes-per-second",
		controller.DefaultRecordBytesPerSecond,
		"Write at most this many bytes of Records per second, shared fairly between namespaces.")
	flags.Float64Var(&o.qps, "kube-api-qps", 500,
		"Limit the requests to the API server to this many per second, shared fairly between namespaces.")
	flags.IntVar(&o.burst, "kube-api-burst", 1000, "Allow bursts of this many requests to the API server.")
}

// maxSubAgents is the most sub-agents of a Turn that may be permitted.
const maxSubAgents = 1024

// maxBackgroundTasks is the most background tasks of a namespace that may be permitted.
const maxBackgroundTasks = 10_000

// inRange reads a number from 1 to a highest one.
func inRange(number *int32, highest int32) func(string) error {
	return func(text string) error {
		parsed, err := strconv.ParseInt(text, 10, 32)
		if err != nil || parsed < 1 || parsed > int64(highest) {
			return fmt.Errorf("invalid number %q: must be between 1 and %d", text, highest)
		}
		*number = int32(parsed)
		return nil
	}
}

// addNamespaces accepts a list of namespaces. An empty one is rejected: it would mean all of them.
func (o *options) addNamespaces(list string) error {
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			return fmt.Errorf("invalid namespace name %q: %s", name, strings.Join(problems, "; "))
		}
		if !slices.Contains(o.namespaces, name) {
			o.namespaces = append(o.namespaces, name)
		}
	}
	return nil
}

// into reads a range of addresses and appends it to a list. One that is written with an address within it is refused:
// more may have been meant, or less.
func into(list *[]netip.Prefix) func(string) error {
	return func(cidr string) error {
		prefix, err := netip.ParsePrefix(cidr)
		if err != nil || prefix.Addr().Is4In6() {
			return fmt.Errorf("invalid CIDR %q: must be a range of addresses such as 10.96.0.0/12 or fd00:10::/64", cidr)
		}
		if prefix != prefix.Masked() {
			return fmt.Errorf("invalid CIDR %q: host bits are set; did you mean %s?", cidr, prefix.Masked())
		}
		*list = append(*list, prefix)
		return nil
	}
}

// egress makes the client that sends requests for others.
func (o *options) egress() *egress.Client {
	settings := egress.Options{Allow: o.egressAllow, Deny: o.egressDeny}
	if addresses, err := net.InterfaceAddrs(); err == nil {
		settings.Private = egress.Own(addresses)
	}
	settings.Refusals = func(host, why string) {
		ctrl.Log.WithName("egress").V(1).Info("Denied a connection", "host", host, "reason", why)
	}
	return egress.New(settings)
}

// validate returns the error of an invalid command line.
func (o *options) validate() error {
	if o.controllers.Launcher.Image == "" {
		return errors.New("--launcher-image is required")
	}
	if o.controllers.ConversationBytes < minConversationBytes {
		return fmt.Errorf("invalid --conversation-bytes %d: must be at least %d", o.controllers.ConversationBytes,
			minConversationBytes)
	}
	if err := errors.Join(o.streams.validate(), o.database.validate()); err != nil {
		return err
	}
	if o.scripts < 1 || o.scripts > 64 {
		return fmt.Errorf("invalid --hook-scripts %d: must be between 1 and 64", o.scripts)
	}
	if o.sqlCalls < 1 || o.sqlCalls > 64 {
		return fmt.Errorf("invalid --sql-calls %d: must be between 1 and 64", o.sqlCalls)
	}
	if o.controllers.ModelCallLimit <= 0 {
		return fmt.Errorf("invalid --model-call-limit %s: must be positive", o.controllers.ModelCallLimit)
	}
	switch o.launcher {
	case deliveryAuto, string(jobspec.DeliveryImageVolume), string(jobspec.DeliveryInitContainer):
	default:
		return fmt.Errorf("invalid --launcher-delivery %q: must be Auto, ImageVolume or InitContainer", o.launcher)
	}
	if err := validateClasses(o.controllers.Launcher); err != nil {
		return err
	}
	switch policy := corev1.PullPolicy(o.pullPolicy); policy {
	case corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever:
		o.controllers.Launcher.PullPolicy = policy
	default:
		return fmt.Errorf("invalid --launcher-pull-policy %q: must be Always, IfNotPresent or Never", o.pullPolicy)
	}
	return nil
}

// validateClasses checks the names of the classes of tool pods. Those of the cluster itself are refused here, because
// the policy on the manager refuses every Job with one.
func validateClasses(launcher jobspec.Launcher) error {
	for flag, class := range map[string]string{
		"tool-runtime-class": launcher.RuntimeClass, "tool-priority-class": launcher.PriorityClass,
	} {
		if class == "" {
			continue
		}
		if problems := validation.IsDNS1123Subdomain(class); len(problems) > 0 {
			return fmt.Errorf("invalid --%s %q: %s", flag, class, strings.Join(problems, "; "))
		}
	}
	if strings.HasPrefix(launcher.PriorityClass, "system-") {
		return fmt.Errorf(
			"invalid --tool-priority-class %q: classes with the prefix system- are reserved for system components",
			launcher.PriorityClass,
		)
	}
	return nil
}

// delivery chooses how the launcher gets into tool pods.
func (o *options) delivery(config *rest.Config) (jobspec.Delivery, error) {
	if o.launcher != deliveryAuto {
		return jobspec.Delivery(o.launcher), nil
	}
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return "", fmt.Errorf("creating the discovery client: %w", err)
	}
	version, err := client.ServerVersion()
	if err != nil {
		return "", fmt.Errorf("getting the version of the cluster: %w", err)
	}
	return deliveryFor(version.Major, version.Minor), nil
}

// deliveryFor is the best delivery that a version of Kubernetes has.
func deliveryFor(major, minor string) jobspec.Delivery {
	number, err := strconv.Atoi(strings.TrimRight(minor, "+"))
	if major == "1" && (err != nil || number < imageVolumesSince) {
		return jobspec.DeliveryInitContainer
	}
	return jobspec.DeliveryImageVolume
}
