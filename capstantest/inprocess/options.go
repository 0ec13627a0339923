package inprocess

import (
	"crypto/ecdsa"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest/clock"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/identity"
	"github.com/capstan-dev/capstan/internal/runtime/live"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/step"
	"github.com/capstan-dev/capstan/internal/runtime/trace"
)

// Object is an object that Turns run with, or a Turn: one of the kinds of package v1alpha1.
type Object interface {
	runtime.Object
	metav1.Object
}

// Option configures a Runtime (RT-02).
type Option func(*builder) error

// builder collects the settings of the options.
type builder struct {
	objects        *objects
	clock          *clock.Clock
	store          Store
	records        RecordStore
	models         model.Registry
	prompts        func(Request)
	simulation     *v1alpha1.Simulation
	tools          map[string]JobRunner
	otherTools     JobRunner
	egress         egress.Options
	services       services
	identity       *identity.Signer
	live           live.Sink
	traces         trace.Sink
	withoutPauses  bool
	defaultSession string
	log            *slog.Logger
	// steps runs the steps.
	steps *step.Runner
	// later are the options that depend on the fields above.
	later []func() error
}

// WithNamespace sets the namespace of all objects. Default: default.
func WithNamespace(name string) Option {
	return func(b *builder) error {
		if name == "" {
			return errors.New("WithNamespace: missing name")
		}
		b.objects.namespace = name
		return nil
	}
}

// WithObjects adds Harnesses, Agents, Sessions, Models, Tools, MCPServers and Turns; an object of the same kind and
// name as an earlier one replaces it. They get the defaults of the API and are validated as the package comment
// describes. A Turn is not run: Runtime.Turn returns it, for RunTurn.
func WithObjects(given ...Object) Option {
	return func(b *builder) error {
		b.later = append(b.later, func() error {
			for _, o := range given {
				if err := b.objects.apply(o); err != nil {
					return err
				}
			}
			return nil
		})
		return nil
	}
}

// WithManifests adds the objects of all files at the top of a file system that end in .yaml, .yml or .json, as
// WithObjects does, and Secrets, in the order of the file names. They are parsed strictly: an unknown field is an
// error, and so is a kind that is not supported in process. Kustomizations are skipped. os.DirFS returns the files of a
// directory.
func WithManifests(files fs.FS) Option {
	return func(b *builder) error {
		b.later = append(b.later, func() error { return b.readFiles(files) })
		return nil
	}
}

// WithYAML adds the objects of a text, as WithManifests does those of a file.
func WithYAML(text string) Option {
	return func(b *builder) error {
		b.later = append(b.later, func() error { return b.readText([]byte(text)) })
		return nil
	}
}

// WithSecret adds a Secret, for the headers of HTTP tools and the API keys of Models.
func WithSecret(name string, data map[string]string) Option {
	return func(b *builder) error {
		return b.objects.addSecret(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data})
	}
}

// WithClock sets a clock that the test can advance. Default: the real time.
func WithClock(c *clock.Clock) Option {
	return func(b *builder) error {
		if c == nil {
			return errors.New("WithClock: missing clock")
		}
		b.clock = c
		return nil
	}
}

// WithoutPauses advances the clock to the end of each pause before another attempt of a tool call or a model call, so
// that no caller waits for it. Time limits and waits for users are not pauses.
func WithoutPauses() Option {
	return func(b *builder) error {
		b.withoutPauses = true
		return nil
	}
}

// WithStore keeps the journal in a Store. Default: one of NewMemoryStore, for this Runtime alone (RT-08).
func WithStore(s Store) Option {
	return func(b *builder) error {
		if s == nil {
			return errors.New("WithStore: missing Store")
		}
		b.store = s
		return nil
	}
}

// WithRecords keeps the files of Sessions in a RecordStore. Default: one of NewMemoryRecords, for this Runtime alone.
func WithRecords(s RecordStore) Option {
	return func(b *builder) error {
		if s == nil {
			return errors.New("WithRecords: missing RecordStore")
		}
		b.records = s
		return nil
	}
}

// WithAnswer makes a function respond for all Models of a provider, instead of that provider: a real one or
// v1alpha1.ProviderSimulated (RT-02). Its Models need no API key then.
func WithAnswer(provider v1alpha1.ModelProvider, answer Answer) Option {
	return func(b *builder) error {
		if answer == nil {
			return errors.New("WithAnswer: missing function")
		}
		b.models[provider] = answer.factory
		b.objects.functionProviders[provider] = true
		return nil
	}
}

// WithProviders sets the drivers for Models of real providers, except for those that WithAnswer replaces: those of
// package capstantest/providers. Default: none, so that the SDKs of the providers are not compiled.
func WithProviders(p Providers) Option {
	return func(b *builder) error {
		if p == nil {
			return errors.New("WithProviders: missing drivers")
		}
		for provider, factory := range p {
			if !b.objects.functionProviders[provider] {
				b.models[provider] = factory
			}
		}
		return nil
	}
}

// WithSimulation adds a Model named simulated that responds by a script. It is the default Model, unless another one is
// marked as the default (RT-03, SIM-01).
func WithSimulation(script v1alpha1.Simulation) Option {
	return func(b *builder) error {
		b.simulation = script.DeepCopy()
		return nil
	}
}

// WithPrompts passes every model request to a function before the model responds. It is called from several goroutines
// at once.
func WithPrompts(show func(Request)) Option {
	return func(b *builder) error {
		if show == nil {
			return errors.New("WithPrompts: missing function")
		}
		b.prompts = show
		return nil
	}
}

// WithTool sets the function that replaces the container of a Job tool. A Tool of that name with a job must exist. Of
// several functions for one Tool the last one applies.
func WithTool(name string, run JobRunner) Option {
	return func(b *builder) error {
		if run == nil {
			return fmt.Errorf("WithTool: missing function for Tool %q", name)
		}
		b.tools[name] = run
		return nil
	}
}

// WithTools sets the function that replaces the containers of all Job tools without a function of their own. Without
// it, calls of such tools are not executed, with reason NoFunction.
func WithTools(run JobRunner) Option {
	return func(b *builder) error {
		if run == nil {
			return errors.New("WithTools: missing function")
		}
		b.otherTools = run
		return nil
	}
}

// WithEgressAllow allows HTTP tools, requests to MCPServers and requests to model providers to reach ranges of
// addresses that are not public, such as 127.0.0.0/8 for a server of the test. Default: public addresses only.
func WithEgressAllow(ranges ...netip.Prefix) Option {
	return func(b *builder) error {
		b.egress.Allow = append(b.egress.Allow, ranges...)
		return nil
	}
}

// WithService sets the address of a server that a port of a Service stands for: a serviceRef of that name and port
// reaches it. WithEgressAllow must allow the address if it is one of this machine. Default: no Service is reached.
func WithService(name string, port int32, server netip.AddrPort) Option {
	return func(b *builder) error {
		if name == "" || port <= 0 || !server.IsValid() {
			return errors.New("WithService: missing name, port or address")
		}
		b.services[serviceKey{name, port}] = server
		return nil
	}
}

// WithConfigMap adds a ConfigMap, for certificates.
func WithConfigMap(name string, data map[string]string) Option {
	return func(b *builder) error {
		return b.objects.addConfigMap(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data})
	}
}

// WithEgressRoots sets the root certificates for HTTP tools, MCPServers and requests to model providers. Default: those
// of the system.
func WithEgressRoots(roots *x509.CertPool) Option {
	return func(b *builder) error {
		b.egress.Roots = roots
		return nil
	}
}

// WithLiveEvents calls a function with the events of a Session that no journal has, such as tool.progress. They have
// no id. The function is called from several goroutines at once, and must return at once. Default: no such events are
// made.
func WithLiveEvents(receive func(session string, e Event)) Option {
	return func(b *builder) error {
		if receive == nil {
			return errors.New("WithLiveEvents: missing function")
		}
		b.live = live.Func(func(e live.Event) { receive(e.Session.Name, e.Event) })
		return nil
	}
}

// Span is a span of the trace of a Turn.
type Span = trace.Span

// WithSpans calls a function with the spans of Turns, as the manager exports them. The function is called from several
// goroutines at once, and must return at once. Default: no spans are made.
func WithSpans(receive func(Span)) Option {
	return func(b *builder) error {
		if receive == nil {
			return errors.New("WithSpans: missing function")
		}
		b.traces = trace.Func(receive)
		return nil
	}
}

// WithIdentityKey signs the tokens of MCPServers with the identity AgentToken, with a key of the curve P-256 and an
// issuer. Default: none are signed, and such an MCPServer cannot be used.
func WithIdentityKey(issuer string, key *ecdsa.PrivateKey) Option {
	return func(b *builder) error {
		of, err := identity.NewKey(key, b.clock.Now())
		if err != nil {
			return fmt.Errorf("WithIdentityKey: %w", err)
		}
		b.identity = &identity.Signer{
			Keys: identity.Fixed{Key: of}, Issuer: issuer, Clock: func() time.Time { return b.clock.Now() },
		}
		return nil
	}
}

// WithLog sets the logger for errors that no Turn shows: why a built-in tool or a step has failed. Default:
// slog.Default().
func WithLog(log *slog.Logger) Option {
	return func(b *builder) error {
		if log == nil {
			return errors.New("WithLog: missing logger")
		}
		b.log = log
		return nil
	}
}

// WithDefaultSession names the Session that DefaultSession returns, which must exist (RT-02). The last call wins.
// Default: the only Session.
func WithDefaultSession(name string) Option {
	return func(b *builder) error {
		b.defaultSession = name
		return nil
	}
}
