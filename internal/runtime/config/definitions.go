package config

import (
	"github.com/capstan-dev/capstan/internal/runtime/tool/builtin"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
)

// Definitions returns the tools for the model (TOOL-18): the effective Tools that exist, and then the tools of the
// capabilities, each behind those that it depends on (CAP-04). Of two with the same name the first counts, so that a
// Tool replaces a built-in one.
func (r *Resolved) Definitions() definition.Set {
	var all definition.Set
	for _, name := range r.Effective.Tools {
		if tool := r.Tools[name]; tool != nil {
			all = append(all, definition.Of(tool))
		}
	}
	for _, use := range r.Capabilities().Uses {
		// A configuration that cannot be used is a problem of its own, and contributes nothing.
		definitions, _ := builtin.Configured(use.ID, use.Config)
		for _, d := range definitions {
			if all.Find(d.Name) == nil {
				all = append(all, d)
			}
		}
	}
	return all
}
