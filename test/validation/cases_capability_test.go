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
