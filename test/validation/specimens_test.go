package validation_test

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	capstanv1alpha1 "github.com/capstan-dev/capstan/api/v1alpha1"
)

// specimen is a valid object. Together the specimens of a kind set every field that a user can set; a spec holds that.
// Values are written the way that the Go types write them, so that a specimen survives a program that reads and writes
// it.
type specimen struct {
	kind string
	name string
	spec string
}

func (s specimen) object(namespace string) *unstructured.Unstructured {
	object := parse(fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: %s, namespace: %s}\nspec:%s",
		capstanv1alpha1.GroupVersion, s.kind, s.name, namespace, s.spec))
	return object
}

func specimensOf(kind string) []specimen {
	var found []specimen
	for _, s := range slices.Concat(specimens, hookSpecimens()) {
		if s.kind == kind {
			found = append(found, s)
		}
	}
	return found
}

// specimens are those of all kinds that users write.
var specimens = slices.Concat(commonSpecimens, resultSpecimens, scheduleSpecimens, budgetSpecimens)

var commonSpecimens = []specimen{
	{kind: "Harness", name: "complete", spec: `
  parentRef: {name: root}
  systemPrompt: You answer briefly.
  modelRef: {name: simulated}
  tools: [{name: word-count}, {name: ask-user}]
  mcpServers: [{name: github}]
  capabilities: [{builtin: current_time, config: {timezone: Europe/Berlin}}]
  initialFiles: [{path: /docs/rules.md, content: Be brief., encoding: Text, access: ReadOnly}]
  serviceAccountName: operator
  maxIterations: 20
  toolConcurrency: Sequential
  networkAccess:
    allowed: [api.example.org, "*.example.com", "https://example.net/v1/"]
    blocked: [inside.example.com]
    exemptTools: [{name: word-count}]
  lifecycle: Active
`},
	{kind: "Agent", name: "complete", spec: `
  systemPrompt: You know the law of the sea.
  modelRef: {name: simulated}
  tools: [{name: word-count}]
  mcpServers: [{name: github}]
  capabilities: [{builtin: current_time, config: {timezone: Europe/Berlin}}]
  initialFiles: [{path: /docs/rules.md, content: Be brief., encoding: Text, access: ReadOnly}]
  serviceAccountName: operator
  maxIterations: 10
  toolConcurrency: Parallel
  networkAccess:
    allowed: [api.example.org, "*.example.com", "https://example.net/v1/"]
    blocked: [inside.example.com]
    exemptTools: [{name: word-count}]
  lifecycle: Archived
`},
	{kind: "Turn", name: "ticked", spec: `
  sessionRef: {name: demo}
  input: Hello
  origin:
    type: Schedule
    schedule:
      schedule: {name: nightly, uid: 7d0e2f1c-0000-4000-8000-000000000003}
      tick: "2031-01-02T03:04:00Z"
`},
	{kind: "Session", name: "complete", spec: `
  harnessRef: {name: base}
  agentRef: {name: lawyer}
  systemPrompt: The client is called Ada.
  modelRef: {name: simulated}
  tools: [{name: ask-user}]
  mcpServers: [{name: github}]
  capabilities: [{builtin: current_time, config: {timezone: Europe/Berlin}}]
  initialFiles: [{path: /docs/rules.md, content: Be brief., encoding: Text, access: ReadOnly}]
  serviceAccountName: operator
  maxIterations: 5
  toolConcurrency: Parallel
  networkAccess:
    allowed: [api.example.org, "*.example.com", "https://example.net/v1/"]
    blocked: [inside.example.com]
    exemptTools: [{name: word-count}]
  origin:
    type: SubAgent
    subAgent:
      session: {name: demo, uid: 7d0e2f1c-0000-4000-8000-000000000001}
      turn: {name: demo-1, uid: 7d0e2f1c-0000-4000-8000-000000000002}
      step: 2
      callID: 1-0
      root: {name: demo, uid: 7d0e2f1c-0000-4000-8000-000000000001}
      depth: 1
      retention: Delete
  title: Ada's case against the harbour
  locale: de-CH
  clientTools: FollowHints
  hints: {setup_connection: true, screen: {width: 80}, note: kind}
  journalLimit: 32Mi
  turnTTL: 1h0m0s
`},
	{kind: "Session", name: "ticked", spec: `
  harnessRef: {name: base}
  origin:
    type: Schedule
    schedule:
      schedule: {name: nightly, uid: 7d0e2f1c-0000-4000-8000-000000000003}
      tick: "2031-01-02T03:04:00Z"
`},
	{kind: "Turn", name: "complete", spec: `
  sessionRef: {name: demo}
  input: How many words has this sentence?
  controls: {modelRef: {name: simulated}, locale: en-GB, reasoningEffort: High}
  delivery: Queue
  desiredState: Running
  suspend: false
  submittedBy: ann@example.org
  traceParent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
  origin:
    type: SubAgent
    subAgent:
      session: {name: demo, uid: 7d0e2f1c-0000-4000-8000-000000000001}
      turn: {name: demo-1, uid: 7d0e2f1c-0000-4000-8000-000000000002}
      step: 2
      callID: 1-0
      root: {name: demo, uid: 7d0e2f1c-0000-4000-8000-000000000001}
      depth: 1
      retention: Delete
  activeDeadlineSeconds: 3600
  waitTimeout: 10m0s
  ttlSecondsAfterFinished: 86400
`},
	{kind: "Turn", name: "parts", spec: `
  sessionRef: {name: demo}
  message:
    content:
    - text: Which of them is a cat?
    - image: {mediaType: image/gif, data: R0lGODlhAQABAAAAACw=}
    - image: {mediaType: image/jpeg, url: "https://example.org/cat.jpg"}
  origin:
    type: Task
    task:
      id: 0123456789abcdef
      session: {name: demo, uid: 7d0e2f1c-0000-4000-8000-000000000001}
      turn: {name: demo-1, uid: 7d0e2f1c-0000-4000-8000-000000000002}
      root: {name: demo-1, uid: 7d0e2f1c-0000-4000-8000-000000000002}
`},
	{kind: "Turn", name: "picture", spec: `
  sessionRef: {name: demo}
  message: {content: [{image: {mediaType: image/gif, data: R0lGODlhAQABAAAAACw=}}]}
`},
	{kind: "Turn", name: "stored", spec: `
  sessionRef: {name: demo}
  message: {content: [{imageRef: {id: img-0123456789abcdef0123456789abcdef}}]}
`},
	{kind: "Turn", name: "address", spec: `
  sessionRef: {name: demo}
  message: {content: [{image: {mediaType: image/webp, url: "https://example.org/cat.webp"}}]}
`},
	{kind: "Model", name: "text", spec: `
  provider: Simulated
  model: sim-1
  simulation:
    response: {type: Fixed, text: "There are {{tool:word-count}} words."}
    latency: 1s
    toolCalls:
      sequence:
      - calls:
        - {name: word-count, arguments: {text: "{{input}}"}}
        - {name: word-count, rawArguments: "{not json"}
      - {}
      conditional:
      - contains: words
        sequence:
        - calls: [{name: word-count, arguments: {text: a b}}, {name: word-count, rawArguments: ""}]
`},
	{kind: "Model", name: "echo", spec: `
  provider: Simulated
  simulation:
    response: {type: Echo, prefix: "You said: "}
    toolCalls:
      fixed: [{name: word-count, arguments: {}}]
`},
	{kind: "Model", name: "filler", spec: `
  provider: Simulated
  simulation:
    response: {type: Lorem, tokens: 200}
    toolCalls:
      fixed: [{name: word-count, rawArguments: "[]"}]
`},
	{kind: "Model", name: "broken", spec: `
  provider: Simulated
  simulation:
    response: {type: Error, text: Too many requests., code: provider_rate_limited}
`},
	{kind: "Model", name: "series", spec: `
  provider: Simulated
  simulation:
    response: {type: Sequence, texts: [One., Two.]}
    toolCalls:
      sequence: [{calls: [{name: word-count, rawArguments: "{}"}]}]
      conditional: [{contains: count, sequence: [{calls: [{name: word-count, rawArguments: "{}"}]}]}]
`},
	{kind: "Model", name: "real", spec: `
  provider: Anthropic
  model: claude-sonnet-5-5
  contextWindow: 200000
  limits: {requestsPerMinute: 50, tokensPerMinute: 80000}
  baseURL: https://models.example.org/anthropic
  secretKeyRef: {name: anthropic, key: api-key}
  parameters:
    maxOutputTokens: 4096
    temperature: "0.7"
    topP: "0.95"
    stopSequences: [END]
    reasoningEffort: Low
  price:
    currency: EUR
    inputPerMillionTokens: "3"
    outputPerMillionTokens: "15"
    cachedInputPerMillionTokens: "0.3"
    cacheWritePerMillionTokens: "3.75"
  fallbacks: [{name: openai}, {name: simulated}]
  recovery: Finalize
  timeouts: {firstContent: 1m30s, idle: 1m0s, call: 1h0m0s}
`},
	{kind: "Model", name: "compatible", spec: `
  provider: OpenAI
  model: qwen3
  baseURL: https://models.example.org/v1
  api: ChatCompletions
  secretKeyRef: {name: compatible, key: api-key}
`},
	{kind: "Tool", name: "job", spec: `
  description: Counts the words of a text.
  sideEffect: Pure
  concurrencyClass: counting
  callsPerMinute: 60
  inputSchema: {type: object, properties: {text: {type: string}}, required: [text]}
  job:
    image: example.org/wc:1
    imagePullPolicy: IfNotPresent
    command: [/wc, --lines]
    args: [--stdin]
    env: [{name: LANG, value: C}, {name: EMPTY, value: "$(LANG)"}]
    serviceAccountName: weather
    imagePullSecrets: [{name: registry}]
    connections: [{exitCode: 75, provider: github}]
    network: None
    files: {inputs: [/src, notes.txt], outputs: [/src]}
    resources:
      requests: {cpu: 10m, memory: 32Mi}
      limits: {cpu: "1", memory: 256Mi}
    timeout: 30s
    startTimeout: 1m0s
`},
	{kind: "Tool", name: "secret", spec: `
  description: Returns the forecast.
  job:
    image: example.org/weather:1
    command: [/weather]
    env: [{name: TOKEN, secretKeyRef: {name: weather, key: token}}]
    network: Default
    background: Allow
    timeout: 5m0s
    startTimeout: 2m0s
`},
	{kind: "Tool", name: "guarded", spec: `
  description: Deletes a database.
  displayName: Delete a database
  hints: [Destructive, OpenWorld]
  policy: RequiresApproval
  approvalTimeout: 1h0m0s
  job:
    image: example.org/db:1
    command: [/db, delete]
    network: Default
    timeout: 5m0s
    startTimeout: 2m0s
`},
	{kind: "Harness", name: "bundled", spec: `
  capabilities: [{name: research, config: {depth: 2}, maxRisk: High}]
`},
	{kind: "Harness", name: "bundled-optional", spec: `
  capabilities: [{name: extra, optional: true}]
`},
	{kind: "Agent", name: "bundled", spec: `
  capabilities: [{name: research, maxRisk: High, optional: true}]
`},
	{kind: "Session", name: "bundled", spec: `
  harnessRef: {name: base}
  blueprint: {capability: research, name: reader, config: {depth: 2}, maxRisk: High}
  capabilities: [{name: research, maxRisk: High, optional: true}]
`},
	{kind: "Capability", name: "research", spec: `
  description: Reads papers.
  systemPrompt: Cite what you read.
  tools: [{name: word-count}]
  mcpServers: [{name: github}]
  initialFiles: [{path: /docs/rules.md, content: Be brief., encoding: Text, access: ReadOnly}]
  dependencies: [{builtin: current_time, maxRisk: Low}]
  configSchema: {type: object, properties: {depth: {type: integer}}}
  blueprints:
  - name: reader
    description: Reads papers.
    systemPrompt: Read.
    tools: [{name: word-count}]
    modelPolicy: Default
    modelRef: {name: simulated}
    maxIterations: 5
    configSchema: {type: object, properties: {depth: {type: integer}}}
  riskLevel: High
  lifecycle: Active
`},
	{kind: "Capability", name: "extended", spec: `
  dependencies: [{name: research, maxRisk: High}]
  riskLevel: Low
  lifecycle: Archived
`},
	{kind: "MCPServer", name: "github", spec: `
  url: https://mcp.example.org/github
  headers:
  - name: Authorization
    connection: {provider: github, scheme: Bearer}
    secretKeyRef: {name: github, key: authorization}
  timeout: 1m0s
  refreshInterval: 1h0m0s
  callsPerMinute: 100
  toolFilter: {include: [issue_*], exclude: [issue_delete]}
  tools:
  - name: issue_write
    sideEffect: Idempotent
    policy: RequiresApproval
    approvalTimeout: 1h0m0s
    concurrencyClass: github
    secretArguments: [/token]
`},
	{kind: "MCPServer", name: "open", spec: `
  url: https://mcp.example.org/open
  headers:
  - {name: X-Team, value: a}
  identity: AgentToken
  timeout: 30s
  refreshInterval: 10m0s
`},
	{kind: "Tool", name: "agent", spec: `
  description: Researches a question.
  agent:
    blueprint: {capability: research, name: reader, maxRisk: Low}
    harnessRef: {name: base}
    agentRef: {name: lawyer}
    retention: Keep
    maxIterations: 20
    timeout: 10m0s
`},
	{kind: "Tool", name: "lease", spec: `
  description: Starts a sandbox.
  sideEffect: Idempotent
  lease:
    provider: sandboxes.example.com
    type: sandbox
    externalIDFrom: Result
    externalIDPath: /data/0/id
    duration: 1h30m0s
    cleanup: {toolRef: {name: delete-sandbox}}
  http:
    url: https://api.example.org/v1/sandboxes
    method: POST
    timeout: 30s
`},
	{kind: "Tool", name: "http", spec: `
  description: Returns the forecast.
  sideEffect: Pure
  inputSchema: {type: object, properties: {city: {type: string}}}
  http:
    url: https://api.example.org/v1/forecast?unit=c
    method: GET
    arguments: Query
    headers:
    - {name: Accept, value: application/json}
    timeout: 10s
`},
	{kind: "Model", name: "in-cluster", spec: `
  provider: OpenAI
  model: qwen3
  serviceRef: {name: vllm, port: 8000, scheme: HTTPS, path: /v1}
  probe: {interval: 1h0m0s, request: "2026-11-25T03:00:00Z"}
  caBundle:
    configMapKeyRef: {name: vllm-ca, key: ca.crt}
`},
	{kind: "Model", name: "in-cluster-secret", spec: `
  provider: OpenAI
  model: qwen3
  serviceRef: {name: vllm, port: 8000}
  caBundle:
    secretKeyRef: {name: vllm-tls, key: ca.crt}
`},
	{kind: "MCPServer", name: "in-cluster-map", spec: `
  headers:
  - {name: X-Customer-Key, sessionSecret: {name: crm-key, scheme: Key}}
  serviceRef: {name: mcp, port: 443, scheme: HTTPS}
  caBundle:
    configMapKeyRef: {name: mcp-ca, key: ca.crt}
  timeout: 30s
  refreshInterval: 10m0s
`},
	{kind: "Tool", name: "http-service-secret", spec: `
  description: Returns the stock.
  http:
    serviceRef: {name: stock, port: 443, scheme: HTTPS}
    caBundle:
      secretKeyRef: {name: stock-tls, key: ca.crt}
    method: POST
    timeout: 10s
`},
	{kind: "MCPServer", name: "in-cluster", spec: `
  serviceRef: {name: mcp, port: 8080, scheme: HTTP, path: /mcp}
  caBundle:
    secretKeyRef: {name: mcp-tls, key: ca.crt}
  timeout: 30s
  refreshInterval: 10m0s
`},
	{kind: "Tool", name: "http-service", spec: `
  description: Returns the stock.
  http:
    serviceRef: {name: stock, port: 80, path: /v1/stock}
    caBundle:
      configMapKeyRef: {name: stock-ca, key: ca.crt}
    method: POST
    timeout: 10s
`},
	{kind: "Tool", name: "http-connection", spec: `
  description: Lists the issues.
  http:
    url: https://api.example.org/v1/issues
    method: GET
    headers:
    - {name: Authorization, connection: {provider: github, scheme: Bearer}}
    timeout: 30s
`},
	{kind: "Tool", name: "http-secrets", spec: `
  description: Creates a customer.
  http:
    url: https://api.example.org/v1/customers
    method: POST
    headers:
    - {name: Authorization, sessionSecret: {name: crm-key, scheme: Bearer}}
    secretArguments: [/key, /billing/token]
    timeout: 30s
`},
	{kind: "Tool", name: "http-paid", spec: `
  description: Returns the rating of a company.
  http:
    url: https://api.example.org/v1/ratings
    method: GET
    timeout: 30s
    payment:
      rail: X402Base
      network: BaseSepolia
      walletRef: {name: wallet, key: key}
      maxAmount: "0.05"
      maxAmountPerTurn: "0.5"
      maxAmountPerSession: "5"
      payees: ["0x209693Bc6afc0C5328bA36FaF03C514EF312287C"]
`},
	{kind: "Tool", name: "http-secret", spec: `
  description: Books a room.
  http:
    url: https://api.example.org/v1/rooms
    method: POST
    headers:
    - {name: Authorization, secretKeyRef: {name: rooms, key: token}}
    timeout: 30s
`},
	{kind: "Tool", name: "client", spec: `
  description: Asks the user.
  inputSchema: {type: object}
  client: {}
`},
}
