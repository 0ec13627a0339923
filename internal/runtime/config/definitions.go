package config

import (
	"github.com/capstan-dev/capstan/internal/runtime/background"
	"github.com/capstan-dev/capstan/internal/runtime/platform"
	"github.com/capstan-dev/capstan/internal/runtime/tool/builtin"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
)

// Definitions returns the tools for the model (TOOL-18): the effective Tools that exist, then the tools of the
// MCPServers, and then those of the capabilities, each behind those that it depends on (CAP-04). Of two with the same
// name the first counts, so that a Tool replaces a built-in one, and so does the tool of an MCPServer (MCP-02).
func (r *Resolved) Definitions() definition.Set {
	var all definition.Set
	for _, name := range r.Effective.Tools {
		if tool := r.Tools[name]; tool != nil {
			all = append(all, definition.Of(tool))
		}
	}
	for _, name := range r.Effective.MCPServers {
		server := r.MCPServers[name]
		if server == nil {
			continue
		}
		texts, whole := r.RemoteTexts[name]
		for _, d := range definition.OfServer(server) {
			if whole {
				d = d.WithTexts(texts[d.Remote().Tool])
			}
			if all.Find(d.Name) == nil {
				all = append(all, d)
			}
		}
	}
	if r.blueprint != nil {
		return all
	}
	for _, use := range r.Capabilities().Uses {
		if use.ID == builtin.SubAgents {
			all = r.addAgents(all)
			continue
		}
		if use.ID == platform.Capability {
			all = r.addPlatform(all, use.Config)
			continue
		}
		// A configuration that cannot be used is a problem of its own, and contributes nothing.
		definitions, _ := builtin.Configured(use.ID, use.Config)
		for _, d := range definitions {
			if use.ID == background.Capability && d.Name == background.SpawnTool {
				d = r.spawning(d)
			}
			if d != nil && all.Find(d.Name) == nil {
				all = append(all, d)
			}
		}
	}
	return all
}

// spawning returns the definition of the tool that starts background tasks, for the Tools that can run as one; nil if
// there are none.
func (r *Resolved) spawning(d *definition.Definition) *definition.Definition {
	var names []string
	for _, name := range r.Effective.Tools {
		if tool := r.Tools[name]; tool != nil && background.Allowed(&tool.Spec) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	with := *d
	with.InputSchema = background.SpawnSchema(names)
	return &with
}
