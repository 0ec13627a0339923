// Package layers reads the configuration layers of a Session with a client; package config merges them. It reads them
// again in every phase of a Turn, so that an archived Harness or a removed Tool takes effect at once (CFG-02, BLK-02).
package layers

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/config"
)

// Resolve reads the layers of the Session. A missing object is not an error: Problem and Blocker of the result report
// it.
func Resolve(ctx context.Context, reader client.Reader, session *v1alpha1.Session) (*config.Resolved, error) {
	return config.Resolve(&source{ctx: ctx, reader: reader, namespace: session.Namespace}, session)
}

// source reads the objects of one namespace for one call of Resolve.
type source struct {
	ctx       context.Context
	reader    client.Reader
	namespace string
}

// Harness implements config.Source.
func (s *source) Harness(name string) (*v1alpha1.Harness, error) {
	return get(s, name, &v1alpha1.Harness{})
}

// Agent implements config.Source.
func (s *source) Agent(name string) (*v1alpha1.Agent, error) {
	return get(s, name, &v1alpha1.Agent{})
}

// Tool implements config.Source.
func (s *source) Tool(name string) (*v1alpha1.Tool, error) {
	return get(s, name, &v1alpha1.Tool{})
}

// Models implements config.Source. The Models are those of the cache and must not be changed: a namespace can have
// many.
func (s *source) Models() ([]v1alpha1.Model, error) {
	var models v1alpha1.ModelList
	if err := s.reader.List(s.ctx, &models, client.InNamespace(s.namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Models: %w", err)
	}
	return models.Items, nil
}

// get reads one object; the zero value when it does not exist.
func get[T client.Object](s *source, name string, into T) (T, error) {
	var none T
	err := s.reader.Get(s.ctx, types.NamespacedName{Namespace: s.namespace, Name: name}, into)
	if apierrors.IsNotFound(err) {
		return none, nil
	}
	if err != nil {
		return none, fmt.Errorf("reading %T %s: %w", into, name, err)
	}
	return into, nil
}
