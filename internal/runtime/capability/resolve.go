package capability

import "slices"

// Max is the most capabilities of a Session, with their dependencies.
const Max = 64

// Resolution is the capabilities of a Session with their dependencies.
type Resolution struct {
	// Uses are the capabilities that exist, each once, and behind those that it depends on.
	Uses []Use
	// Unknown are the capabilities that do not exist, each once.
	Unknown []Use
	// Cycle is the ids of capabilities that depend on each other, the first one again at the end; nil for none.
	Cycle []string
	// TooMany reports whether there are more than Max. Uses has the first of them.
	TooMany bool
}

// Resolve adds the dependencies of capabilities (CAP-03). dependencies returns those of a capability, and whether there
// is such a capability. A dependency that the layers do not name has no configuration.
func Resolve(selected []Use, dependencies func(id string) (ids []string, known bool)) Resolution {
	r := resolver{selected: selected, dependencies: dependencies, visited: map[string]bool{}}
	for _, use := range selected {
		r.visit(use)
	}
	return r.found
}

type resolver struct {
	selected     []Use
	dependencies func(id string) ([]string, bool)
	found        Resolution
	visited      map[string]bool
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
	dependencies, known := r.dependencies(use.ID)
	if !known {
		r.found.Unknown = append(r.found.Unknown, use)
		return
	}
	r.path = append(r.path, use.ID)
	for _, id := range dependencies {
		r.visit(r.dependency(id, use.ID))
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
