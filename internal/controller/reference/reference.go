// Package reference finds the Models and Tools that a configuration layer names, and the objects whose layer names a
// given one.
package reference

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/status"
	"github.com/capstan-dev/capstan/internal/runtime/config"
)

// Indexed fields of objects with a configuration layer.
const (
	// IndexModel finds the objects whose layer names a Model.
	IndexModel = "modelName"
	// IndexTool finds the objects whose layer names a Tool.
	IndexTool = "toolName"
)

// Seen describes the Models and Tools that a layer names, by name. An object that is not in it is missing.
type Seen struct {
	// Models that the layer names.
	Models map[string]config.Presence
	// Tools that the layer names.
	Tools map[string]config.Presence
}

// Problem returns the reason and message for named objects that cannot be used; empty if all can.
func (s Seen) Problem(e config.Effective) (reason, message string) {
	return e.Problem(
		func(name string) (config.Presence, string) { return s.Models[name], config.SeeItsCondition },
		func(name string) config.Presence { return s.Tools[name] },
	)
}

// Look reads the objects that the merged layers name in a namespace.
func Look(ctx context.Context, reader client.Reader, namespace string, e config.Effective) (Seen, error) {
	seen := Seen{Models: map[string]config.Presence{}, Tools: map[string]config.Presence{}}
	if e.ModelRef != "" {
		presence, err := look(ctx, reader, namespace, e.ModelRef, &v1alpha1.Model{})
		if err != nil {
			return Seen{}, err
		}
		seen.Models[e.ModelRef] = presence
	}
	for _, name := range e.Tools {
		tool := &v1alpha1.Tool{}
		presence, err := look(ctx, reader, namespace, name, tool)
		if err != nil {
			return Seen{}, err
		}
		seen.Tools[name] = e.Network.Presence(tool, presence)
	}
	return seen, nil
}

func look(
	ctx context.Context,
	reader client.Reader,
	namespace, name string,
	into client.Object,
) (config.Presence, error) {
	err := reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, into)
	switch {
	case apierrors.IsNotFound(err):
		return config.Missing, nil
	case err != nil:
		return config.Missing, fmt.Errorf("reading %T %s/%s: %w", into, namespace, name, err)
	case meta.IsStatusConditionTrue(status.Conditions(into), v1alpha1.ConditionReady):
		return config.Usable, nil
	default:
		return config.NotReady, nil
	}
}

// Index makes the cache index objects of a kind by the objects that their layer names. layer returns the layer of an
// object.
func Index(
	ctx context.Context,
	indexer client.FieldIndexer,
	kind client.Object,
	layer func(client.Object) v1alpha1.ConfigLayer,
) error {
	fields := map[string]client.IndexerFunc{
		IndexModel: func(o client.Object) []string {
			if ref := layer(o).ModelRef; ref != nil {
				return []string{ref.Name}
			}
			return nil
		},
		IndexTool: func(o client.Object) []string {
			tools := layer(o).Tools
			names := make([]string, 0, len(tools))
			for _, tool := range tools {
				names = append(names, tool.Name)
			}
			return names
		},
	}
	for field, extract := range fields {
		if err := indexer.IndexField(ctx, kind, field, extract); err != nil {
			return fmt.Errorf("indexing %T by %s: %w", kind, field, err)
		}
	}
	return nil
}

// BoundFlipped passes changes of a Tool that change whether a network access list can restrict it.
func BoundFlipped() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, okBefore := e.ObjectOld.(*v1alpha1.Tool)
			after, okAfter := e.ObjectNew.(*v1alpha1.Tool)
			return okBefore && okAfter && (before.UID != after.UID ||
				config.Unbounded(&before.Spec) != config.Unbounded(&after.Spec))
		},
	}
}
