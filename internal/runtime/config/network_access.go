package config

import (
	"net/url"
	"slices"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// NetworkAccess merges the network access lists of several layers (CFG-05). The zero value is no list, and permits
// everything.
type NetworkAccess struct {
	// inForce reports whether a layer has set a list.
	inForce bool
	// allowed lists the only destinations that may be reached, unless it is empty and closed is not set.
	allowed []pattern
	// closed reports whether nothing may be reached, because two layers allow nothing in common. No lower layer can
	// change this.
	closed bool
	// blocked lists the destinations that may not be reached.
	blocked []pattern
	// exempt are the Tools that every list exempts.
	exempt []string
}

// narrow adds the list of a lower layer.
func (n NetworkAccess) narrow(lower v1alpha1.NetworkAccess) NetworkAccess {
	next := NetworkAccess{inForce: true, closed: n.closed, blocked: slices.Clone(n.blocked)}
	for _, p := range parsePatterns(lower.Blocked) {
		if !slices.Contains(next.blocked, p) {
			next.blocked = append(next.blocked, p)
		}
	}
	allowed := parsePatterns(lower.Allowed)
	switch {
	case len(allowed) == 0:
		next.allowed = n.allowed
	case len(n.allowed) == 0:
		next.allowed = allowed
	default:
		next.allowed = slices.DeleteFunc(allowed, func(p pattern) bool { return !slices.ContainsFunc(n.allowed, p.within) })
		next.closed = next.closed || len(next.allowed) == 0
	}
	for _, tool := range lower.ExemptTools {
		if !n.inForce || slices.Contains(n.exempt, tool.Name) {
			next.exempt = append(next.exempt, tool.Name)
		}
	}
	return next
}

// InForce reports whether a layer has set a list.
func (n NetworkAccess) InForce() bool { return n.inForce }

// Permits reports whether a request may go to a URL. A URL without a host matches no list: it is permitted unless an
// allowed list exists.
func (n NetworkAccess) Permits(u *url.URL) bool {
	forms := formsOf(u)
	if slices.ContainsFunc(n.blocked, func(p pattern) bool { return p.blocks(forms) }) {
		return false
	}
	if n.closed || len(n.allowed) == 0 {
		return !n.closed
	}
	return slices.ContainsFunc(n.allowed, func(p pattern) bool { return p.allows(forms) })
}

// Binds reports whether a Tool cannot reach more than the list permits, or is exempt. The manager itself sends the
// requests of HTTP tools, and clients run their tools. The manager cannot see the connections of a Job; a Job without a
// network has none.
func (n NetworkAccess) Binds(name string, tool *v1alpha1.ToolSpec) bool {
	return !n.inForce || !Unbounded(tool) || slices.Contains(n.exempt, name)
}

// Unbounded reports whether no list can be enforced for a Tool: it runs as a Job with network access.
func Unbounded(tool *v1alpha1.ToolSpec) bool {
	return tool.Job != nil && tool.Job.Network != v1alpha1.NetworkReachNone
}

// Presence returns the state of a Tool, including the list's effect on it.
func (n NetworkAccess) Presence(tool *v1alpha1.Tool, without Presence) Presence {
	if without == Usable && !n.Binds(tool.Name, &tool.Spec) {
		return Unbound
	}
	return without
}
