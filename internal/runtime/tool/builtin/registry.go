package builtin

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/sessionfs"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
)

// Capability is a set of built-in tools that layers name.
type Capability struct {
	// Name in the layers.
	Name string
	// Tools of the capability.
	Tools []Tool
}

// Tool is a built-in tool (TOOL-01, TOOL-06).
type Tool struct {
	// Name that the model calls it by. An underscore in it keeps it apart from Tool objects, whose names have none.
	Name string
	// Description and InputSchema, a JSON Schema, are for the model. A call with arguments that violate the schema never
	// reaches the tool. Without an InputSchema any object is accepted.
	Description string
	InputSchema string
	// SideEffect of the tool; empty for Pure.
	SideEffect v1alpha1.SideEffect
	// ConcurrencyClass of the tool; empty for none.
	ConcurrencyClass string
	// Run carries out a call. The result is encoded as JSON; a slice of content.Block is a result with texts and images.
	// The model is shown the text of an Error, and nothing of any other error (TOOL-05). It ends soon after its context
	// does.
	Run func(ctx context.Context, call Call) (any, error)
}

// Call is a call of a built-in tool, with all that the tool may use.
type Call struct {
	// Arguments are a JSON object.
	Arguments string
	// Now is the time of the call.
	Now time.Time
	// Cause identifies the call to the stores of the Session: a change with it happens once, however often the call is
	// carried out.
	Cause record.Cause
	// Files are those of the Session; nil where there are none.
	Files *sessionfs.FS
}

// Decode reads the arguments.
func (c Call) Decode(into any) error {
	return json.Unmarshal([]byte(c.Arguments), into)
}

// registered is a capability with the definitions of its tools.
type registered struct {
	Capability
	definitions definition.Set
}

// registry has the capabilities by name.
var registry = struct {
	sync.RWMutex
	byName map[string]registered
}{byName: map[string]registered{}}

func init() {
	for _, c := range []Capability{currentTime, sessionFileSystem, statelessTodoList} {
		Register(c)
	}
}

// Register adds a capability, or replaces the one of the same name (TOOL-04).
func Register(c Capability) {
	r := registered{Capability: c}
	for _, t := range c.Tools {
		d := definition.Definition{
			Name: t.Name, Description: t.Description, SideEffect: t.SideEffect, ConcurrencyClass: t.ConcurrencyClass,
		}
		if t.InputSchema != "" {
			d.InputSchema = []byte(t.InputSchema)
		}
		r.definitions = append(r.definitions, definition.Builtin(c.Name, d))
	}
	registry.Lock()
	defer registry.Unlock()
	registry.byName[c.Name] = r
}

// Known reports whether there is a capability of a name.
func Known(name string) bool {
	_, known := find(name)
	return known
}

// Names returns the names of all capabilities, sorted.
func Names() []string {
	registry.RLock()
	defer registry.RUnlock()
	return slices.Sorted(maps.Keys(registry.byName))
}

// Definitions returns the definitions of the tools of a capability; none for an unknown one.
func Definitions(capability string) definition.Set {
	found, _ := find(capability)
	return found.definitions
}

// toolOf returns the tool of a definition, and whether there is one.
func toolOf(d *definition.Definition) (Tool, bool) {
	found, _ := find(d.Source.Name)
	for _, t := range found.Tools {
		if t.Name == d.Name {
			return t, true
		}
	}
	return Tool{}, false
}

func find(name string) (registered, bool) {
	registry.RLock()
	defer registry.RUnlock()
	found, known := registry.byName[name]
	return found, known
}
