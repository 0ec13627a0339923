package background

import (
	"encoding/json"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// Capability is the name of the capability, and the other names are those of its tools.
const (
	Capability = "background_tasks"
	SpawnTool  = "spawn_background"
	ListTool   = "list_background_tasks"
	ReadTool   = "read_background_task"
	CancelTool = "cancel_background_task"
)

// SpawnSchema is the schema of the arguments of SpawnTool, for the tools that can run as tasks.
func SpawnSchema(tools []string) []byte {
	name := map[string]any{
		"type": "string", "maxLength": 63, "description": "The tool to run. Only these can run in the background.",
	}
	if len(tools) > 0 {
		name["enum"] = tools
	}
	schema, err := json.Marshal(map[string]any{
		"type":     "object",
		"required": []string{"tool", "arguments"},
		"properties": map[string]any{
			"tool":      name,
			"arguments": map[string]any{"type": "object", "description": "The arguments of that tool, as in a call of it."},
		},
		"additionalProperties": false,
	})
	if err != nil {
		panic("encoding a schema of strings: " + err.Error())
	}
	return schema
}

// Spawned is the arguments of SpawnTool.
type Spawned struct {
	// Tool is the name of the tool that runs.
	Tool string `json:"tool"`
	// Arguments are those of that tool.
	Arguments json.RawMessage `json:"arguments"`
}

// Unwrap reads the arguments of SpawnTool. Malformed ones give the zero Spawned, and so do those that are larger than a
// tool can receive: they are not decoded.
func Unwrap(arguments string) Spawned {
	var s Spawned
	if len(arguments) > tool.MaxArgumentsBytes || json.Unmarshal([]byte(tool.ArgumentsOrEmpty(arguments)), &s) != nil {
		return Spawned{}
	}
	return s
}

// Wrap returns the arguments of SpawnTool for a tool and its arguments, which are JSON.
func Wrap(name, arguments string) string {
	quoted, err := json.Marshal(name)
	if err != nil {
		panic("encoding a string: " + err.Error())
	}
	return `{"tool":` + string(quoted) + `,"arguments":` + strings.TrimSpace(tool.ArgumentsOrEmpty(arguments)) + `}`
}

// CallOf returns the name and the arguments of the tool that a call runs: those of the call itself, or those of the
// tool that it starts in the background. Hooks look at these.
func CallOf(name, arguments string) (tool, its string) {
	if name != SpawnTool {
		return name, arguments
	}
	if s := Unwrap(arguments); s.Tool != "" {
		return s.Tool, string(s.Arguments)
	}
	return name, arguments
}

// Allowed reports whether a Tool may run as a task.
func Allowed(spec *v1alpha1.ToolSpec) bool {
	return spec != nil && spec.Job != nil && spec.Job.Background == v1alpha1.BackgroundPolicyAllow
}
