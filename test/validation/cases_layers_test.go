package validation_test

import (
	"fmt"
	"slices"
	"strings"
)

var harnessCases = slices.Concat(layerCases, hookCases, fileCases, []ruleCase{
	{
		rule:     "spec.lifecycle enum",
		accepted: `spec: {lifecycle: Archived}`,
		rejected: `spec: {lifecycle: Retired}`,
		message:  `spec.lifecycle: Unsupported value: "Retired": supported values: "Active", "Archived"`,
	},
	{
		rule:     "spec.parentRef required name",
		accepted: `spec: {parentRef: {name: root}}`,
		rejected: `spec: {parentRef: {}}`,
		message:  `spec.parentRef.name: Required value`,
	},
})

var agentCases = slices.Concat(layerCases, hookCases, fileCases, []ruleCase{
	{
		rule:     "spec.lifecycle enum",
		accepted: `spec: {lifecycle: Active}`,
		rejected: `spec: {lifecycle: active}`,
		message:  `spec.lifecycle: Unsupported value: "active": supported values: "Active", "Archived"`,
	},
})

var sessionCases = slices.Concat(layerCases, hookCases, fileCases, []ruleCase{
	{
		rule:     "required spec",
		accepted: unchanged,
		rejected: `spec: null`,
		message:  `spec: Required value`,
	},
	{
		rule:     "spec required harnessRef",
		accepted: unchanged,
		rejected: `spec: {harnessRef: null}`,
		message:  `spec.harnessRef: Required value`,
	},
	{
		rule:     "spec.harnessRef required name",
		accepted: unchanged,
		rejected: `spec: {harnessRef: {name: null}}`,
		message:  `spec.harnessRef.name: Required value`,
	},
	{
		rule: "spec rule harnessRef cannot be changed: a conversation keeps its Harness. Create a Session with a new " +
			"name.",
		stored:   `spec: {harnessRef: {name: base}}`,
		accepted: `spec: {agentRef: {name: lawyer}, systemPrompt: Be kind.}`,
		rejected: `spec: {harnessRef: {name: other}}`,
	},
	{
		rule:     "spec.agentRef required name",
		accepted: `spec: {agentRef: {name: lawyer}}`,
		rejected: `spec: {agentRef: {}}`,
		message:  `spec.agentRef.name: Required value`,
	},
	{
		rule:     "spec.locale pattern",
		accepted: `spec: {locale: de-DE-u-co-phonebk}`,
		rejected: `spec: {locale: German please}`,
		message:  `spec.locale in body should match`,
	},
	{
		rule:     "spec.locale pattern",
		accepted: `spec: {locale: fr}`,
		rejected: `spec: {locale: ""}`,
		message:  `spec.locale in body should match`,
	},
	{
		rule:     "spec.clientTools enum",
		accepted: `spec: {clientTools: FollowHints}`,
		rejected: `spec: {clientTools: Never}`,
		message:  `spec.clientTools: Unsupported value: "Never": supported values: "Wait", "FollowHints"`,
	},
	{
		rule:     "spec.turnTTL pattern",
		accepted: `spec: {turnTTL: 1h30m}`,
		rejected: `spec: {turnTTL: 30d}`,
		message:  `spec.turnTTL in body should match`,
	},
	{
		rule:     "spec.turnTTL rule turnTTL must be at most 87600h.",
		accepted: `spec: {turnTTL: 0s}`,
		rejected: `spec: {turnTTL: 87600h1s}`,
	},
	{
		rule:     "spec.journalLimit pattern",
		accepted: `spec: {journalLimit: 1.5Mi}`,
		rejected: `spec: {journalLimit: 16 MiB}`,
		message:  `spec.journalLimit in body should match`,
	},
	{
		rule:     "spec.journalLimit rule journalLimit must be between 64Ki and 1Gi.",
		accepted: `spec: {journalLimit: 64Ki}`,
		rejected: `spec: {journalLimit: 65535}`,
	},
	{
		rule:     "spec.journalLimit rule journalLimit must be between 64Ki and 1Gi.",
		accepted: `spec: {journalLimit: 1073741824}`,
		rejected: `spec: {journalLimit: "1073741825"}`,
	},
})

const (
	aPattern = "must be a host such as example.org, a domain with all its subdomains such as *.example.org, or the " +
		"beginning of a URL such as https://example.org/v1/, without user, query and fragment."
	allowedPattern = "spec.networkAccess.allowed[] rule " + aPattern
	blockedPattern = "spec.networkAccess.blocked[] rule " + aPattern
)

// longPatterns is a list of network destinations of 512 bytes each.
func longPatterns(count int) string {
	patterns := make([]string, count)
	for i := range patterns {
		prefix := fmt.Sprintf("https://example.org/%02d/", i)
		patterns[i] = prefix + strings.Repeat("é", (512-len(prefix))/2) + strings.Repeat("x", (512-len(prefix))%2)
	}
	return "[" + strings.Join(patterns, ", ") + "]"
}

// layerCases are the rules that Harness, Agent and Session share.
var layerCases = []ruleCase{
	{
		rule:     "spec.modelRef required name",
		accepted: `spec: {modelRef: {name: simulated}}`,
		rejected: `spec: {modelRef: {}}`,
		message:  `spec.modelRef.name: Required value`,
	},
	{
		rule:     "spec.serviceAccountName pattern",
		accepted: `spec: {serviceAccountName: agents.operator-1}`,
		rejected: `spec: {serviceAccountName: agents_operator}`,
		message:  `spec.serviceAccountName in body should match`,
	},
	{
		rule:     "spec.mcpServers[] required name",
		accepted: `spec: {mcpServers: [{name: github}]}`,
		rejected: `spec: {mcpServers: [{}]}`,
		message:  `spec.mcpServers[0].name: Required value`,
	},
	{
		rule:     "spec.tools[] required name",
		accepted: `spec: {tools: [{name: word-count}]}`,
		rejected: `spec: {tools: [{}]}`,
		message:  `spec.tools[0].name: Required value`,
	},
	{
		rule:     "spec.capabilities[] rule exactly one of builtin and name must be set.",
		accepted: `spec: {capabilities: [{builtin: current_time}]}`,
		rejected: `spec: {capabilities: [{}]}`,
	},
	{
		rule:     "spec.capabilities[] rule exactly one of builtin and name must be set.",
		accepted: `spec: {capabilities: [{name: research}]}`,
		rejected: `spec: {capabilities: [{name: research, builtin: current_time}]}`,
	},
	{
		rule:     "spec.capabilities[].name pattern",
		accepted: `spec: {capabilities: [{name: a-capability-of-2031}]}`,
		rejected: `spec: {capabilities: [{name: object/a}]}`,
		message:  `spec.capabilities[0].name in body should match`,
	},
	{
		rule:     "spec.capabilities[].maxRisk enum",
		accepted: `spec: {capabilities: [{name: a, maxRisk: High}]}`,
		rejected: `spec: {capabilities: [{name: a, maxRisk: Extreme}]}`,
		message:  `spec.capabilities[0].maxRisk: Unsupported value: "Extreme": supported values: "Low", "Medium", "High"`,
	},
	{
		rule:     "spec.capabilities[].builtin pattern",
		accepted: `spec: {capabilities: [{builtin: a_capability_of_2031}]}`,
		rejected: `spec: {capabilities: [{builtin: current-time}]}`,
		message:  `spec.capabilities[0].builtin in body should match`,
	},
	{
		rule:     "spec.capabilities[].config type",
		accepted: `spec: {capabilities: [{builtin: current_time, config: {timezone: Asia/Tokyo}}]}`,
		rejected: `spec: {capabilities: [{builtin: current_time, config: Asia/Tokyo}]}`,
		message:  `spec.capabilities[0].config in body must be of type object`,
	},
	{
		rule:     "spec.toolConcurrency enum",
		accepted: `spec: {toolConcurrency: Sequential}`,
		rejected: `spec: {toolConcurrency: Serial}`,
		message:  `spec.toolConcurrency: Unsupported value: "Serial": supported values: "Parallel", "Sequential"`,
	},
	{
		rule:     "spec.networkAccess rule at least one of allowed and blocked must be set.",
		accepted: `spec: {networkAccess: {blocked: [example.org]}}`,
		rejected: `spec: {networkAccess: {exemptTools: [{name: word-count}]}}`,
	},
	{
		rule:     "spec.networkAccess rule allowed and blocked must have at most 8192 bytes together.",
		accepted: `spec: {networkAccess: {allowed: ` + longPatterns(8) + `, blocked: ` + longPatterns(8) + `}}`,
		rejected: `spec: {networkAccess: {allowed: ` + longPatterns(8) + `, blocked: ` + longPatterns(9) + `}}`,
	},
	{
		rule:     "spec.networkAccess rule allowed and blocked must have at most 8192 bytes together.",
		accepted: `spec: {networkAccess: {blocked: ` + longPatterns(16) + `}}`,
		rejected: `spec: {networkAccess: {allowed: ` + longPatterns(17) + `}}`,
	},
	{
		rule:     "spec.networkAccess.exemptTools[] required name",
		accepted: `spec: {networkAccess: {allowed: [example.org], exemptTools: [{name: word-count}]}}`,
		rejected: `spec: {networkAccess: {allowed: [example.org], exemptTools: [{}]}}`,
		message:  `spec.networkAccess.exemptTools[0].name: Required value`,
	},
	{
		rule: allowedPattern,
		accepted: `spec: {networkAccess: {allowed: [localhost, api.example.org, "*.example.org", 192.0.2.7, ` +
			`my_host.example]}}`,
		rejected: `spec: {networkAccess: {allowed: ["*"]}}`,
	},
	{
		rule: allowedPattern,
		accepted: `spec: {networkAccess: {allowed: ["https://example.org", "http://example.org:8080/v1/", ` +
			`"https://[2001:db8::1]/", "https://example.org/a%20b"]}}`,
		rejected: `spec: {networkAccess: {allowed: ["https://user@example.org/"]}}`,
	},
	{
		rule:     allowedPattern,
		accepted: `spec: {networkAccess: {allowed: [a]}}`,
		rejected: `spec: {networkAccess: {allowed: ["example.org:8080"]}}`,
	},
	{
		rule:     allowedPattern,
		accepted: `spec: {networkAccess: {allowed: ["*.a"]}}`,
		rejected: `spec: {networkAccess: {allowed: ["a.*.example.org"]}}`,
	},
	{
		rule:     blockedPattern,
		accepted: `spec: {networkAccess: {blocked: ["https://example.org/admin"]}}`,
		rejected: `spec: {networkAccess: {blocked: ["https://example.org/?q=1"]}}`,
	},
	{
		rule:     blockedPattern,
		accepted: `spec: {networkAccess: {blocked: ["Example.ORG"]}}`,
		rejected: `spec: {networkAccess: {blocked: ["example.org/admin"]}}`,
	},
	{
		rule:     blockedPattern,
		accepted: `spec: {networkAccess: {blocked: [example.org]}}`,
		rejected: `spec: {networkAccess: {blocked: [example.org.]}}`,
	},
}
