// Package configsource reads the configuration layers of Sessions, Agents and Harnesses with a client; package config
// merges them. A Turn reads them again in every phase, so that an archived Harness or a removed Tool takes effect at
// once (CFG-02, BLK-02).
//
// It also knows which changes of an object matter to those that name it, and has the indexes to find these.
package configsource

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/config"
)

// Session reads the layers of a Session. A missing object is not an error: Problem and Blocker of the result report it.
func Session(ctx context.Context, reader client.Reader, session *v1alpha1.Session) (*config.Resolved, error) {
	return config.Resolve(ctx, source{reader, session.Namespace}, session)
}

// Agent reads the objects that the layer of an Agent names, as Session does.
func Agent(ctx context.Context, reader client.Reader, agent *v1alpha1.Agent) (*config.Resolved, error) {
	return config.ResolveAgent(ctx, source{reader, agent.Namespace}, agent)
}

// Harness reads the ancestors of a Harness and the objects that the chain names, as Session does.
func Harness(ctx context.Context, reader client.Reader, leaf *v1alpha1.Harness) (*config.Resolved, error) {
	return config.ResolveHarness(ctx, source{reader, leaf.Namespace}, leaf)
}

// Capability reads the objects that a Capability names, as Session does.
func Capability(ctx context.Context, reader client.Reader, own *v1alpha1.Capability) (*config.Resolved, error) {
	return config.ResolveCapability(ctx, source{reader, own.Namespace}, own)
}

// source reads the objects of one namespace.
type source struct {
	reader    client.Reader
	namespace string
}

// Harness implements config.Source.
func (s source) Harness(ctx context.Context, name string) (*v1alpha1.Harness, error) {
	return get(ctx, s, name, &v1alpha1.Harness{})
}

// Agent implements config.Source.
func (s source) Agent(ctx context.Context, name string) (*v1alpha1.Agent, error) {
	return get(ctx, s, name, &v1alpha1.Agent{})
}

// Tool implements config.Source.
func (s source) Tool(ctx context.Context, name string) (*v1alpha1.Tool, error) {
	return get(ctx, s, name, &v1alpha1.Tool{})
}

// Capability implements config.Source.
func (s source) Capability(ctx context.Context, name string) (*v1alpha1.Capability, error) {
	return get(ctx, s, name, &v1alpha1.Capability{})
}

// MCPServer implements config.Source.
func (s source) MCPServer(ctx context.Context, name string) (*v1alpha1.MCPServer, error) {
	return get(ctx, s, name, &v1alpha1.MCPServer{})
}

// Model implements config.Source.
func (s source) Model(ctx context.Context, name string) (*v1alpha1.Model, error) {
	return get(ctx, s, name, &v1alpha1.Model{})
}

// Models implements config.Source. The Models are those of the cache and must not be changed: a namespace can have
// many.
func (s source) Models(ctx context.Context) ([]v1alpha1.Model, error) {
	var models v1alpha1.ModelList
	if err := s.reader.List(ctx, &models, client.InNamespace(s.namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Models: %w", err)
	}
	return models.Items, nil
}

// get reads one object; the zero value when it does not exist.
func get[T client.Object](ctx context.Context, s source, name string, into T) (T, error) {
	var none T
	err := s.reader.Get(ctx, types.NamespacedName{Namespace: s.namespace, Name: name}, into)
	if apierrors.IsNotFound(err) {
		return none, nil
	}
	if err != nil {
		return none, fmt.Errorf("reading %T %s: %w", into, name, err)
	}
	return into, nil
}
