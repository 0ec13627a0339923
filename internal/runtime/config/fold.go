package config

import (
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/capability"
)

// promptSeparator separates the system prompts of two layers (CFG-03).
const promptSeparator = "\n\n"

// Effective is the merged configuration of the layers.
type Effective struct {
	// SystemPrompt is the trimmed prompts of all layers that have one, joined by a blank line. Empty for none. If a
	// cache has left out one of them, it is a mark of package leftout.
	SystemPrompt string
	// ModelRef names the Model of the last layer that names one. Empty for none.
	ModelRef string
	// Tools are the names of the Tools of all layers, each once, in the order of their first occurrence, and then those of
	// their capabilities.
	Tools []string
	// MCPServers are the names of the MCPServers of all layers, each once, in the order of their first occurrence, and
	// then those of their capabilities.
	MCPServers []string
	// Capabilities are those that the layers name, each once, in the order of their first occurrence.
	Capabilities []capability.Use
	// MaxIterations is the most model calls of one Turn: from the last layer that sets it, otherwise
	// v1alpha1.DefaultMaxIterations (PHASE-05).
	MaxIterations int32
	// ToolConcurrency is how the calls of one step run: from the last layer that sets it, otherwise Parallel.
	ToolConcurrency v1alpha1.ToolConcurrency
	// ServiceAccountName is the ServiceAccount of the tools of the capability platform: from the last layer that sets it,
	// empty for none.
	ServiceAccountName string
	// InitialFiles are the files that a Session begins with, by clean path, each once, in the order of their first
	// occurrence. Those that a cache has left out are marks of package leftout.
	InitialFiles []v1alpha1.InitialFile
	// Network is the destinations that the tools may reach: those that every layer with a list permits.
	Network NetworkAccess
}

// Fold merges layers, the first at the bottom: every Harness from the root to the leaf, then the Agent, then the
// Session (CFG-02, CFG-03). It does not change or keep the layers.
func Fold(layers ...v1alpha1.ConfigLayer) Effective {
	e := Effective{MaxIterations: v1alpha1.DefaultMaxIterations, ToolConcurrency: v1alpha1.ToolConcurrencyParallel}
	var prompts []string
	seen := map[string]bool{}
	for _, layer := range layers {
		if prompt := strings.TrimSpace(layer.SystemPrompt); prompt != "" {
			prompts = append(prompts, prompt)
		}
		if layer.ModelRef != nil && layer.ModelRef.Name != "" {
			e.ModelRef = layer.ModelRef.Name
		}
		for _, tool := range layer.Tools {
			if !seen[tool.Name] {
				seen[tool.Name] = true
				e.Tools = append(e.Tools, tool.Name)
			}
		}
		for _, server := range layer.MCPServers {
			if !slices.Contains(e.MCPServers, server.Name) {
				e.MCPServers = append(e.MCPServers, server.Name)
			}
		}
		e.Capabilities = capability.Merge(e.Capabilities, layer.Capabilities)
		e.InitialFiles = foldFiles(e.InitialFiles, layer.InitialFiles)
		if layer.NetworkAccess != nil {
			e.Network = e.Network.narrow(*layer.NetworkAccess)
		}
		if layer.ServiceAccountName != "" {
			e.ServiceAccountName = layer.ServiceAccountName
		}
		if layer.MaxIterations != nil {
			e.MaxIterations = *layer.MaxIterations
		}
		if layer.ToolConcurrency != "" {
			e.ToolConcurrency = layer.ToolConcurrency
		}
	}
	e.SystemPrompt = foldPrompts(prompts)
	return e
}
