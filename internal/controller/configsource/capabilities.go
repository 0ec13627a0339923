package configsource

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/fieldindex"
)

// Dependents returns the names of the Capabilities that depend on one, directly or not, without itself.
func Dependents(ctx context.Context, reader client.Reader, namespace, name string) ([]string, error) {
	found := map[string]bool{name: true}
	return dependents(ctx, reader, namespace, []string{name}, found)
}

// CapabilitiesNaming returns the names of the Capabilities that have an object in a field of the index, and of those
// that depend on them.
func CapabilitiesNaming(
	ctx context.Context, reader client.Reader, field string, object client.Object,
) ([]string, error) {
	names, err := CapabilitiesWith(ctx, reader, object.GetNamespace(), field, object.GetName())
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, name := range names {
		found[name] = true
	}
	others, err := dependents(ctx, reader, object.GetNamespace(), names, found)
	return append(names, others...), err
}

// dependents returns the Capabilities that depend on the given ones and were not found before.
func dependents(
	ctx context.Context, reader client.Reader, namespace string, names []string, found map[string]bool,
) ([]string, error) {
	var all []string
	for len(names) > 0 {
		direct, err := CapabilitiesWith(ctx, reader, namespace, fieldindex.CapabilityName, names[0])
		if err != nil {
			return nil, err
		}
		names = names[1:]
		for _, name := range direct {
			if !found[name] {
				found[name] = true
				names, all = append(names, name), append(all, name)
			}
		}
	}
	return all, nil
}

// CapabilitiesWith returns the names of the Capabilities that have a value in a field of the index.
func CapabilitiesWith(ctx context.Context, reader client.Reader, namespace, field, value string) ([]string, error) {
	var all v1alpha1.CapabilityList
	if err := reader.List(ctx, &all, client.InNamespace(namespace), client.MatchingFields{field: value},
		client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Capabilities: %w", err)
	}
	names := make([]string, len(all.Items))
	for i := range all.Items {
		names[i] = all.Items[i].Name
	}
	return names, nil
}
