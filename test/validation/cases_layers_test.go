package validation_test

import "slices"

var harnessCases = slices.Concat(layerCases, []ruleCase{
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

var agentCases = slices.Concat(layerCases, []ruleCase{
	{
		rule:     "spec.lifecycle enum",
		accepted: `spec: {lifecycle: Active}`,
		rejected: `spec: {lifecycle: active}`,
		message:  `spec.lifecycle: Unsupported value: "active": supported values: "Active", "Archived"`,
	},
})

var sessionCases = slices.Concat(layerCases, []ruleCase{
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
		rule:     "spec rule harnessRef cannot be changed: a conversation keeps its Harness. Create a Session with a new name.",
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

// layerCases are the rules that Harness, Agent and Session share.
var layerCases = []ruleCase{
	{
		rule:     "spec.modelRef required name",
		accepted: `spec: {modelRef: {name: simulated}}`,
		rejected: `spec: {modelRef: {}}`,
		message:  `spec.modelRef.name: Required value`,
	},
	{
		rule:     "spec.tools[] required name",
		accepted: `spec: {tools: [{name: word-count}]}`,
		rejected: `spec: {tools: [{}]}`,
		message:  `spec.tools[0].name: Required value`,
	},
	{
		rule:     "spec.toolConcurrency enum",
		accepted: `spec: {toolConcurrency: Sequential}`,
		rejected: `spec: {toolConcurrency: Serial}`,
		message:  `spec.toolConcurrency: Unsupported value: "Serial": supported values: "Parallel", "Sequential"`,
	},
}
