package validation_test

import "strings"

// job is a patch that makes the smallest Tool one that runs as a Job, with more fields of the Job.
func job(fields string) string {
	if fields != "" {
		fields = ", " + fields
	}
	return `spec: {client: null, job: {image: example.org/wc:1, command: [/wc]` + fields + `}}`
}

var toolCases = []ruleCase{
	{
		rule:     "required spec",
		accepted: unchanged,
		rejected: `spec: null`,
		message:  `spec: Required value`,
	},
	{
		rule:     "rule the model calls a Tool by its name: at most 63 characters, no dots.",
		accepted: `metadata: {name: ` + strings.Repeat("t", 63) + `}`,
		rejected: `metadata: {name: ` + strings.Repeat("t", 64) + `}`,
	},
	{
		rule:     "rule the model calls a Tool by its name: at most 63 characters, no dots.",
		accepted: `metadata: {name: word-count}`,
		rejected: `metadata: {name: word.count}`,
	},
	{
		rule:     "spec required description",
		accepted: unchanged,
		rejected: `spec: {description: null}`,
		message:  `spec.description: Required value`,
	},
	{
		rule:     "spec.sideEffect enum",
		accepted: strings.TrimSuffix(job(""), "}") + `, sideEffect: Idempotent}`,
		rejected: strings.TrimSuffix(job(""), "}") + `, sideEffect: Once}`,
		message:  `spec.sideEffect: Unsupported value: "Once": supported values: "Pure", "Idempotent", "AtMostOnce"`,
	},
	{
		rule:     "spec.hints[] enum",
		accepted: `spec: {displayName: Word count, hints: [ReadOnly, OpenWorld]}`,
		rejected: `spec: {hints: [Idempotent]}`,
		message:  `spec.hints[0]: Unsupported value: "Idempotent": supported values: "ReadOnly", "Destructive", "OpenWorld"`,
	},
	{
		rule:     "spec.hints rule ReadOnly and Destructive exclude each other.",
		accepted: `spec: {hints: [Destructive, OpenWorld]}`,
		rejected: `spec: {hints: [Destructive, ReadOnly]}`,
		message:  `spec.hints: Invalid value: ReadOnly and Destructive exclude each other.`,
	},
	{
		rule:     "spec rule exactly one of job, http, client and agent must be set.",
		accepted: job(""),
		rejected: `spec: {job: {image: example.org/wc:1, command: [/wc]}}`,
	},
	// The declaration of a client tool (CLIENT-01).
	{
		rule:     "spec rule exactly one of job, http, client and agent must be set.",
		accepted: `spec: {client: {}}`,
		rejected: `spec: {client: null}`,
	},
	{
		rule:     "spec rule exactly one of job, http, client and agent must be set.",
		accepted: request(""),
		rejected: `spec: {http: {url: "https://example.org"}}`,
	},
	{
		rule:     "spec rule exactly one of job, http, client and agent must be set.",
		accepted: strings.TrimSuffix(request(""), "}") + `, sideEffect: Pure, concurrencyClass: api}`,
		rejected: `spec: {client: null, http: {url: "https://example.org"}, job: {image: example.org/wc:1, command: [/wc]}}`,
	},
	{
		rule: "spec rule sideEffect and concurrencyClass are for tools that the manager runs; a client tool is run by " +
			"its client.",
		accepted: unchanged,
		rejected: `spec: {sideEffect: Pure}`,
	},
	{
		rule: "spec rule sideEffect and concurrencyClass are for tools that the manager runs; a client tool is run by " +
			"its client.",
		accepted: strings.TrimSuffix(job(""), "}") + `, concurrencyClass: disk}`,
		rejected: `spec: {concurrencyClass: disk}`,
	},
	{
		rule:     "spec rule callsPerMinute is for tools that the manager runs; a client tool is run by its client.",
		accepted: strings.TrimSuffix(job(""), "}") + `, callsPerMinute: 1}`,
		rejected: `spec: {callsPerMinute: 1}`,
	},
	{
		rule:     "spec.policy enum",
		accepted: strings.TrimSuffix(job(""), "}") + `, policy: Auto}`,
		rejected: strings.TrimSuffix(job(""), "}") + `, policy: Never}`,
		message:  `spec.policy: Unsupported value: "Never": supported values: "Auto", "RequiresApproval"`,
	},
	{
		rule:     "spec rule policy is for tools that the manager runs; the client decides whether to run a client tool.",
		accepted: strings.TrimSuffix(job(""), "}") + `, policy: RequiresApproval}`,
		rejected: `spec: {policy: RequiresApproval}`,
	},
	{
		rule:     "spec rule approvalTimeout is for tools with the policy RequiresApproval.",
		accepted: guarded("1h"),
		rejected: strings.TrimSuffix(job(""), "}") + `, approvalTimeout: 1h}`,
	},
	{
		rule:     "spec rule approvalTimeout is for tools with the policy RequiresApproval.",
		accepted: guarded("1h"),
		rejected: strings.TrimSuffix(job(""), "}") + `, policy: Auto, approvalTimeout: 1h}`,
	},
	{
		rule:     "spec.approvalTimeout pattern",
		accepted: guarded("1h30m"),
		rejected: guarded("1d"),
		message:  `spec.approvalTimeout in body should match`,
	},
	{
		rule:     "spec.approvalTimeout rule approvalTimeout must be between 1s and 8760h.",
		accepted: guarded("1s"),
		rejected: guarded("999ms"),
	},
	{
		rule:     "spec.approvalTimeout rule approvalTimeout must be between 1s and 8760h.",
		accepted: guarded("8760h"),
		rejected: guarded("8760h1s"),
	},
}

// guarded is a patch that makes the smallest Tool one whose calls need approval within a time.
func guarded(timeout string) string {
	return strings.TrimSuffix(job(""), "}") + `, policy: RequiresApproval, approvalTimeout: ` + timeout + `}`
}

const notExpanded = "the arguments of a call are not expanded here: read them from stdin, $CAPSTAN_ARGUMENTS_FILE or " +
	"the environment inside the tool."

var jobCases = []ruleCase{
	{
		rule:     "spec.job required image",
		accepted: job(""),
		rejected: `spec: {client: null, job: {command: [/wc]}}`,
		message:  `spec.job.image: Required value`,
	},
	{
		rule:     "spec.job required command",
		accepted: job(""),
		rejected: `spec: {client: null, job: {image: example.org/wc:1}}`,
		message:  `spec.job.command: Required value`,
	},
	{
		rule:     "spec.job.command rule " + notExpanded,
		accepted: job(`args: ["$(HOME)"]`),
		rejected: `spec: {client: null, job: {image: example.org/wc:1, command: [/wc, "$(CAPSTAN_ARG_TEXT)"]}}`,
	},
	{
		rule:     "spec.job.args rule " + notExpanded,
		accepted: job(`args: [--file, "$CAPSTAN_ARGUMENTS_FILE"]`),
		rejected: job(`args: ["--text=$(CAPSTAN_ARG_TEXT)"]`),
	},
	{
		rule:     "spec.job.files rule at least one of inputs and outputs must be set.",
		accepted: job(`files: {outputs: [/a]}`),
		rejected: job(`files: {}`),
	},
	{
		rule:     "spec.job.files.inputs[] pattern",
		accepted: job(`files: {inputs: ["/src/ä b.go", notes]}`),
		rejected: job(`files: {inputs: ["/src\ta.go"]}`),
		message:  `spec.job.files.inputs[0] in body should match`,
	},
	{
		rule:     "spec.job.files.outputs[] pattern",
		accepted: job(`files: {outputs: [/]}`),
		rejected: job(`files: {outputs: ["/src\na.go"]}`),
		message:  `spec.job.files.outputs[0] in body should match`,
	},
	{
		rule:     "spec.job.files.inputs[] rule path must not have . or .. as a name.",
		accepted: job(`files: {inputs: [/..a/.b]}`),
		rejected: job(`files: {inputs: [/a/../b]}`),
	},
	{
		rule:     "spec.job.files.outputs[] rule path must not have . or .. as a name.",
		accepted: job(`files: {outputs: [/a/b..]}`),
		rejected: job(`files: {outputs: [./a]}`),
	},
	{
		rule:     "spec.job.connections rule each exitCode must be set once.",
		accepted: job(`connections: [{exitCode: 75, provider: github}, {exitCode: 76, provider: gitlab}]`),
		rejected: job(`connections: [{exitCode: 75, provider: github}, {exitCode: 75, provider: gitlab}]`),
	},
	{
		rule:     "spec.job.connections[] required exitCode",
		accepted: job(`connections: [{exitCode: 3, provider: a}]`),
		rejected: job(`connections: [{provider: a}]`),
		message:  `spec.job.connections[0].exitCode: Required value`,
	},
	{
		rule:     "spec.job.connections[] required provider",
		accepted: job(`connections: [{exitCode: 123, provider: git.hub_2-x}]`),
		rejected: job(`connections: [{exitCode: 75}]`),
		message:  `spec.job.connections[0].provider: Required value`,
	},
	{
		rule:     "spec.job.connections[].provider pattern",
		accepted: job(`connections: [{exitCode: 75, provider: github}]`),
		rejected: job(`connections: [{exitCode: 75, provider: "git hub"}]`),
		message:  `spec.job.connections[0].provider in body should match`,
	},
	{
		rule:     "spec.job.env[] required name",
		accepted: job(`env: [{name: LANG}]`),
		rejected: job(`env: [{value: C}]`),
		message:  `spec.job.env[0].name: Required value`,
	},
	{
		rule:     "spec.job.env[].name pattern",
		accepted: job(`env: [{name: _LC_ALL2}]`),
		rejected: job(`env: [{name: 2LANG}]`),
		message:  `spec.job.env[0].name in body should match '^[A-Za-z_]`,
	},
	{
		rule:     "spec.job.env[].name pattern",
		accepted: job(`env: [{name: lang}]`),
		rejected: job(`env: [{name: a.b}]`),
		message:  `spec.job.env[0].name in body should match '^[A-Za-z_]`,
	},
	{
		rule:     "spec.job.env[].name rule names that begin with CAPSTAN_ are set by the runtime. Choose another name.",
		accepted: job(`env: [{name: MY_CAPSTAN_TURN}]`),
		rejected: job(`env: [{name: CAPSTAN_TURN}]`),
	},
	{
		rule:     "spec.job.env[].value rule " + notExpanded,
		accepted: job(`env: [{name: DIR, value: "$(HOME)/data"}]`),
		rejected: job(`env: [{name: TEXT, value: "$(CAPSTAN_ARG_TEXT)"}]`),
	},
	{
		rule:     "spec.job.env[] rule at most one of value and secretKeyRef may be set.",
		accepted: job(`env: [{name: TOKEN, secretKeyRef: {name: weather, key: token}}]`),
		rejected: job(`env: [{name: TOKEN, value: "", secretKeyRef: {name: weather, key: token}}]`),
	},
	{
		rule:     "spec.job.env[].secretKeyRef required name",
		accepted: job(`env: [{name: TOKEN, secretKeyRef: {name: weather, key: token}}]`),
		rejected: job(`env: [{name: TOKEN, secretKeyRef: {key: token}}]`),
		message:  `spec.job.env[0].secretKeyRef.name: Required value`,
	},
	{
		rule:     "spec.job.env[].secretKeyRef required key",
		accepted: job(`env: [{name: TOKEN, secretKeyRef: {name: weather, key: token}}]`),
		rejected: job(`env: [{name: TOKEN, secretKeyRef: {name: weather}}]`),
		message:  `spec.job.env[0].secretKeyRef.key: Required value`,
	},
	{
		rule:     "spec.job.env[].secretKeyRef.key pattern",
		accepted: job(`env: [{name: TOKEN, secretKeyRef: {name: weather, key: .api_token-1}}]`),
		rejected: job(`env: [{name: TOKEN, secretKeyRef: {name: weather, key: a/b}}]`),
		message:  `spec.job.env[0].secretKeyRef.key in body should match`,
	},
	{
		rule:     "spec.job.imagePullSecrets[] required name",
		accepted: job(`imagePullSecrets: [{name: registry}]`),
		rejected: job(`imagePullSecrets: [{}]`),
		message:  `spec.job.imagePullSecrets[0].name: Required value`,
	},
	{
		rule:     "spec.job.serviceAccountName pattern",
		accepted: job(`serviceAccountName: weather.reader-1`),
		rejected: job(`serviceAccountName: weather_reader`),
		message:  `spec.job.serviceAccountName in body should match`,
	},
	{
		rule: "spec.job rule a tool with files cannot run as a background task: remove files, or set background to " +
			"Forbid.",
		accepted: job(`background: Forbid, files: {outputs: [/a]}`),
		rejected: job(`background: Allow, files: {outputs: [/a]}`),
	},
	{
		rule:     "spec.job.background enum",
		accepted: job(`background: Allow`),
		rejected: job(`background: Sometimes`),
		message:  `spec.job.background: Unsupported value: "Sometimes": supported values: "Forbid", "Allow"`,
	},
	{
		rule:     "spec.job.network enum",
		accepted: job(`network: None`),
		rejected: job(`network: Some`),
		message:  `spec.job.network: Unsupported value: "Some": supported values: "Default", "None"`,
	},
	{
		rule:     "spec.job.imagePullPolicy enum",
		accepted: job(`imagePullPolicy: Never`),
		rejected: job(`imagePullPolicy: Sometimes`),
		message: `spec.job.imagePullPolicy: Unsupported value: "Sometimes": supported values: "Always", "IfNotPresent", ` +
			`"Never"`,
	},
	{
		rule:     "spec.job.resources.requests[*] pattern",
		accepted: job(`resources: {requests: {memory: 1.5Gi}}`),
		rejected: job(`resources: {requests: {memory: 1.5GB}}`),
		message:  `spec.job.resources.requests.memory in body should match`,
	},
	{
		rule:     "spec.job.resources.limits[*] pattern",
		accepted: job(`resources: {limits: {cpu: 500m}}`),
		rejected: job(`resources: {limits: {cpu: half}}`),
		message:  `spec.job.resources.limits.cpu in body should match`,
	},
	{
		rule:     "spec.job.resources rule requests must not be negative.",
		accepted: job(`resources: {requests: {cpu: 0}}`),
		rejected: job(`resources: {requests: {cpu: -1}}`),
		message:  `spec.job.resources: Invalid value: requests must not be negative.`,
	},
	{
		rule:     "spec.job.resources rule limits must not be negative.",
		accepted: job(`resources: {limits: {cpu: 1}}`),
		rejected: job(`resources: {limits: {memory: "-1Gi"}}`),
		message:  `spec.job.resources: Invalid value: limits must not be negative.`,
	},
	{
		rule: "spec.job.resources rule no request of cpu, memory or ephemeral-storage may be above its limit.",
		accepted: job(
			`resources: {requests: {cpu: 1000m, memory: 1Gi, example.org/gpu: 1}, limits: {cpu: 1, memory: 1024Mi, ` +
				`example.org/disk: 0}}`,
		),
		rejected: job(`resources: {requests: {memory: 1Gi}, limits: {memory: 1023Mi}}`),
		message:  `spec.job.resources: Invalid value: no request of cpu, memory or ephemeral-storage may be above its limit.`,
	},
	{
		rule:     "spec.job.timeout pattern",
		accepted: job(`timeout: 1h30m`),
		rejected: job(`timeout: "30"`),
		message:  `spec.job.timeout in body should match`,
	},
	{
		rule:     "spec.job.timeout rule timeout must be between 1s and 24h.",
		accepted: job(`timeout: 1s`),
		rejected: job(`timeout: 999ms`),
	},
	{
		rule:     "spec.job.timeout rule timeout must be between 1s and 24h.",
		accepted: job(`timeout: 24h`),
		rejected: job(`timeout: 24h1s`),
	},
	{
		rule:     "spec.job.startTimeout pattern",
		accepted: job(`startTimeout: 1.5m`),
		rejected: job(`startTimeout: -5m`),
		message:  `spec.job.startTimeout in body should match`,
	},
	{
		rule:     "spec.job.startTimeout rule startTimeout must be between 1s and 24h.",
		accepted: job(`startTimeout: 1000ms`),
		rejected: job(`startTimeout: 0s`),
	},
	{
		rule:     "spec.job.startTimeout rule startTimeout must be between 1s and 24h.",
		accepted: job(`startTimeout: 1440m`),
		rejected: job(`startTimeout: 1441m`),
	},
}
