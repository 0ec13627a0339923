package config

import (
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// isDefault is the value of the default annotation that counts.
const isDefault = "true"

// ResolveModel chooses the Model among those of a namespace: the one that the Turn's controls name, then the one that
// the layers name, then the default one (CFG-07, MODEL-02). A name is empty if nothing is named; a Model that does not
// exist is skipped. Of several defaults the newest counts, and of those created in the same second the first by name.
// It returns false if there is none.
func ResolveModel(controls, layered string, models []v1alpha1.Model) (*v1alpha1.Model, bool) {
	if m, ok := namedModel(models, controls, layered); ok {
		return m, true
	}
	var chosen *v1alpha1.Model
	for i := range models {
		if models[i].Annotations[v1alpha1.AnnotationDefaultModel] != isDefault {
			continue
		}
		if chosen == nil || comesBefore(&models[i], chosen) {
			chosen = &models[i]
		}
	}
	return chosen, chosen != nil
}

// namedModel returns the Model of the first name that exists; empty names count for nothing.
func namedModel(models []v1alpha1.Model, names ...string) (*v1alpha1.Model, bool) {
	for _, name := range names {
		if name == "" {
			continue
		}
		if i := slices.IndexFunc(models, func(m v1alpha1.Model) bool { return m.Name == name }); i >= 0 {
			return &models[i], true
		}
	}
	return nil, false
}

// comesBefore reports whether of two default Models the first one counts.
func comesBefore(a, b *v1alpha1.Model) bool {
	if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
		return c > 0
	}
	return strings.Compare(a.Name, b.Name) < 0
}
