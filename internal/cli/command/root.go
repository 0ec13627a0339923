package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/klog/v2"

	"github.com/capstan-dev/capstan/internal/cli/access"
	"github.com/capstan-dev/capstan/internal/cli/outcome"
	"github.com/capstan-dev/capstan/internal/cli/text"
	"github.com/capstan-dev/capstan/internal/version"
)

// program is what all commands share: flags, streams, and the connection once there is one.
type program struct {
	flags *genericclioptions.ConfigFlags
	in    io.Reader
	out   text.Printer
	err   text.Printer
	// terminal reports whether the user can be asked.
	terminal bool
	color    string
	// managers is the namespace of the manager.
	managers string
	cluster  *access.Cluster
	// region is the end of the terminal, above which notes are printed; nil while nothing is replaced there.
	region *text.Region
}

// Main runs the program with its arguments, and returns its exit code.
func Main(ctx context.Context, arguments []string, in io.Reader, out, err io.Writer) int {
	klog.SetLogger(logr.Discard()) // what the client libraries log is not for users, their errors neither
	p := &program{
		flags: genericclioptions.NewConfigFlags(true), in: in,
		out: text.Printer{Out: out}, err: text.Printer{Out: err}, terminal: isTerminal(in) && isTerminal(out),
	}
	root := p.root()
	root.SetArgs(arguments)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(err)
	return p.exit(root.ExecuteContext(ctx))
}

// Root returns the command with all others, for documents and tests.
func Root() *cobra.Command {
	return (&program{flags: genericclioptions.NewConfigFlags(true)}).root()
}

func (p *program) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "kubectl-capstan",
		Short: "Talk to agents, read their conversations, and decide about their calls",
		Long: `Talk to agents on Kubernetes, read their conversations, and decide about their calls.

Every command works on the objects of the API server with your own permissions: the roles capstan-view, capstan-edit
and capstan-approve.

` + outcome.Table(),
		Example: `  # A message to a new Session, and the response
  kubectl capstan ask --harness base "How many words has this sentence?"

  # Go on with it
  kubectl capstan chat SESSION

  # What is wrong here?
  kubectl capstan doctor`,
		Annotations:       map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl capstan"},
		SilenceUsage:      true,
		SilenceErrors:     true,
		PersistentPreRunE: func(*cobra.Command, []string) error { return p.colors() },
	}
	p.flags.AddFlags(root.PersistentFlags())
	root.PersistentFlags().StringVar(&p.color, "color", "auto", "Colors: auto, for a terminal, always or never.")
	root.PersistentFlags().StringVar(&p.managers, "manager-namespace", "capstan-system", "The namespace of the manager.")
	root.AddCommand(
		p.ask(), p.chat(), p.watch(), p.log(), p.tree(), p.cost(),
		p.approve(), p.reject(), p.answer(), p.cancel(),
		p.connectProvider(), p.connections(), p.disconnect(),
		p.files(), p.images(), p.storage(), p.secrets(), p.memory(), p.resources(), p.inspect(), p.doctor(),
		p.version(),
	)
	for _, flag := range []string{"namespace", "context"} {
		complete := p.namespaces
		if flag == "context" {
			complete = p.contexts
		}
		if err := root.RegisterFlagCompletionFunc(flag, complete); err != nil {
			panic(err) // the flags are those of the line above
		}
	}
	return root
}

// colors decides about colors: on a terminal, unless the environment or the flag says otherwise.
func (p *program) colors() error {
	switch p.color {
	case "always":
		p.out.Color, p.err.Color = true, true
	case "never":
	case "auto":
		plain := os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb"
		p.out.Color = !plain && isTerminal(p.out.Out)
		p.err.Color = !plain && isTerminal(p.err.Out)
	default:
		return usage("--color is auto, always or never")
	}
	return nil
}

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// connect returns the cluster of the kubeconfig.
func (p *program) connect() (*access.Cluster, error) {
	if p.cluster != nil {
		return p.cluster, nil
	}
	cluster, err := access.Connect(p.flags)
	p.cluster = cluster
	return cluster, err
}

// note tells the user something beside the output.
func (p *program) note(message string) {
	// A note that cannot be written is not worth the end of the command.
	_ = p.region.Above(func() error { return p.err.Lines(text.Of(text.Faint, message)) })
}

// usageError is a mistake in arguments or flags.
type usageError string

func (e usageError) Error() string { return string(e) }

func usage(format string, arguments ...any) error {
	return usageError(fmt.Sprintf(format, arguments...))
}

// exit reports an error, and returns the exit code.
func (p *program) exit(err error) int {
	if err == nil {
		return outcome.Done
	}
	var end *outcome.Error
	if errors.As(err, &end) {
		if end.Code == outcome.Interrupted {
			_ = p.err.Lines(nil) // what was printed, or the ^C of the terminal, has no end
		}
		if end.Message != "" {
			_ = p.err.Lines(text.Of(text.Plain, end.Message))
		}
		return end.Code
	}
	namespace := ""
	if p.cluster != nil {
		namespace = p.cluster.Namespace
	}
	lines := text.Block(text.Span{Style: text.Bad, Text: "error:"}, 7, text.Plain, err.Error(),
		text.Bound{Lines: 40, Bytes: 8 << 10})
	if hint := access.Explain(err, namespace); hint != "" {
		lines = append(lines, text.Of(text.Plain, hint))
	}
	var wrong usageError
	if errors.As(err, &wrong) || isCobraUsage(err) {
		lines = append(lines, text.Of(text.Faint, "See: kubectl capstan COMMAND --help"))
	}
	_ = p.err.Lines(lines...)
	return outcome.Failure
}

// isCobraUsage reports whether cobra has refused the arguments: its errors have no type.
func isCobraUsage(err error) bool {
	message := err.Error()
	for _, beginning := range []string{
		"unknown command", "unknown flag", "unknown shorthand", "accepts ", "requires ", "required flag", "invalid argument",
		"flag needs", "if any flags",
	} {
		if strings.HasPrefix(message, beginning) {
			return true
		}
	}
	return false
}

func (p *program) version() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this program",
		Example: "  kubectl capstan version",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return p.out.Lines(text.Of(text.Plain, version.Get().String()))
		},
	}
}
