package builtin

import "github.com/capstan-dev/capstan/internal/runtime/compaction"

// compacting is the capability that shortens long conversations (LLM-08). It has no tools: package step looks for it.
var compacting = Capability{
	Name:         compaction.Capability,
	Description:  "Shortens long conversations, so that they fit into the context window of the model.",
	ConfigSchema: compaction.Schema,
	Configure: func(config []byte) ([]Tool, error) {
		if _, err := compaction.Parse(string(config)); err != nil {
			return nil, &ConfigError{err.Error()}
		}
		return nil, nil
	},
}
