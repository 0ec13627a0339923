package config

import (
	"bytes"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/capability"
	"github.com/capstan-dev/capstan/internal/runtime/tool/builtin"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
)

// messageText describes the argument of the tools of the capability subagents.
const messageText = "The task for the sub-agent, with all that it needs to know: it does not see this conversation."

// addAgents adds the tools of the capability subagents: one that starts a sub-agent like this agent, and one for each
// blueprint of the Capabilities of the Session (BP-04). Of two with the same name the first counts.
func (r *Resolved) addAgents(all definition.Set) definition.Set {
	add := func(d *definition.Definition) {
		if all.Find(d.Name) == nil {
			all = append(all, d)
		}
	}
	add(agentDefinition("spawn_subagent", "Starts a sub-agent with your instructions and tools, and returns its response.",
		nil, nil))
	for _, use := range r.Capabilities().Uses {
		name, ok := capability.ObjectName(use.ID)
		if !ok {
			continue
		}
		for i := range r.Objects[name].Spec.Blueprints {
			b := &r.Objects[name].Spec.Blueprints[i]
			add(agentDefinition("spawn_"+b.Name, "Starts a sub-agent and returns its response. "+b.Description,
				&v1alpha1.AgentBlueprint{Capability: name, Name: b.Name, MaxRisk: r.Objects[name].Spec.RiskLevel}, b.ConfigSchema))
		}
	}
	return all
}

// agentDefinition is a tool of the capability subagents. Its calls run as those of a Tool with an agent.
func agentDefinition(
	name, description string, blueprint *v1alpha1.AgentBlueprint, config *v1alpha1.JSON,
) *definition.Definition {
	tool := &v1alpha1.Tool{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.ToolSpec{Description: description, Agent: &v1alpha1.AgentTool{Blueprint: blueprint}},
	}
	return definition.BuiltinAgent(builtin.SubAgents, tool, agentSchema(config))
}

// agentSchema is the schema of the arguments: a message, and the configuration of a blueprint that has one. A schema
// with references of its own is not repeated: they would lead elsewhere.
func agentSchema(config *v1alpha1.JSON) []byte {
	properties := fmt.Sprintf(`"message":{"type":"string","minLength":1,"description":%q}`, messageText)
	required := `"message"`
	if config != nil {
		schema := config.Raw
		var demands struct {
			Required []string `json:"required"`
		}
		if !json.Valid(schema) || len(schema) > maxBlueprintSchemaBytes || bytes.Contains(schema, []byte(`"$`)) {
			schema = []byte(`{"type":"object"}`)
		}
		if json.Unmarshal(schema, &demands) == nil && len(demands.Required) > 0 {
			required += `,"config"`
		}
		properties += `,"config":` + string(schema)
	}
	return []byte(`{"type":"object","properties":{` + properties + `},"required":[` + required +
		`],"additionalProperties":false}`)
}
