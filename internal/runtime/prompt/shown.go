package prompt

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
)

// Shown compares the tools that a model has called with those that the context has shown it. A server of another party
// can change the meaning of a tool in the middle of a Turn, so that a call would do something else than the model
// wanted. Tools of the namespace itself are not compared.
//
// It returns the context with the present definition of each such tool that has changed, the names of these, and the
// names of those that the context does not have.
func (c Context) Shown(tools definition.Set, called []string) (renewed Context, changed, unseen []string) {
	renewed = c
	for _, d := range tools {
		if d.Remote() == nil || !slices.Contains(called, d.Name) {
			continue
		}
		i := slices.IndexFunc(c.Tools, func(shown model.ToolDefinition) bool { return shown.Name == d.Name })
		if i < 0 {
			unseen = append(unseen, d.Name)
			continue
		}
		present := definitions(definition.Set{d})[0]
		if sameTool(c.Tools[i], present) {
			continue
		}
		if len(changed) == 0 {
			renewed.Tools = slices.Clone(c.Tools)
		}
		renewed.Tools[i] = present
		changed = append(changed, d.Name)
	}
	return renewed, changed, unseen
}

// sameTool reports whether a model reads the same in two definitions. A recorded schema has other white space.
func sameTool(a, b model.ToolDefinition) bool {
	one, err := json.Marshal(a)
	if err != nil {
		return false
	}
	other, err := json.Marshal(b)
	return err == nil && bytes.Equal(one, other)
}
