package inprocess

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest/clock"
	"github.com/capstan-dev/capstan/internal/runtime/apivalidation"
	"github.com/capstan-dev/capstan/internal/runtime/budget/keeper"
	"github.com/capstan-dev/capstan/internal/runtime/config"
	"github.com/capstan-dev/capstan/internal/runtime/connection/token"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/hook/bash"
	"github.com/capstan-dev/capstan/internal/runtime/hook/check"
	"github.com/capstan-dev/capstan/internal/runtime/inprocess"
	"github.com/capstan-dev/capstan/internal/runtime/invocation"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/memory"
	"github.com/capstan-dev/capstan/internal/runtime/mcp"
	"github.com/capstan-dev/capstan/internal/runtime/mcp/discovery"
	"github.com/capstan-dev/capstan/internal/runtime/model/simulator"
	"github.com/capstan-dev/capstan/internal/runtime/modelcall"
	"github.com/capstan-dev/capstan/internal/runtime/ratelimit"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/sessiondb"
	"github.com/capstan-dev/capstan/internal/runtime/sessiondb/sqlite"
	"github.com/capstan-dev/capstan/internal/runtime/step"
	_ "github.com/capstan-dev/capstan/internal/runtime/tool/builtin/testmath" // for tests of users
	"github.com/capstan-dev/capstan/internal/runtime/tool/inputschema"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// ErrStopped means that the context of New has ended while a Turn was running. The Turn's state stays in the journal: a
// Runtime on the same Store continues it when the Turn is run there.
var ErrStopped = inprocess.ErrStopped

// RefusedError reports that a Turn does not accept a result or decision for one of its calls. Reason and Message are
// those of the condition Accepted of a ToolResult.
type RefusedError = inprocess.RefusedError

// Runtime runs Turns. It is safe for concurrent use, and is shared by sharing the pointer (RT-07).
type Runtime struct {
	built *builder
	steps *step.Runner
	loop  *inprocess.Loop
	store Store
}

// simulatedModel is the name of the Model that WithSimulation adds.
const simulatedModel = "simulated"

// New builds a Runtime from options, in the order of RT-03: the drivers of models, the journal and the clock, the
// simulated Model, the objects in the order of their options, and the check that there is a model. The first failure
// aborts. Each Session must be usable: a missing reference is an error with the remedy. Turns keep their state when ctx
// ends: see ErrStopped.
func New(ctx context.Context, options ...Option) (*Runtime, error) {
	b := newBuilder()
	for _, option := range options {
		if err := option(b); err != nil {
			return nil, fmt.Errorf("building the runtime: %w", err)
		}
	}
	if err := b.build(ctx); err != nil {
		return nil, fmt.Errorf("building the runtime: %w", err)
	}
	r := &Runtime{built: b, steps: b.steps, store: b.store}
	o := inprocess.Options{Steps: r.steps, Objects: b.objects, Clock: b.clock, Jobs: b.jobs, Log: b.log}
	if b.withoutPauses {
		o.OnPause = b.clock.Set
	}
	r.loop = inprocess.New(ctx, o)
	r.steps.Tasks = inprocess.TaskHost{Loop: r.loop}
	return r, nil
}

func newBuilder() *builder {
	b := &builder{
		clock:    &clock.Clock{},
		store:    memory.New(),
		records:  NewMemoryRecords(),
		models:   simulator.Registry(),
		tools:    map[string]JobRunner{},
		services: services{},
		log:      slog.Default(),
	}
	b.objects = &objects{
		namespace: "default", functionProviders: map[v1alpha1.ModelProvider]bool{}, schemas: inputschema.NewValidator(),
		byKey: map[key]apivalidation.Object{}, secrets: map[string]*corev1.Secret{},
		configMaps: map[string]*corev1.ConfigMap{},
	}
	b.objects.budgets = &keeper.Memory{Session: b.objects.Session}
	return b
}

// build adds the objects, once their dependencies are known.
func (b *builder) build(ctx context.Context) error {
	if b.prompts != nil {
		b.models = observed(b.models, b.prompts)
	}
	b.objects.models, b.objects.now = b.models, b.clock.Now
	b.objects.ledgers = keeper.New(b.objects.budgets, b.clock.Now)
	var err error
	if b.steps, err = b.newSteps(); err != nil {
		return err
	}
	b.objects.checkKey = b.steps.CheckKey
	b.objects.servers.discover = discovery.Discoverer{
		Egress:     b.steps.Egress,
		Secrets:    b.steps.Secrets,
		ConfigMaps: b.steps.ConfigMaps,
		Schemas:    b.objects.schemas,
		Identity:   b.identity,
	}.Discover
	for _, add := range b.later {
		if err := add(); err != nil {
			return err
		}
	}
	if err := b.simulate(ctx); err != nil {
		return err
	}
	for name := range b.tools {
		if found := get[*v1alpha1.Tool](b.objects, name); found == nil || found.Spec.Job == nil {
			return fmt.Errorf("WithTool: Tool %q with a job does not exist", name)
		}
	}
	if b.defaultSession != "" && b.objects.Session(b.defaultSession) == nil {
		return fmt.Errorf("WithDefaultSession: Session %q does not exist", b.defaultSession)
	}
	return b.check(ctx)
}

// simulate adds the simulated Model, as the default one if there is no other.
func (b *builder) simulate(ctx context.Context) error {
	if b.simulation == nil {
		return nil
	}
	m := &v1alpha1.Model{Spec: v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderSimulated, Simulation: b.simulation}}
	m.Name = simulatedModel
	models, err := b.objects.Models(ctx)
	if err != nil {
		return err
	}
	if !hasDefault(models) {
		m.Annotations = map[string]string{v1alpha1.AnnotationDefaultModel: "true"}
	}
	return b.objects.apply(m)
}

func hasDefault(models []v1alpha1.Model) bool {
	_, found := config.ResolveModel("", "", models)
	return found
}

// check returns why a Session cannot be used.
func (b *builder) check(ctx context.Context) error {
	for _, session := range all[*v1alpha1.Session](b.objects) {
		if _, err := b.resolve(ctx, session); err != nil {
			return err
		}
	}
	if len(all[*v1alpha1.Model](b.objects)) == 0 {
		return errNoModel
	}
	return nil
}

// errNoModel names both remedies (RT-03).
var errNoModel = errors.New(
	"there is no model: mark a Model as the default one with the annotation " + v1alpha1.AnnotationDefaultModel +
		`: "true", or add a simulated one with WithSimulation`,
)

// resolve reads the configuration of a Session. It is an error if the Session cannot be used.
func (b *builder) resolve(ctx context.Context, session *v1alpha1.Session) (*config.Resolved, error) {
	resolved, err := config.Resolve(ctx, b.objects, session)
	if err != nil {
		return nil, err
	}
	switch reason, message := resolved.Problem(); {
	case reason == v1alpha1.ReasonModelNotFound && resolved.Effective.ModelRef == "" && !hasDefault(resolved.Models):
		return nil, fmt.Errorf("Session %q: %w", session.Name, errNoModel)
	case reason != "":
		return nil, fmt.Errorf("Session %q cannot be used (%s): %s", session.Name, reason, message)
	}
	return resolved, nil
}

// newSteps returns the runner of the steps.
func (b *builder) newSteps() (*step.Runner, error) {
	now, client := b.clock.Now, egress.New(b.egress)
	client.UseServices(b.services)
	secrets := func(_ context.Context, _, name string) (*corev1.Secret, error) { return b.objects.secret(name) }
	hooks, err := check.Executors(client, secrets, bash.InProcess{})
	if err != nil {
		return nil, err
	}
	records := record.New(b.records, record.Options{Clock: now})
	return &step.Runner{
		Runner: invocation.Runner{
			Log:       journal.New(b.store, journal.Options{Clock: now}),
			Records:   records,
			Databases: &sessiondb.Service{Records: records, Processes: sqlite.InProcess{}},
			Clock:     now,
			Egress:    client,
			Clients:   mcp.NewClients(client, mcp.ClientsOptions{Idle: keepClients}),
			Secrets:   secrets, Identity: b.identity, Live: b.live, Titles: titles{b.objects},
			Sessions:    sessions{b.objects},
			Connections: token.NewSource(secrets, client, now),
			ConfigMaps: func(_ context.Context, _, name string) (*corev1.ConfigMap, error) {
				return b.objects.configMap(name)
			},
		},
		Options: modelcall.Options{
			Models: b.models, Budgets: b.objects.ledgers,
			Limits:        ratelimit.NewModels(now),
			LimitedModels: func(ctx context.Context, _ string) ([]v1alpha1.Model, error) { return b.objects.Models(ctx) },
			Pause: func(ctx context.Context, d time.Duration) error {
				until := now().Add(d)
				if b.withoutPauses {
					b.clock.Set(until)
				}
				if b.clock.Reach(ctx, until) {
					return nil
				}
				return ctx.Err()
			},
		},
		ToolLimits: &ratelimit.Calls{Counter: ratelimit.NewMemory(now)},
		Validator:  inputschema.NewValidator(),
		Traces:     b.traces,
		Hooks:      hooks,
		Hooked: func(ctx context.Context, t turnstate.Turn) (bool, error) {
			session := b.objects.Session(t.Session.Name)
			if session == nil {
				return false, nil
			}
			resolved, err := config.Resolve(ctx, b.objects, session)
			if err != nil {
				return false, err
			}
			return resolved.PromptHooks(), nil
		},
	}, nil
}

// DefaultSession is the name of the Session set by WithDefaultSession, otherwise of the only Session; empty for none
// (RT-04).
func (r *Runtime) DefaultSession() string {
	if r.built.defaultSession != "" {
		return r.built.defaultSession
	}
	sessions := slices.DeleteFunc(all[*v1alpha1.Session](r.built.objects), func(s *v1alpha1.Session) bool {
		return s.Spec.Origin != nil
	})
	if len(sessions) == 1 {
		return sessions[0].Name
	}
	return ""
}

// Apply adds objects while Turns run, or replaces those of the same kind and name, as `kubectl apply` would: a Harness
// that is archived stops a Turn before its next model call or tool call (BLK-02), and a Turn that waits for a Secret
// continues when a *corev1.Secret adds it.
func (r *Runtime) Apply(given ...Object) error {
	for _, o := range given {
		if err := r.built.objects.applyAny(o); err != nil {
			return fmt.Errorf("applying: %w", err)
		}
	}
	r.loop.Changed()
	return nil
}

// Budget returns a Budget with its current balance; nil for an unused name. The last model calls that have ended are
// settled.
func (r *Runtime) Budget(ctx context.Context, name string) (*v1alpha1.Budget, error) {
	if err := r.built.objects.ledgers.Flush(ctx); err != nil {
		return nil, fmt.Errorf("settling model calls: %w", err)
	}
	return r.built.objects.budgets.Get(name), nil
}

// EndSession ends a Session, as its deletion in a cluster does: its Turns are cancelled, the hooks at the event
// SessionEnd run, and it accepts no Turn any more. The Sessions of its sub-agents end as well. The result has the hooks
// of the Session that did not allow or have failed. Its journal and its files stay in the Store.
func (r *Runtime) EndSession(ctx context.Context, session string) ([]v1alpha1.HookOutcome, error) {
	of, err := r.session(session)
	if err != nil {
		return nil, fmt.Errorf("ending a Session: %w", err)
	}
	outcomes, err := r.loop.EndSession(ctx, of.Name)
	for _, other := range all[*v1alpha1.Session](r.built.objects) {
		if caller := other.Spec.Origin.SubAgentOf(); err == nil && caller != nil && caller.Session.UID == of.UID {
			_, err = r.EndSession(ctx, other.Name)
		}
	}
	if err != nil {
		return outcomes, fmt.Errorf("ending Session %s: %w", of.Name, err)
	}
	return outcomes, nil
}

// SessionHooks shows the hooks at the events SessionStart and SessionEnd, as the status of the Session does. It is nil
// until the first Turn of the Session begins, before which those at its start run.
func (r *Runtime) SessionHooks(session string) *v1alpha1.SessionHooks {
	of, err := r.session(session)
	if err != nil {
		return nil
	}
	return r.loop.Hooks(of.Name)
}

// session is the Session of a name; the default one for an empty name.
func (r *Runtime) session(name string) (*v1alpha1.Session, error) {
	if name == "" {
		name = r.DefaultSession()
	}
	if session := r.built.objects.Session(name); session != nil {
		return session, nil
	}
	return nil, fmt.Errorf("session not found: %q", name)
}

// newUID is the UID of an object that is created now.
func newUID() types.UID {
	return types.UID(uuid.NewString())
}
