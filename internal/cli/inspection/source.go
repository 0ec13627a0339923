package inspection

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/config"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/inspect"
	"github.com/capstan-dev/capstan/internal/runtime/mcp/discovery"
	"github.com/capstan-dev/capstan/internal/runtime/prompt"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
)

// Gatherer reads what an inspection needs.
type Gatherer struct {
	Client client.Reader
	// Records has the definitions of the tools of MCPServers.
	Records record.Store
	// Messages returns the conversation of the Session.
	Messages func(context.Context) ([]event.Message, error)
}

// Of returns the context of a Session, and the objects that the user may not read: nothing is known about these.
func (g Gatherer) Of(ctx context.Context, session *v1alpha1.Session) (*inspect.Context, []string, error) {
	s := &source{reader: g.Client, namespace: session.Namespace}
	resolved, err := config.Resolve(ctx, s, session)
	if err != nil {
		return nil, nil, fmt.Errorf("inspecting Session %s: %w", session.Name, err)
	}
	if err := g.remote(ctx, s, resolved); err != nil {
		return nil, nil, err
	}
	messages, err := g.Messages(ctx)
	if apierrors.IsForbidden(err) {
		s.hide("JournalEntries")
	} else if err != nil {
		return nil, nil, fmt.Errorf("inspecting Session %s: %w", session.Name, err)
	}
	repaired, _ := prompt.Repair(prompt.Sendable(messages))
	return inspect.Of(session, resolved, event.Fenced(repaired)), s.hidden, nil
}

// remote reads the texts of the tools of MCPServers.
func (g Gatherer) remote(ctx context.Context, s *source, resolved *config.Resolved) error {
	resolved.RemoteTexts = map[string]map[string]definition.RemoteTexts{}
	for name, server := range resolved.MCPServers {
		texts, err := discovery.Load(ctx, g.Records, server)
		switch {
		case err == nil:
			resolved.RemoteTexts[name] = texts
		case errors.Is(err, record.ErrNotFound):
		case apierrors.IsForbidden(err):
			s.hide("Records of MCPServer " + name)
		default:
			return fmt.Errorf("reading the tools of MCPServer %s: %w", name, err)
		}
	}
	return nil
}

// source reads the objects of one namespace, and keeps which of them the user may not read.
type source struct {
	reader    client.Reader
	namespace string
	hidden    []string
}

func (s *source) hide(what string) {
	s.hidden = append(s.hidden, what)
}

// Harness implements config.Source.
func (s *source) Harness(ctx context.Context, name string) (*v1alpha1.Harness, error) {
	return get(ctx, s, "Harness", name, &v1alpha1.Harness{})
}

// Agent implements config.Source.
func (s *source) Agent(ctx context.Context, name string) (*v1alpha1.Agent, error) {
	return get(ctx, s, "Agent", name, &v1alpha1.Agent{})
}

// Tool implements config.Source.
func (s *source) Tool(ctx context.Context, name string) (*v1alpha1.Tool, error) {
	return get(ctx, s, "Tool", name, &v1alpha1.Tool{})
}

// Capability implements config.Source.
func (s *source) Capability(ctx context.Context, name string) (*v1alpha1.Capability, error) {
	return get(ctx, s, "Capability", name, &v1alpha1.Capability{})
}

// MCPServer implements config.Source.
func (s *source) MCPServer(ctx context.Context, name string) (*v1alpha1.MCPServer, error) {
	return get(ctx, s, "MCPServer", name, &v1alpha1.MCPServer{})
}

// Model implements config.Source.
func (s *source) Model(ctx context.Context, name string) (*v1alpha1.Model, error) {
	return get(ctx, s, "Model", name, &v1alpha1.Model{})
}

// Models implements config.Source.
func (s *source) Models(ctx context.Context) ([]v1alpha1.Model, error) {
	var models v1alpha1.ModelList
	err := s.reader.List(ctx, &models, client.InNamespace(s.namespace))
	if apierrors.IsForbidden(err) {
		s.hide("Models")
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing Models: %w", err)
	}
	return models.Items, nil
}

// get reads one object; the zero value when it does not exist or may not be read.
func get[T client.Object](ctx context.Context, s *source, kind, name string, into T) (T, error) {
	var none T
	err := s.reader.Get(ctx, types.NamespacedName{Namespace: s.namespace, Name: name}, into)
	if apierrors.IsForbidden(err) {
		s.hide(kind + " " + name)
		return none, nil
	}
	if apierrors.IsNotFound(err) {
		return none, nil
	}
	if err != nil {
		return none, fmt.Errorf("reading %s %s: %w", kind, name, err)
	}
	return into, nil
}
