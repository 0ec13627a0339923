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
	"github.com/capstan-dev/capstan/internal/runtime/tool"
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
}

// parse reads the command line.
func parse(args []string) (options, error) {
	o := options{}
	flags := flag.NewFlagSet("manager", flag.ContinueOnError)
	o.bindServing(flags)
	o.bindTools(flags)
	o.bindLimits(flags)
	o.logging.BindFlags(flags)
	if err := flags.Parse(args); err != nil || o.version {
		return o, err
	}
	o.divide(memoryLimit())
	o.controllers.Egress = o.egress()
	return o, o.validate()
}

// bindServing adds the flags for what the manager serves, and where it works.
func (o *options) bindServing(flags *flag.FlagSet) {
	flags.BoolVar(&o.version, "version", false, "Print the version and exit.")
	flags.StringVar(&o.metricsAddress, "metrics-bind-address", ":8443", "Address of the metrics, 0 for none.")
	flags.BoolVar(&o.metricsSecure, "metrics-secure", true,
		"Serve the metrics over TLS, to callers that may get /metrics (ClusterRole capstan-metrics-reader). "+
			"With false they are served in plain text to any client that reaches the address.")
	flags.StringVar(&o.metricsCerts, "metrics-cert-dir", "",
		"Directory with tls.crt and tls.key for the metrics. Without it, the certificate is self-signed and new at "+
			"every start.")
	flags.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081", "Address of the probes.")
	flags.BoolVar(&o.leaderElect, "leader-elect", false,
		"Enable leader election, so that only one manager is active at a time.")
	flags.Func(
		"watch-namespaces",
		"The namespaces to work in, separated by commas. Without it, all of them.",
		o.addNamespaces,
	)
}

// bindTools adds the flags for tools: what HTTP tools may reach, and how tool pods are made.
func (o *options) bindTools(flags *flag.FlagSet) {
	flags.Func("egress-allow-cidr",
		"A range of addresses that HTTP tools may reach, and requests to model providers, although it is not public, "+
			"such as 10.96.0.0/12. "+
			"May be given several times. Without it, none.", into(&o.egressAllow))
	flags.Func("egress-deny-cidr",
		"A range of addresses that HTTP tools and requests to model providers never reach, even if it is public or allowed. "+
			"May be given several times. The API server's own addresses are always denied.", into(&o.egressDeny))
	flags.StringVar(&o.controllers.Launcher.Image, "launcher-image", "", "Image that holds the launcher. Required.")
	flags.StringVar(
		&o.controllers.Launcher.Path,
		"launcher-path",
		tool.DefaultLauncherPath,
		"Path of the launcher in that image; images built by ko have it at /ko-app/launcher.",
	)
	flags.StringVar(
		&o.pullPolicy,
		"launcher-pull-policy",
		string(corev1.PullIfNotPresent),
		"Pull policy of the launcher's image.",
	)
	flags.StringVar(&o.controllers.Launcher.RuntimeClass, "tool-runtime-class", "",
		"RuntimeClass of tool pods, such as one of gVisor or Kata. Without it, the cluster's default.")
	flags.StringVar(
		&o.controllers.Launcher.PriorityClass,
		"tool-priority-class",
		"",
		"PriorityClass of tool pods. One that is not below the manager's own (capstan-manager, 1000000) keeps them from being preempted for it. "+
			"Without it, the cluster's default.",
	)
	flags.BoolVar(&o.controllers.Launcher.UserNamespaces, "tool-user-namespaces", false,
		"Give every tool pod a user namespace (hostUsers: false). The nodes must support it: Kubernetes 1.33 and a "+
			"recent container runtime.")
	flags.StringVar(
		&o.launcher,
		"launcher-delivery",
		deliveryAuto,
		"How the launcher gets into tool pods: ImageVolume, InitContainer, or Auto for the first where the cluster has it.",
	)
}

// bindLimits adds the flags for limits and retention.
func (o *options) bindLimits(flags *flag.FlagSet) {
	flags.IntVar(&o.controllers.MaxActiveTurns, "max-active-turns", 1000, "The most Turns that are active at once, "+
		"shared fairly between namespaces. A Turn that waits for results is not active.")
	flags.IntVar(&o.controllers.MaxBegunTurns, "max-begun-turns-per-namespace", 2000,
		"The most Turns of one namespace that have begun and not ended, those that wait included.")
	flags.IntVar(
		&o.controllers.MaxActivities,
		"max-activities",
		256,
		"The most model calls that are under way at once, and the most requests of HTTP tools.",
	)
	flags.Int64Var(&o.controllers.ConversationBytes, "conversation-bytes", 0,
		"The most memory for the conversations that models are called with, shared fairly between namespaces, at "+
			"least 16777216. "+
			"Default: half of the memory limit above 64 MiB.")
	flags.DurationVar(&o.controllers.ModelCallLimit, "model-call-limit", 30*time.Minute,
		"The longest that one model call may take as a whole.")
	flags.IntVar(&o.controllers.Workers, "workers", 16, "How many Turns, and how many Sessions, are worked on at once.")
	flags.DurationVar(
		&o.controllers.JobRetention,
		"job-retention",
		10*time.Minute,
		"How long the Jobs of a finished Turn are kept.",
	)
	flags.Int64Var(&o.controllers.MaxJournalBytes, "max-journal-bytes", controller.DefaultMaxJournalBytes,
		"The most bytes that the journal of a Session takes, whatever its journalLimit.")
	flags.Int64Var(&o.controllers.MaxNamespaceJournalBytes, "max-journal-bytes-per-namespace",
		controller.DefaultMaxNamespaceJournalBytes,
		"The most bytes that the journals of a namespace take together.")
	flags.Int64Var(&o.controllers.JournalCacheBytes, "journal-cache-bytes", 0,
		"The most memory that cached conversations take. Default: an eighth of the memory limit above 64 MiB, at "+
			"most 64 MiB.")
	flags.Float64Var(&o.qps, "kube-api-qps", 500,
		"The most requests to the API server a second, over all kinds, shared fairly between namespaces.")
	flags.IntVar(&o.burst, "kube-api-burst", 1000, "The most requests to the API server at once.")
}

// addNamespaces accepts a list of namespaces. An empty one is rejected: it would mean all of them.
func (o *options) addNamespaces(list string) error {
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			return fmt.Errorf("%q is not the name of a namespace: %s", name, strings.Join(problems, "; "))
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
			return fmt.Errorf("%q is not a range of addresses such as 10.96.0.0/12 or fd00:10::/64", cidr)
		}
		if prefix != prefix.Masked() {
			return fmt.Errorf("%q has bits behind its length: did you mean %s?", cidr, prefix.Masked())
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
		ctrl.Log.WithName("egress").V(1).Info("a host was refused", "host", host, "why", why)
	}
	return egress.New(settings)
}

// validate returns what is wrong with the command line.
func (o *options) validate() error {
	if o.controllers.Launcher.Image == "" {
		return errors.New("--launcher-image is required: the image that holds the launcher")
	}
	if o.controllers.ConversationBytes < minConversationBytes {
		return fmt.Errorf("--conversation-bytes is %d: it must be at least %d", o.controllers.ConversationBytes,
			minConversationBytes)
	}
	if o.controllers.ModelCallLimit <= 0 {
		return fmt.Errorf("--model-call-limit is %s: it must be positive", o.controllers.ModelCallLimit)
	}
	switch o.launcher {
	case deliveryAuto, string(tool.DeliveryImageVolume), string(tool.DeliveryInitContainer):
	default:
		return fmt.Errorf("--launcher-delivery is %q: it must be Auto, ImageVolume or InitContainer", o.launcher)
	}
	if err := validateClasses(o.controllers.Launcher); err != nil {
		return err
	}
	switch policy := corev1.PullPolicy(o.pullPolicy); policy {
	case corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever:
		o.controllers.Launcher.PullPolicy = policy
	default:
		return fmt.Errorf("--launcher-pull-policy is %q: it must be Always, IfNotPresent or Never", o.pullPolicy)
	}
	return nil
}

// validateClasses checks the names of the classes of tool pods. Those of the cluster itself are refused here, because
// the policy on the manager refuses every Job with one.
func validateClasses(launcher tool.Launcher) error {
	for flag, class := range map[string]string{"tool-runtime-class": launcher.RuntimeClass, "tool-priority-class": launcher.PriorityClass} {
		if class == "" {
			continue
		}
		if problems := validation.IsDNS1123Subdomain(class); len(problems) > 0 {
			return fmt.Errorf("--%s is %q: %s", flag, class, strings.Join(problems, "; "))
		}
	}
	if strings.HasPrefix(launcher.PriorityClass, "system-") {
		return fmt.Errorf(
			"--tool-priority-class is %q: classes of the cluster's own components are not for tools",
			launcher.PriorityClass,
		)
	}
	return nil
}

// delivery chooses how the launcher gets into tool pods.
func (o *options) delivery(config *rest.Config) (tool.Delivery, error) {
	if o.launcher != deliveryAuto {
		return tool.Delivery(o.launcher), nil
	}
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return "", fmt.Errorf("making the client that asks for the cluster's version: %w", err)
	}
	version, err := client.ServerVersion()
	if err != nil {
		return "", fmt.Errorf("asking for the cluster's version: %w", err)
	}
	return deliveryFor(version.Major, version.Minor), nil
}

// deliveryFor is the best delivery that a version of Kubernetes has.
func deliveryFor(major, minor string) tool.Delivery {
	number, err := strconv.Atoi(strings.TrimRight(minor, "+"))
	if major == "1" && (err != nil || number < imageVolumesSince) {
		return tool.DeliveryInitContainer
	}
	return tool.DeliveryImageVolume
}
