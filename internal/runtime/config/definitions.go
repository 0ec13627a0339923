package config

import "github.com/capstan-dev/capstan/internal/runtime/tool/definition"

// Definitions returns what the model may call (TOOL-18): the effective Tools that exist, in their order.
func (r *Resolved) Definitions() definition.Set {
	var all definition.Set
	for _, name := range r.Effective.Tools {
		if tool := r.Tools[name]; tool != nil {
			all = append(all, definition.Of(tool))
		}
	}
	return all
}
