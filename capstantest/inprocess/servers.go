package inprocess

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
	"github.com/capstan-dev/capstan/internal/runtime/mcp/discovery"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

const (
	// askAgain is the time until a server is asked again for its tools that has not responded, and refresh that of one
	// that has, if its MCPServer sets none.
	askAgain = 30 * time.Second
	refresh  = 10 * time.Minute
	// keepClients is how long the client of a server is kept that is not used: a Runtime is not closed.
	keepClients = 10 * time.Second
)

// servers has the tools of MCPServers. A server is asked for them when they are used first, and then from time to time,
// as the controller does.
type servers struct {
	discover func(context.Context, *v1alpha1.MCPServer) (discovery.Finding, error)

	mu    sync.Mutex
	known map[string]discovered
}

// discovered is what a server has responded.
type discovered struct {
	uid        types.UID
	generation int64
	next       time.Time
	status     v1alpha1.MCPServerStatus
	texts      map[string]definition.RemoteTexts
}

// observe returns an MCPServer with its status.
func (s *servers) observe(ctx context.Context, server *v1alpha1.MCPServer, now time.Time) (*v1alpha1.MCPServer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.known[server.Name]
	if d.uid != server.UID || d.generation != server.Generation || !now.Before(d.next) {
		finding, err := s.discover(ctx, server)
		if err != nil {
			return nil, err
		}
		d.add(server, finding, now)
		if s.known == nil {
			s.known = map[string]discovered{}
		}
		s.known[server.Name] = d
	}
	observed := server.DeepCopy()
	d.status.DeepCopyInto(&observed.Status)
	return observed, nil
}

// add adds the result of a discovery.
func (d *discovered) add(server *v1alpha1.MCPServer, f discovery.Finding, now time.Time) {
	at := metav1.NewTime(now.Truncate(time.Second))
	if d.uid != server.UID {
		*d = discovered{}
	}
	d.uid, d.generation, d.next = server.UID, server.Generation, now.Add(askAgain)
	if f.Reason == v1alpha1.ReasonReady {
		d.next = now.Add(refresh)
		if interval := server.Spec.RefreshInterval; interval != nil {
			d.next = now.Add(interval.Duration)
		}
		d.status.DiscoveredTools, d.status.DefinitionBytes = f.Catalog.Tools(), f.Catalog.Bytes()
		d.status.ProtocolVersion, d.status.LastDiscoveryTime = f.ProtocolVersion, &at
		definition.SetDiscovered(&d.status, &server.Spec)
		d.texts = f.Catalog.Texts()
	}
	condition.SetReady(&d.status.Conditions, server.Generation, at, f.Reason, f.Message)
	d.status.ObservedGeneration = server.Generation
}

// MCPServer implements config.Source.
func (s *objects) MCPServer(ctx context.Context, name string) (*v1alpha1.MCPServer, error) {
	server := get[*v1alpha1.MCPServer](s, name)
	if server == nil {
		return nil, nil
	}
	return s.servers.observe(ctx, server, s.now())
}

// Texts implements loop.Objects.
func (s *objects) Texts() turnstate.Texts { return &s.servers }

// Prompt implements turnstate.Texts: no prompt is left out.
func (*servers) Prompt(context.Context) (string, error) { return "", nil }

// CapabilityPrompt implements turnstate.Texts: no prompt is left out.
func (*servers) CapabilityPrompt(context.Context, string) (string, error) { return "", nil }

// InitialFiles implements turnstate.Texts: no file is left out.
func (*servers) InitialFiles(context.Context) ([]v1alpha1.InitialFile, error) { return nil, nil }

// Tool implements turnstate.Texts: a Tool is whole.
func (*servers) Tool(_ context.Context, cached *v1alpha1.Tool) (*v1alpha1.Tool, error) {
	return cached, nil
}

// Model implements turnstate.Texts: a Model is whole.
func (*servers) Model(_ context.Context, cached *v1alpha1.Model) (*v1alpha1.Model, error) {
	return cached, nil
}

// MCPServer implements turnstate.Texts: an MCPServer is whole.
func (*servers) MCPServer(_ context.Context, cached *v1alpha1.MCPServer) (*v1alpha1.MCPServer, error) {
	return cached, nil
}

// whole returns the texts of the tools of all MCPServers, by the names of the MCPServer and of the tool.
func (s *servers) whole() map[string]map[string]definition.RemoteTexts {
	s.mu.Lock()
	defer s.mu.Unlock()
	texts := make(map[string]map[string]definition.RemoteTexts, len(s.known))
	for name, d := range s.known {
		texts[name] = d.texts
	}
	return texts
}

// Remote implements turnstate.Texts.
func (s *servers) Remote(
	_ context.Context, server *v1alpha1.MCPServer,
) (map[string]definition.RemoteTexts, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[server.Name].texts, nil
}
