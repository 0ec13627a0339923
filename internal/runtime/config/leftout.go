package config

import (
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/leftout"
)

// maxPromptBytes is the length up to which a system prompt stays in a cache.
const maxPromptBytes = 2 << 10

// LeaveOutPrompt replaces a long system prompt by a mark. Caches that keep many layers use it, and read the prompt
// later. The folded prompt of layers with a mark is a mark as well.
func LeaveOutPrompt(layer *v1alpha1.ConfigLayer) {
	if n := len(layer.SystemPrompt); n > maxPromptBytes && !leftout.Is(layer.SystemPrompt) {
		layer.SystemPrompt = leftout.Mark(int64(n), "")
	}
}

// maxToolName is the length up to which the name of a Tool or an MCPServer stays in a cache. None has a name of that
// length.
const maxToolName = 64

// ShortenToolNames cuts names in the lists of Tools and MCPServers that none can have: a cache need not keep them whole
// to find them missing.
func ShortenToolNames(layer *v1alpha1.ConfigLayer) {
	lists := [][]v1alpha1.LocalReference{layer.Tools, layer.MCPServers}
	if layer.NetworkAccess != nil {
		lists = append(lists, layer.NetworkAccess.ExemptTools)
	}
	for _, list := range lists {
		for i := range list {
			if name := list[i].Name; len(name) > maxToolName {
				list[i].Name = strings.Clone(strings.ToValidUTF8(name[:maxToolName], "_"))
			}
		}
	}
}

// foldPrompts joins the trimmed prompts of layers. If one of them was left out, so is the result: a mark for the size
// of all.
func foldPrompts(prompts []string) string {
	total, left := int64(0), false
	for _, prompt := range prompts {
		total += int64(len(promptSeparator))
		if leftout.Is(prompt) {
			left = true
			total += leftout.Bytes(prompt)
		} else {
			total += int64(len(prompt))
		}
	}
	if left {
		return leftout.Mark(total, "")
	}
	return strings.Join(prompts, promptSeparator)
}
