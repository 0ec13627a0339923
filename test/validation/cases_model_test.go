package validation_test

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
		message:  `spec.provider: Unsupported value: "Oracle": supported values: "Simulated"`,
	},
	{
		rule:     "spec rule provider Simulated needs simulation: say what the model answers.",
		accepted: `spec: {simulation: {response: {text: Hello.}}}`,
		rejected: `spec: {simulation: null}`,
	},
}

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
		rule:     "spec.simulation.response rule tokens is for the type Lorem, and needed there.",
		accepted: `spec: {simulation: {response: {type: Lorem, tokens: 5}}}`,
		rejected: `spec: {simulation: {response: {type: Lorem}}}`,
	},
	{
		rule:     "spec.simulation.response rule tokens is for the type Lorem, and needed there.",
		accepted: `spec: {simulation: {response: {type: Empty}}}`,
		rejected: `spec: {simulation: {response: {type: Empty, tokens: 5}}}`,
	},
	{
		rule:     "spec.simulation.response rule texts is for the type Sequence, and needed there.",
		accepted: `spec: {simulation: {response: {type: Sequence, texts: [One.]}}}`,
		rejected: `spec: {simulation: {response: {type: Sequence}}}`,
	},
	{
		rule:     "spec.simulation.response rule texts is for the type Sequence, and needed there.",
		accepted: `spec: {simulation: {response: {type: Fixed, text: One.}}}`,
		rejected: `spec: {simulation: {response: {type: Fixed, texts: [One.]}}}`,
	},
	{
		rule:     "spec.simulation.response rule the type Error needs text: the error to fail with.",
		accepted: `spec: {simulation: {response: {type: Error, text: The quota is used up.}}}`,
		rejected: `spec: {simulation: {response: {type: Error}}}`,
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
		rule:     "spec.simulation.toolCalls.conditional[].sequence[].calls[]" + oneKindOfArguments,
		accepted: `spec: {simulation: {toolCalls: {conditional: [{contains: x, sequence: [{calls: [{name: wc, arguments: {}}]}]}]}}}`,
		rejected: `spec: {simulation: {toolCalls: {conditional: [{contains: x, sequence: [{calls: [{name: wc, arguments: {}, rawArguments: ""}]}]}]}}}`,
	},
}
