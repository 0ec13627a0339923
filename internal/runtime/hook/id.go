package hook

import (
	"fmt"
	"slices"
)

// Namespaces of hook ids. A layer or a Capability object has its name behind the prefix, so that no object can be named
// like a built-in capability (HOOK-04).
const (
	// UserHooks is the namespace of the hooks that the capability user_hooks has in its configuration.
	UserHooks = "user"
	// SessionLayer is the namespace of the hooks of a Session.
	SessionLayer = "session"
	harnessLayer = "harness/"
	agentLayer   = "agent/"
	object       = "object/"
)

// HarnessLayer is the namespace of the hooks of a Harness.
func HarnessLayer(name string) string { return harnessLayer + name }

// AgentLayer is the namespace of the hooks of an Agent.
func AgentLayer(name string) string { return agentLayer + name }

// CapabilityObject is the namespace of the hooks of a Capability object. That of a built-in capability is its name.
func CapabilityObject(name string) string { return object + name }

// Contribution is the hooks that a layer or a capability adds, in its order, and the ids that it mutes.
type Contribution struct {
	// Namespace of the ids.
	Namespace string
	// Hooks of the source.
	Hooks []Spec
	// Muted are the ids of hooks that do not run. A contribution mutes its own hooks and those of later ones.
	Muted []string
}

// Finalize returns the hooks of all contributions that run, in their order, each with its id (HOOK-04, HOOK-05,
// HOOK-06).
// A source cannot choose its namespace, so that no hook passes for another's. A hook without a name is called after its
// event and its position in its source.
//
// A contribution mutes its own hooks and those that come after it, never one before it: otherwise the author of a
// Session could turn off what its Harness demands.
func Finalize(contributions []Contribution) []Spec {
	var all []Spec
	muted := map[string]bool{}
	for _, c := range contributions {
		for _, id := range c.Muted {
			muted[id] = true
		}
		for i, s := range c.Hooks {
			s.ID = ID(c.Namespace, s, i)
			if !muted[s.ID] {
				all = append(all, s)
			}
		}
	}
	return all
}

// ID is the id of a hook at a position of its source.
func ID(namespace string, s Spec, position int) string {
	if s.Name != "" {
		return namespace + ":" + s.Name
	}
	return fmt.Sprintf("%s:%s_%d", namespace, s.Event, position)
}

// MutedAbove returns the ids that a contribution mutes in vain, because the hook belongs to one before it.
func MutedAbove(contributions []Contribution) []string {
	var vain []string
	above := map[string]bool{}
	for _, c := range contributions {
		for _, id := range c.Muted {
			if above[id] && !slices.Contains(vain, id) {
				vain = append(vain, id)
			}
		}
		for i, s := range c.Hooks {
			above[ID(c.Namespace, s, i)] = true
		}
	}
	return vain
}

// Of returns the hooks of an event, in their order.
func Of(specs []Spec, event Event) []Spec {
	var of []Spec
	for _, s := range specs {
		if s.Event == event {
			of = append(of, s)
		}
	}
	return of
}
