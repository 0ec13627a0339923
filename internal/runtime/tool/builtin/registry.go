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
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
)

// Capability is what layers name: a set of built-in tools, and what a model has to know of them (CAP-01). All that are
// registered are available (CAP-02).
type Capability struct {
	// Name in the layers.
	Name string
	// Description is for people.
	Description string
	// Risk of the capability; empty for Low.
	Risk v1alpha1.CapabilityRisk
	// DependsOn are the names of the capabilities that a Session has with this one.
	DependsOn []string
	// ConfigSchema is a JSON Schema of the configuration. Without one the capability has no configuration.
	ConfigSchema string
	// Prompt is added to the system prompt; empty for none.
	Prompt string
	// Tools of the capability without a configuration.
	Tools []Tool
	// Configure returns the tools with a configuration that satisfies the schema, or why it cannot be used. It is set
	// with ConfigSchema.
	Configure func(config []byte) ([]Tool, error)
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

// Call is a call of a built-in tool, with all that the tool may use: it is the context of the tool (CTX-01).
type Call struct {
	// Namespace of the Session, for which expensive work counts.
	Namespace string
	// Arguments are a JSON object.
	Arguments string
	// Now is the time of the call.
	Now time.Time
	// Cause identifies the call to the stores of the Session: a change with it happens once, however often the call is
	// carried out.
	Cause record.Cause
	// Services are those of the Session.
	Services Services
}

// Decode reads the arguments.
func (c Call) Decode(into any) error {
	return json.Unmarshal([]byte(c.Arguments), into)
}

// registered is a capability with the definitions of its tools without a configuration.
type registered struct {
	Capability
	definitions definition.Set
}

// define returns the definitions of tools.
func (c *Capability) define(tools []Tool, config string) definition.Set {
	var defined definition.Set
	for _, t := range tools {
		d := definition.Definition{
			Name: t.Name, Description: t.Description, SideEffect: t.SideEffect, ConcurrencyClass: t.ConcurrencyClass,
			Config: config,
		}
		if t.InputSchema != "" {
			d.InputSchema = []byte(t.InputSchema)
		}
		defined = append(defined, definition.Builtin(c.Name, d))
	}
	return defined
}

// configured returns the tools with a configuration; empty for none.
func (c *Capability) configured(config string) ([]Tool, error) {
	if config == "" {
		return c.Tools, nil
	}
	if err := c.checkConfig(config); err != nil {
		return nil, err
	}
	return c.Configure([]byte(config))
}

// registry has the capabilities by name.
var registry = struct {
	sync.RWMutex
	byName map[string]registered
}{byName: map[string]registered{}}

func init() {
	for _, c := range []Capability{
		backgroundTasks, compacting, currentTime, managing, remembering, sessionFileSystem, sessionImages,
		sessionResources, sessionSQLDatabase, sessionSchedule, sessionStorage, sessionTitle, statelessTodoList, subAgents,
		utilityModel, webFetch,
	} {
		Register(c)
	}
}

// Register adds a capability, or replaces the one of the same name (TOOL-04).
func Register(c Capability) {
	if c.Risk == "" {
		c.Risk = v1alpha1.CapabilityRiskLow
	}
	r := registered{Capability: c, definitions: c.define(c.Tools, "")}
	registry.Lock()
	defer registry.Unlock()
	registry.byName[c.Name] = r
}

// Find returns the capability of a name, and whether there is one.
func Find(name string) (Capability, bool) {
	found, known := find(name)
	return found.Capability, known
}

// Names returns the names of all capabilities, sorted.
func Names() []string {
	registry.RLock()
	defer registry.RUnlock()
	return slices.Sorted(maps.Keys(registry.byName))
}

// Definitions returns the definitions of the tools of a capability without a configuration; none for an unknown one.
func Definitions(capability string) definition.Set {
	found, _ := find(capability)
	return found.definitions
}

// Configured returns the definitions of the tools of a capability with a configuration; empty for none. There are none
// for an unknown capability. The error is why the configuration cannot be used.
func Configured(capability, config string) (definition.Set, error) {
	found, _ := find(capability)
	if config == "" {
		return found.definitions, nil
	}
	tools, err := found.configured(config)
	return found.define(tools, config), err
}

// toolOf returns the tool of a definition, with its configuration, and whether there is one.
func toolOf(d *definition.Definition) (Tool, bool) {
	found, _ := find(d.Source.Name)
	// The definition exists, so that its configuration can be used, unless the capability was replaced.
	tools, _ := found.configured(d.Config)
	for _, t := range tools {
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
