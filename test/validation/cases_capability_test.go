package validation_test

import (
	"slices"
	"strings"
)

// capabilityName is the patch of an object with a name.
func capabilityName(length int) string {
	return `metadata: {name: ` + strings.Repeat("a", length) + `}`
}

var capabilityCases = slices.Concat(hookCases, fileCases, []ruleCase{
	{
		rule:     "rule the name of a Capability has at most 63 characters, and no dots.",
		accepted: capabilityName(63), rejected: capabilityName(64),
	},
	{
		rule:     "rule the name of a Capability has at most 63 characters, and no dots.",
		accepted: `metadata: {name: a-b}`, rejected: `metadata: {name: a.b}`,
	},
	{
		rule:     "spec.tools[] required name",
		accepted: `spec: {tools: [{name: word-count}]}`,
		rejected: `spec: {tools: [{}]}`,
		message:  `spec.tools[0].name: Required value`,
	},
	{
		rule:     "spec.mcpServers[] required name",
		accepted: `spec: {mcpServers: [{name: github}]}`,
		rejected: `spec: {mcpServers: [{}]}`,
		message:  `spec.mcpServers[0].name: Required value`,
	},
	{
		rule:     "spec.dependencies[] rule exactly one of builtin and name must be set.",
		accepted: `spec: {dependencies: [{builtin: current_time}]}`,
		rejected: `spec: {dependencies: [{maxRisk: Low}]}`,
	},
	{
		rule:     "spec.dependencies[] rule exactly one of builtin and name must be set.",
		accepted: `spec: {dependencies: [{name: research}]}`,
		rejected: `spec: {dependencies: [{name: research, builtin: current_time}]}`,
	},
	{
		rule:     "spec.dependencies[].builtin pattern",
		accepted: `spec: {dependencies: [{builtin: a_capability_of_2031}]}`,
		rejected: `spec: {dependencies: [{builtin: current-time}]}`,
		message:  `spec.dependencies[0].builtin in body should match`,
	},
	{
		rule:     "spec.dependencies[].name pattern",
		accepted: `spec: {dependencies: [{name: a-capability-of-2031}]}`,
		rejected: `spec: {dependencies: [{name: a.b}]}`,
		message:  `spec.dependencies[0].name in body should match`,
	},
	{
		rule:     "spec.dependencies[].maxRisk enum",
		accepted: `spec: {dependencies: [{name: a, maxRisk: Medium}]}`,
		rejected: `spec: {dependencies: [{name: a, maxRisk: None}]}`,
		message:  `spec.dependencies[0].maxRisk: Unsupported value: "None": supported values: "Low", "Medium", "High"`,
	},
	{
		rule:     "spec.riskLevel enum",
		accepted: `spec: {riskLevel: Medium}`,
		rejected: `spec: {riskLevel: medium}`,
		message:  `spec.riskLevel: Unsupported value: "medium": supported values: "Low", "Medium", "High"`,
	},
	{
		rule:     "spec.lifecycle enum",
		accepted: `spec: {lifecycle: Archived}`,
		rejected: `spec: {lifecycle: Deleted}`,
		message:  `spec.lifecycle: Unsupported value: "Deleted": supported values: "Active", "Archived"`,
	},
})

// printed is a Capability with a blueprint.
func printed(fields string) string {
	return `spec: {blueprints: [{name: reader, description: Reads., systemPrompt: Read., ` + fields + `}]}`
}

const (
	printModel = "spec.blueprints[] rule modelRef is for the modelPolicy Default and Fixed, and required there."
	keepsAgent = "spec rule blueprint cannot be changed: a conversation keeps its agent. Create a Session with a new name."
)

var blueprintCases = []ruleCase{
	{
		rule: "spec.blueprints[] required name", accepted: printed(`tools: []`),
		rejected: `spec: {blueprints: [{description: Reads., systemPrompt: Read.}]}`,
		message:  `spec.blueprints[0].name: Required value`,
	},
	{
		rule: "spec.blueprints[] required description", accepted: printed(`tools: []`),
		rejected: `spec: {blueprints: [{name: reader, systemPrompt: Read.}]}`,
		message:  `spec.blueprints[0].description: Required value`,
	},
	{
		rule: "spec.blueprints[] required systemPrompt", accepted: printed(`tools: []`),
		rejected: `spec: {blueprints: [{name: reader, description: Reads.}]}`,
		message:  `spec.blueprints[0].systemPrompt: Required value`,
	},
	{
		rule:     "spec.blueprints[].name pattern",
		accepted: `spec: {blueprints: [{name: a-reader-2, description: Reads., systemPrompt: Read.}]}`,
		rejected: `spec: {blueprints: [{name: a_reader, description: Reads., systemPrompt: Read.}]}`,
		message:  `spec.blueprints[0].name in body should match`,
	},
	{
		rule: "spec.blueprints[].tools[] required name", accepted: printed(`tools: [{name: a}]`),
		rejected: printed(`tools: [{}]`), message: `spec.blueprints[0].tools[0].name: Required value`,
	},
	{
		rule: "spec.blueprints[].modelRef required name", accepted: printed(`modelPolicy: Fixed, modelRef: {name: a}`),
		rejected: printed(`modelPolicy: Fixed, modelRef: {}`), message: `spec.blueprints[0].modelRef.name: Required value`,
	},
	{
		rule: "spec.blueprints[].modelPolicy enum", accepted: printed(`modelPolicy: Inherit`),
		rejected: printed(`modelPolicy: Any`),
		message:  `spec.blueprints[0].modelPolicy: Unsupported value: "Any"`,
	},
	{
		rule:     printModel,
		accepted: printed(`modelPolicy: Default, modelRef: {name: a}`),
		rejected: printed(`modelRef: {name: a}`),
	},
	{rule: printModel, accepted: printed(`modelPolicy: Inherit`), rejected: printed(`modelPolicy: Fixed`)},
	{
		rule: printModel, accepted: printed(`modelPolicy: Fixed, modelRef: {name: a}`),
		rejected: printed(`modelPolicy: Inherit, modelRef: {name: a}`),
	},
}

// blueprintReferenceCases are the rules of a reference below a path of the spec, such as agent.
func blueprintReferenceCases(path, before, after string) []ruleCase {
	of := func(fields string) string { return `spec: {` + before + `blueprint: {` + fields + `}` + after + `}` }
	whole := "spec." + path + "blueprint"
	message := func(field string) string { return "spec." + path + "blueprint." + field }
	return []ruleCase{
		{
			rule:     whole + " required capability",
			accepted: of(`capability: a, name: b`), rejected: of(`name: b`),
			message: message("capability: Required value"),
		},
		{
			rule:     whole + " required name",
			accepted: of(`capability: a, name: b`), rejected: of(`capability: a`), message: message("name: Required value"),
		},
		{
			rule: message("capability pattern"), accepted: of(`capability: a-b, name: b`),
			rejected: of(`capability: a.b, name: b`), message: message("capability in body should match"),
		},
		{
			rule: message("name pattern"), accepted: of(`capability: a, name: b-c`),
			rejected: of(`capability: a, name: b_c`), message: message("name in body should match"),
		},
		{
			rule: message("maxRisk enum"), accepted: of(`capability: a, name: b, maxRisk: High`),
			rejected: of(`capability: a, name: b, maxRisk: None`), message: message(`maxRisk: Unsupported value: "None"`),
		},
	}
}

// blueprintSessionCases are the rules of the blueprint of a Session.
var blueprintSessionCases = append(blueprintReferenceCases("", "", ""), ruleCase{
	rule: keepsAgent, stored: `spec: {blueprint: {capability: a, name: b}}`, accepted: `spec: {systemPrompt: Be kind.}`,
	rejected: `spec: {blueprint: {capability: a, name: c}}`,
}, ruleCase{
	rule: keepsAgent, stored: `spec: {}`, accepted: `spec: {systemPrompt: Be kind.}`,
	rejected: `spec: {blueprint: {capability: a, name: c}}`,
})
