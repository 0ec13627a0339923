package validation_test

import (
	"fmt"
	"slices"
	"strings"
)

var modelCases = []ruleCase{
	{
		rule:     "required spec",
		accepted: unchanged,
		rejected: `spec: null`,
		message:  `spec: Required value`,
	},
	{
		rule:     "spec required provider",
		accepted: unchanged,
		rejected: `spec: {provider: null}`,
		message:  `spec.provider: Required value`,
	},
	{
		rule:     "spec.provider enum",
		accepted: unchanged,
		rejected: `spec: {provider: Oracle}`,
		message: `spec.provider: Unsupported value: "Oracle": supported values: "Simulated", "Anthropic", "OpenAI", ` +
			`"Google"`,
	},
	{
		rule:     "spec rule provider Simulated requires simulation, the script of its responses.",
		accepted: `spec: {simulation: {response: {text: Hello.}}}`,
		rejected: `spec: {simulation: null}`,
	},
	{
		rule:     "spec rule simulation is for provider Simulated: leave it out, or use that provider.",
		accepted: realModel,
		rejected: `spec: {provider: Anthropic, model: claude, secretKeyRef: {name: anthropic, key: api-key}}`,
	},
	{
		rule:     "spec rule this provider needs model: its own name of the model.",
		accepted: realModel,
		rejected: `spec: {provider: OpenAI, secretKeyRef: {name: anthropic, key: api-key}, simulation: null}`,
	},
	{
		rule:     "spec rule this provider needs model: its own name of the model.",
		accepted: realModel,
		rejected: `spec: {provider: Google, model: "", secretKeyRef: {name: anthropic, key: api-key}, simulation: null}`,
	},
	{
		rule:     needsKey,
		accepted: realModel,
		rejected: `spec: {provider: Anthropic, model: claude, simulation: null}`,
	},
	{
		rule:     "spec rule provider Simulated needs no API key: leave secretKeyRef out.",
		accepted: unchanged,
		rejected: `spec: {secretKeyRef: {name: anthropic, key: api-key}}`,
	},
	{
		rule:     "spec rule provider Simulated uses no network: leave baseURL out.",
		accepted: unchanged,
		rejected: `spec: {baseURL: "https://example.org"}`,
	},
	{
		rule: "spec.api enum",
		accepted: `spec: {provider: OpenAI, model: gpt, api: Responses, secretKeyRef: {name: openai, key: api-key}, ` +
			`simulation: null}`,
		rejected: `spec: {provider: OpenAI, model: gpt, api: Realtime, secretKeyRef: {name: openai, key: api-key}, ` +
			`simulation: null}`,
		message: `spec.api: Unsupported value: "Realtime": supported values: "Responses", "ChatCompletions"`,
	},
	{
		rule: "spec rule api is for provider OpenAI: leave it out.",
		accepted: `spec: {provider: OpenAI, model: gpt, api: ChatCompletions, secretKeyRef: {name: openai, key: api-key}, ` +
			`simulation: null}`,
		rejected: realModelWith(`api: ChatCompletions`),
	},
	{
		rule: "spec rule the Responses API has no stop sequences: leave parameters.stopSequences out, or set api to " +
			"ChatCompletions.",
		accepted: `spec: {provider: OpenAI, model: gpt, api: ChatCompletions, parameters: {stopSequences: [END]}, ` +
			`secretKeyRef: {name: openai, key: api-key}, simulation: null}`,
		rejected: `spec: {provider: OpenAI, model: gpt, api: Responses, parameters: {stopSequences: [END]}, ` +
			`secretKeyRef: {name: openai, key: api-key}, simulation: null}`,
	},
	{
		rule:     "spec.timeouts.firstContent pattern",
		accepted: realModelWith(`timeouts: {firstContent: 1.5m}`),
		rejected: realModelWith(`timeouts: {firstContent: -5m}`),
		message:  `spec.timeouts.firstContent in body should match`,
	},
	{
		rule:     "spec.timeouts.firstContent rule firstContent must be between 1s and 1h.",
		accepted: realModelWith(`timeouts: {firstContent: 1000ms}`),
		rejected: realModelWith(`timeouts: {firstContent: 0s}`),
	},
	{
		rule:     "spec.timeouts.firstContent rule firstContent must be between 1s and 1h.",
		accepted: realModelWith(`timeouts: {firstContent: 60m}`),
		rejected: realModelWith(`timeouts: {firstContent: 61m}`),
	},
	{
		rule:     "spec.timeouts.idle pattern",
		accepted: realModelWith(`timeouts: {idle: 1.5m}`),
		rejected: realModelWith(`timeouts: {idle: -5m}`),
		message:  `spec.timeouts.idle in body should match`,
	},
	{
		rule:     "spec.timeouts.idle rule idle must be between 1s and 1h.",
		accepted: realModelWith(`timeouts: {idle: 1000ms}`),
		rejected: realModelWith(`timeouts: {idle: 0s}`),
	},
	{
		rule:     "spec.timeouts.idle rule idle must be between 1s and 1h.",
		accepted: realModelWith(`timeouts: {idle: 60m}`),
		rejected: realModelWith(`timeouts: {idle: 61m}`),
	},
	{
		rule:     "spec.timeouts.call pattern",
		accepted: realModelWith(`timeouts: {call: 1.5m}`),
		rejected: realModelWith(`timeouts: {call: -5m}`),
		message:  `spec.timeouts.call in body should match`,
	},
	{
		rule:     "spec.timeouts.call rule call must be between 1s and 6h.",
		accepted: realModelWith(`timeouts: {call: 1000ms}`),
		rejected: realModelWith(`timeouts: {call: 0s}`),
	},
	{
		rule:     "spec.timeouts.call rule call must be between 1s and 6h.",
		accepted: realModelWith(`timeouts: {call: 360m}`),
		rejected: realModelWith(`timeouts: {call: 361m}`),
	},
	{
		rule:     "spec rule provider Simulated responds after its latency: leave timeouts out.",
		accepted: unchanged,
		rejected: `spec: {timeouts: {}}`,
	},
	{
		rule:     "spec rule provider Simulated responds by script: leave parameters out.",
		accepted: unchanged,
		rejected: `spec: {parameters: {}}`,
	},
	{
		rule:     "spec.baseURL rule baseURL must be an absolute https or http URL.",
		accepted: realModelWith(`baseURL: "https://models.example.org:8443/v1"`),
		rejected: realModelWith(`baseURL: "ftp://models.example.org/v1"`),
	},
	{
		rule:     "spec.baseURL rule baseURL must be an absolute https or http URL.",
		accepted: realModelWith(`baseURL: "HTTPS://models.example.org"`),
		rejected: realModelWith(`baseURL: "https:///v1"`),
	},
	{
		rule:     "spec.baseURL rule baseURL must be an absolute https or http URL.",
		accepted: realModelWith(`baseURL: "https://[2001:db8::1]/v1"`),
		rejected: realModelWith(`baseURL: models.example.org`),
	},
	{
		rule:     "spec.baseURL rule baseURL must not have a user or a password in it: use secretKeyRef.",
		accepted: realModelWith(`baseURL: "https://models.example.org/@v1"`),
		rejected: realModelWith(`baseURL: "https://user:password@models.example.org"`),
	},
	{
		rule:     "spec.baseURL rule " + noQuery,
		accepted: realModelWith(`baseURL: "https://models.example.org/v1/"`),
		rejected: realModelWith(`baseURL: "https://models.example.org/v1?key=x"`),
	},
	{
		rule:     "spec.baseURL rule " + noQuery,
		accepted: openAIModelWith(`baseURL: "https://models.example.org/v1?api-version=2024-10-21"`),
		rejected: openAIModelWith(`baseURL: "https://models.example.org/v1?api-version=2024-10-21&key=x"`),
	},
	{
		rule:     "spec rule a query of baseURL is for provider OpenAI: leave it out.",
		accepted: openAIModelWith(`baseURL: "https://models.example.org/v1?api-version=preview"`),
		rejected: realModelWith(`baseURL: "https://models.example.org/v1?api-version=preview"`),
	},
	{
		rule:     "spec.baseURL rule " + noQuery,
		accepted: realModelWith(`baseURL: "https://models.example.org/v1/"`),
		rejected: realModelWith(`baseURL: "https://models.example.org/v1#x"`),
	},
	{
		rule:     "spec.limits rule at least one of requestsPerMinute and tokensPerMinute must be set.",
		accepted: realModelWith(`limits: {tokensPerMinute: 1}`),
		rejected: realModelWith(`limits: {}`),
	},
	{
		rule:     "spec.secretKeyRef required name",
		accepted: realModel,
		rejected: realModelWith(`secretKeyRef: {key: api-key}`),
		message:  `spec.secretKeyRef.name: Required value`,
	},
	{
		rule:     "spec.secretKeyRef required key",
		accepted: realModel,
		rejected: realModelWith(`secretKeyRef: {name: anthropic}`),
		message:  `spec.secretKeyRef.key: Required value`,
	},
	{
		rule:     "spec.secretKeyRef.key pattern",
		accepted: realModel,
		rejected: realModelWith(`secretKeyRef: {name: anthropic, key: the key}`),
		message:  `spec.secretKeyRef.key in body should match`,
	},
	{
		rule:     "spec.fallbacks[] required name",
		accepted: `spec: {fallbacks: [{name: other}]}`,
		rejected: `spec: {fallbacks: [{}]}`,
		message:  `spec.fallbacks[0].name: Required value`,
	},
	{
		rule:     "spec.recovery enum",
		accepted: `spec: {recovery: Finalize}`,
		rejected: `spec: {recovery: Forget}`,
		message:  `spec.recovery: Unsupported value: "Forget": supported values: "Restart", "Finalize"`,
	},
	{
		rule:     "spec.parameters.reasoningEffort enum",
		accepted: realModelWith(`parameters: {reasoningEffort: None}`),
		rejected: realModelWith(`parameters: {reasoningEffort: Extreme}`),
		message: `spec.parameters.reasoningEffort: Unsupported value: "Extreme": supported values: "None", "Low", ` +
			`"Medium", "High"`,
	},
}

const realModel = `spec: {provider: Anthropic, model: claude, secretKeyRef: {name: anthropic, key: api-key}, ` +
	`simulation: null}`

// realModelWith is a Model of a real provider with one more field, or another value of one.
func realModelWith(field string) string {
	spec := "spec: {provider: Anthropic, model: claude, simulation: null, "
	if !strings.HasPrefix(field, "secretKeyRef") {
		spec += "secretKeyRef: {name: anthropic, key: api-key}, "
	}
	return spec + field + "}"
}

// openAIModelWith is a Model of provider OpenAI with a further field.
func openAIModelWith(field string) string {
	return strings.Replace(realModelWith(field), "provider: Anthropic", "provider: OpenAI", 1)
}

// decimalCases are what a parameter that is a decimal takes up to a limit.
func decimalCases(field string, accepted, rejected []string) []ruleCase {
	cases := make([]ruleCase, 0, len(rejected))
	for i, value := range rejected {
		cases = append(cases, ruleCase{
			rule:     "spec.parameters." + field + " pattern",
			accepted: realModelWith(fmt.Sprintf("parameters: {%s: %q}", field, accepted[i%len(accepted)])),
			rejected: realModelWith(fmt.Sprintf("parameters: {%s: %q}", field, value)),
			message:  "spec.parameters." + field + " in body should match",
		})
	}
	return cases
}

var parameterCases = slices.Concat(
	decimalCases(
		"temperature",
		[]string{"0", "1", "2", "0.7", "1.999", "2.00"},
		[]string{"2.1", "3", "-1", ".5", "1.", "1,5"},
	),
	decimalCases("topP", []string{"0", "1", "0.95", "0.001", "1.000"}, []string{"1.1", "2", "1e0", "0.", "high"}),
)

const oneKindOfArguments = " rule at most one of arguments and rawArguments may be set."

var simulationCases = []ruleCase{
	{
		rule:     "spec.simulation.latency pattern",
		accepted: `spec: {simulation: {latency: 250ms}}`,
		rejected: `spec: {simulation: {latency: fast}}`,
		message:  `spec.simulation.latency in body should match`,
	},
	{
		rule:     "spec.simulation.latency rule latency must be at most 1h.",
		accepted: `spec: {simulation: {latency: 60m}}`,
		rejected: `spec: {simulation: {latency: 60m1s}}`,
	},
	{
		rule:     "spec.simulation.response.type enum",
		accepted: `spec: {simulation: {response: {type: Empty}}}`,
		rejected: `spec: {simulation: {response: {type: Silent}}}`,
		message: `spec.simulation.response.type: Unsupported value: "Silent": ` +
			`supported values: "Fixed", "Echo", "Lorem", "Sequence", "Empty", "Error"`,
	},
	{
		rule:     "spec.simulation.response rule text is for the types Fixed and Error.",
		accepted: `spec: {simulation: {response: {text: Hello.}}}`,
		rejected: `spec: {simulation: {response: {type: Echo, text: Hello.}}}`,
	},
	{
		rule:     "spec.simulation.response rule prefix is for the type Echo.",
		accepted: `spec: {simulation: {response: {type: Echo, prefix: "> "}}}`,
		rejected: `spec: {simulation: {response: {prefix: "> "}}}`,
	},
	{
		rule:     "spec.simulation.response rule tokens is required for the type Lorem, and for no other type.",
		accepted: `spec: {simulation: {response: {type: Lorem, tokens: 5}}}`,
		rejected: `spec: {simulation: {response: {type: Lorem}}}`,
	},
	{
		rule:     "spec.simulation.response rule tokens is required for the type Lorem, and for no other type.",
		accepted: `spec: {simulation: {response: {type: Empty}}}`,
		rejected: `spec: {simulation: {response: {type: Empty, tokens: 5}}}`,
	},
	{
		rule:     "spec.simulation.response rule texts is required for the type Sequence, and for no other type.",
		accepted: `spec: {simulation: {response: {type: Sequence, texts: [One.]}}}`,
		rejected: `spec: {simulation: {response: {type: Sequence}}}`,
	},
	{
		rule:     "spec.simulation.response rule texts is required for the type Sequence, and for no other type.",
		accepted: `spec: {simulation: {response: {type: Fixed, text: One.}}}`,
		rejected: `spec: {simulation: {response: {type: Fixed, texts: [One.]}}}`,
	},
	{
		rule:     "spec.simulation.response rule the type Error requires text, the message of the error.",
		accepted: `spec: {simulation: {response: {type: Error, text: The quota is used up.}}}`,
		rejected: `spec: {simulation: {response: {type: Error}}}`,
	},
	{
		rule:     "spec.simulation.response.code enum",
		accepted: `spec: {simulation: {response: {type: Error, text: Wait., code: provider_unavailable}}}`,
		rejected: `spec: {simulation: {response: {type: Error, text: Wait., code: cancelled}}}`,
		message: `spec.simulation.response.code: Unsupported value: "cancelled": supported values: "processing_error", ` +
			`"model_unavailable", "request_too_large", "provider_rate_limited", "provider_misconfigured", ` +
			`"provider_quota_exhausted", "provider_unavailable"`,
	},
	{
		rule:     "spec.simulation.response rule code is for the type Error.",
		accepted: `spec: {simulation: {response: {type: Error, text: Wait., code: provider_rate_limited}}}`,
		rejected: `spec: {simulation: {response: {type: Fixed, text: Wait., code: provider_rate_limited}}}`,
	},
	{
		rule:     "spec.simulation.toolCalls rule at most one of fixed and sequence may be set.",
		accepted: `spec: {simulation: {toolCalls: {fixed: [{name: wc}], conditional: [{contains: x, sequence: [{}]}]}}}`,
		rejected: `spec: {simulation: {toolCalls: {fixed: [{name: wc}], sequence: [{calls: [{name: wc}]}]}}}`,
	},
	{
		rule:     "spec.simulation.toolCalls.fixed[] required name",
		accepted: `spec: {simulation: {toolCalls: {fixed: [{name: wc}]}}}`,
		rejected: `spec: {simulation: {toolCalls: {fixed: [{rawArguments: ""}]}}}`,
		message:  `spec.simulation.toolCalls.fixed[0].name: Required value`,
	},
	{
		rule:     "spec.simulation.toolCalls.fixed[]" + oneKindOfArguments,
		accepted: `spec: {simulation: {toolCalls: {fixed: [{name: wc, arguments: {}}]}}}`,
		rejected: `spec: {simulation: {toolCalls: {fixed: [{name: wc, arguments: {}, rawArguments: "{}"}]}}}`,
		message:  `spec.simulation.toolCalls.fixed[0]: Invalid value: at most one of arguments and rawArguments may be set.`,
	},
	{
		rule:     "spec.simulation.toolCalls.sequence[].calls[] required name",
		accepted: `spec: {simulation: {toolCalls: {sequence: [{calls: [{name: wc}]}]}}}`,
		rejected: `spec: {simulation: {toolCalls: {sequence: [{calls: [{}]}]}}}`,
		message:  `spec.simulation.toolCalls.sequence[0].calls[0].name: Required value`,
	},
	{
		rule:     "spec.simulation.toolCalls.sequence[].calls[]" + oneKindOfArguments,
		accepted: `spec: {simulation: {toolCalls: {sequence: [{calls: [{name: wc, rawArguments: "{"}]}]}}}`,
		rejected: `spec: {simulation: {toolCalls: {sequence: [{calls: [{name: wc, arguments: {}, rawArguments: "{}"}]}]}}}`,
	},
	{
		rule:     "spec.simulation.toolCalls.conditional[] required contains",
		accepted: `spec: {simulation: {toolCalls: {conditional: [{contains: count, sequence: [{}]}]}}}`,
		rejected: `spec: {simulation: {toolCalls: {conditional: [{sequence: [{}]}]}}}`,
		message:  `spec.simulation.toolCalls.conditional[0].contains: Required value`,
	},
	{
		rule:     "spec.simulation.toolCalls.conditional[] required sequence",
		accepted: `spec: {simulation: {toolCalls: {conditional: [{contains: count, sequence: [{calls: []}]}]}}}`,
		rejected: `spec: {simulation: {toolCalls: {conditional: [{contains: count}]}}}`,
		message:  `spec.simulation.toolCalls.conditional[0].sequence: Required value`,
	},
	{
		rule:     "spec.simulation.toolCalls.conditional[].sequence[].calls[] required name",
		accepted: `spec: {simulation: {toolCalls: {conditional: [{contains: count, sequence: [{calls: [{name: wc}]}]}]}}}`,
		rejected: `spec: {simulation: {toolCalls: {conditional: [{contains: count, sequence: [{calls: [{}]}]}]}}}`,
		message:  `spec.simulation.toolCalls.conditional[0].sequence[0].calls[0].name: Required value`,
	},
	{
		rule: "spec.simulation.toolCalls.conditional[].sequence[].calls[]" + oneKindOfArguments,
		accepted: `spec: {simulation: {toolCalls: {conditional: [{contains: x, sequence: [{calls: [{name: wc, ` +
			`arguments: {}}]}]}]}}}`,
		rejected: `spec: {simulation: {toolCalls: {conditional: [{contains: x, sequence: [{calls: [{name: wc, ` +
			`arguments: {}, rawArguments: ""}]}]}]}}}`,
	},
}

const noQuery = "baseURL must not have a fragment, or a query other than api-version."

const needsKey = "spec rule this provider needs secretKeyRef: the Secret and key that hold the API key. Only " +
	"provider OpenAI with a baseURL or a serviceRef works without, with servers that need no key."
