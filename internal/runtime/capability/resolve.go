package capability

import (
	"slices"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Max is the most capabilities of a Session, with their dependencies.
const Max = 64

// Dependency is a capability that another one needs.
type Dependency struct {
	// ID of the needed capability.
	ID string
	// MaxRisk is the highest risk that it may have.
	MaxRisk v1alpha1.CapabilityRisk
}

// DependencyOf returns a dependency of a Capability.
func DependencyOf(d v1alpha1.CapabilityDependency) Dependency {
	return Dependency{ID: idOf(d.Builtin, d.Name), MaxRisk: accepted(d.MaxRisk)}
}

// State is what is known of a capability.
type State int

const (
	// Missing: there is no such capability.
	Missing State = iota
	// Archived: it is a Capability that is archived.
	Archived
	// Available: it can be used.
	Available
)

// Lookup returns the state of a capability and its dependencies.
type Lookup func(id string) (State, []Dependency)

// Resolution is the capabilities of a Session with their dependencies.
type Resolution struct {
	// Uses are the capabilities that exist, each once, and behind those that it depends on.
	Uses []Use
	// Unknown are the capabilities that do not exist, each once.
	Unknown []Use
	// Archived are the Capabilities that are archived, each once.
	Archived []Use
	// LeftOut are the optional capabilities of the layers that are not used, because they or some that they depend on do
	// not exist or are archived.
	LeftOut []Use
	// Cycle is the ids of capabilities that depend on each other, the first one again at the end; nil for none.
	Cycle []string
	// TooMany reports whether there are more than Max. Uses has the first of them.
	TooMany bool
}

// Resolve adds the dependencies of capabilities (CAP-03), and leaves out optional ones that cannot be used. A
// dependency that the layers do not name has no configuration.
func Resolve(selected []Use, lookup Lookup) Resolution {
	if len(selected) > Max {
		return Resolution{TooMany: true}
	}
	var kept, left []Use
	for _, use := range selected {
		if use.Optional && !resolve([]Use{use}, lookup).complete() {
			left = append(left, use)
			continue
		}
		kept = append(kept, use)
	}
	found := resolve(kept, lookup)
	found.LeftOut = left
	return found
}

// Of resolves a single capability.
func Of(use Use, lookup Lookup) Resolution {
	return resolve([]Use{use}, lookup)
}

// complete reports whether all capabilities exist and are not archived.
func (r Resolution) complete() bool {
	return len(r.Unknown) == 0 && len(r.Archived) == 0
}

func resolve(selected []Use, lookup Lookup) Resolution {
	r := resolver{selected: selected, lookup: lookup, visited: map[string]bool{}}
	for _, use := range selected {
		r.visit(use)
	}
	return r.found
}

type resolver struct {
	selected []Use
	lookup   Lookup
	found    Resolution
	visited  map[string]bool
	// path are the capabilities whose dependencies are being visited.
	path []string
}

func (r *resolver) visit(use Use) {
	if at := slices.Index(r.path, use.ID); at >= 0 {
		if r.found.Cycle == nil {
			r.found.Cycle = append(slices.Clone(r.path[at:]), use.ID)
		}
		return
	}
	if r.visited[use.ID] {
		return
	}
	if len(r.visited) == Max {
		r.found.TooMany = true
		return
	}
	r.visited[use.ID] = true
	state, dependencies := r.lookup(use.ID)
	switch state {
	case Missing:
		r.found.Unknown = append(r.found.Unknown, use)
		return
	case Archived:
		r.found.Archived = append(r.found.Archived, use)
		return
	case Available:
	}
	r.path = append(r.path, use.ID)
	for _, d := range dependencies {
		r.visit(r.dependency(d.ID, use.ID))
	}
	r.path = r.path[:len(r.path)-1]
	r.found.Uses = append(r.found.Uses, use)
}

// dependency is the use of a capability that another one depends on: that of the layers if they name it.
func (r *resolver) dependency(id, of string) Use {
	if at := slices.IndexFunc(r.selected, func(u Use) bool { return u.ID == id }); at >= 0 {
		return r.selected[at]
	}
	return Use{ID: id, NeededBy: of}
}
