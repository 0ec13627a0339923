package kit_test

import (
	"context"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
)

// world is somewhere that a Turn runs: in a cluster with the real controllers, or in this process.
type world interface {
	// rest waits until the Turn has ended, or waits for others.
	rest(ctx context.Context) *v1alpha1.Turn
	// answer and refuse do what a client does, approve and reject what a person does.
	answer(ctx context.Context, call, text string)
	refuse(ctx context.Context, call, text string)
	decide(ctx context.Context, call string, decision v1alpha1.Decision)
	reject(ctx context.Context, call, reason string)
	// connect answers that the connection to shop, which a call needs, was set up, or was not.
	connect(ctx context.Context, call string, action v1alpha1.InputAction)
	// supply creates the Secret key, with the key token.
	supply(ctx context.Context)
	// cancel ends the Turn.
	cancel(ctx context.Context)
}

// scenario is a Turn whose course is the same wherever it runs.
type scenario struct {
	// manifests besides the common ones; %MODEL% of those is the script.
	model, harness, session string
	// tools returns the output of the containers. It calls started for each of them.
	tools func(call capstantest.Call, started func()) (stdout, stderr string, exit int)
	// archive has the Harness archived during the first model call.
	archive bool
	// during is done once a tool has started; then while the Turn waits, one after another.
	during func(context.Context, world)
	then   []func(context.Context, world)
	// ends is the reason of the condition Succeeded.
	ends string
}

// common are the tools that scenarios have.
const common = `
apiVersion: capstan.dev/v1alpha1
kind: Tool
metadata: {name: look}
spec:
  description: Looks.
  sideEffect: Pure
  inputSchema: {type: object, properties: {what: {type: string}}, additionalProperties: false}
  job: {image: example.org/look:1, command: [/look]}
---
apiVersion: capstan.dev/v1alpha1
kind: Tool
metadata: {name: pay}
spec: {description: Pays., job: {image: example.org/pay:1, command: [/pay]}}
---
apiVersion: capstan.dev/v1alpha1
kind: Tool
metadata: {name: build}
spec:
  description: Builds.
  sideEffect: Pure
  job: {image: example.org/build:1, command: [/build], files: {inputs: [/src], outputs: [/src, /bin]}}
---
apiVersion: capstan.dev/v1alpha1
kind: Tool
metadata: {name: guarded}
spec: {description: Pays once approved., policy: RequiresApproval, job: {image: example.org/pay:1, command: [/pay]}}
---
apiVersion: capstan.dev/v1alpha1
kind: Tool
metadata: {name: ask}
spec: {description: Asks the user., client: {}}
---
apiVersion: capstan.dev/v1alpha1
kind: Tool
metadata: {name: send}
spec:
  description: Sends.
  http: {url: "https://127.0.0.1:1/", headers: [{name: Authorization, secretKeyRef: {name: key, key: token}}]}
---
apiVersion: capstan.dev/v1alpha1
kind: MCPServer
metadata: {name: search}
spec: {url: "%SERVER%/mcp", tools: [{name: find, sideEffect: Pure}]}
---
apiVersion: capstan.dev/v1alpha1
kind: Model
metadata: {name: backup}
spec: {provider: Simulated, simulation: {response: {text: The backup answers.}}}
---
apiVersion: capstan.dev/v1alpha1
kind: Model
metadata: {name: scripted, annotations: {capstan.dev/is-default-model: "true"}}
spec: {provider: Simulated, %MODEL%}
---
apiVersion: capstan.dev/v1alpha1
kind: Harness
metadata: {name: base}
spec: {systemPrompt: "%PROMPT%", tools: [{name: look}, {name: pay}, {name: guarded}, {name: ask}, {name: send},
  {name: help}, {name: build}, {name: buy}, {name: rent}, {name: hire}], %HARNESS%}
---
apiVersion: capstan.dev/v1alpha1
kind: Tool
metadata: {name: rent}
spec:
  description: Rents.
  job: {image: example.org/rent:1, command: [/rent], connections: [{exitCode: 75, provider: shop}]}
---
apiVersion: capstan.dev/v1alpha1
kind: Tool
metadata: {name: hire}
spec:
  description: Hires.
  sideEffect: Pure
  job: {image: example.org/rent:1, command: [/hire], connections: [{exitCode: 75, provider: shop}]}
---
apiVersion: capstan.dev/v1alpha1
kind: Tool
metadata: {name: buy}
spec: {description: Buys., inputSchema: {type: object}, http: {url: "%SHOP%"}}
---
apiVersion: capstan.dev/v1alpha1
kind: Tool
metadata: {name: help}
spec: {description: Helps., agent: {harnessRef: {name: helper}}}
---
apiVersion: capstan.dev/v1alpha1
kind: Harness
metadata: {name: helper}
spec: {systemPrompt: "You help.", modelRef: {name: helping}, tools: [{name: pay}, {name: help}]}
---
apiVersion: capstan.dev/v1alpha1
kind: Model
metadata: {name: helping}
spec:
  provider: Simulated
  simulation: {response: {text: "{{input}} {{tool:pay}}"}, toolCalls: {sequence: [{calls: [{name: pay}]}, {}]}}
---
apiVersion: capstan.dev/v1alpha1
kind: Session
metadata: {name: demo}
spec: {harnessRef: {name: base}, %SESSION%}
`

// yaml has the manifests of the scenario. prompt is its system prompt.
func (s scenario) yaml(prompt string) string {
	filled := common
	for name, by := range map[string]string{
		"%MODEL%": s.model, "%HARNESS%": s.harness, "%SESSION%": s.session, "%PROMPT%": prompt,
		"%SHOP%": shop.URL + "/", "%SERVER%": toolServer.URL,
	} {
		filled = strings.ReplaceAll(filled, name, by)
	}
	return strings.ReplaceAll(filled, ", }", "}")
}

// script makes the model call tools, each step in flow style, and respond with their results.
func script(steps ...string) string {
	return `simulation: {response: {text: "Told: {{tool:look}} {{tool:pay}} {{tool:guarded}} {{tool:ask}} ` +
		`{{tool:send}} {{tool:help}} {{tool:buy}} {{tool:mcp_search__find}} {{tool:mcp_search__lose}} ` +
		`{{tool:rent}} {{tool:hire}}"}, ` +
		`toolCalls: {sequence: [` +
		strings.Join(
			append(steps, "{}"),
			", ",
		) + `]}}`
}

const (
	callLook    = `{calls: [{name: look, arguments: {what: the sky}}]}`
	callPay     = `{calls: [{name: pay}]}`
	callHelp    = `{calls: [{name: help, arguments: {message: Look for it.}}]}`
	callGuarded = `{calls: [{name: guarded}]}`

	// builtins are the capabilities of a Harness, and callingBuiltins a script that calls their tools.
	builtins = `capabilities: [{builtin: current_time, config: {timezone: Asia/Tokyo}}, ` +
		`{builtin: stateless_todo_list}, {builtin: test_math}]`
	callingBuiltins = `simulation: {
  response: {text: "Told: {{tool:look}} {{tool:write_todos}} {{tool:divide}} {{tool:get_current_time}}"},
  toolCalls: {sequence: [{calls: [
    {name: write_todos, arguments: {todos: [{content: Look., activeForm: Looking., status: pending}]}},
    {name: look},
    {name: divide, arguments: {a: 1, b: 0}},
    {name: divide, arguments: {a: 6, b: 2}},
    {name: get_current_time, arguments: {timezone: Mars/Olympus}},
    {name: divide}]}, {}]}}`
)

// callingFiles is a script that calls the tools for files, and filing the capability of them.
const (
	filing       = `capabilities: [{builtin: session_file_system}]`
	callingFiles = `simulation: {
  response: {text: "Told: {{tool:read_file}} {{tool:grep_files}} {{tool:delete_file}}"},
  toolCalls: {sequence: [
    {calls: [
      {name: write_file, arguments: {path: /a/b.txt, content: "one two"}},
      {name: edit_file, arguments: {path: /workspace/a/b.txt, old_text: two, new_text: three}},
      {name: edit_file, arguments: {path: /a/b.txt, old_text: four, new_text: five}},
      {name: write_file, arguments: {path: /../etc/passwd, content: "x"}},
      {name: write_file, arguments: {path: /c, content: "AAEC", encoding: base64}},
      {name: read_file, arguments: {path: /a/b.txt}},
      {name: grep_files, arguments: {pattern: "th?r"}},
      {name: delete_file, arguments: {path: /a}}]},
    {calls: [{name: read_file, arguments: {path: /c}}, {name: delete_file, arguments: {path: /a, recursive: true}}]},
    {}]}}`
)

// hooking is a Session with a hook for each event.
const hooking = `hooks: [
  {name: prompt, event: UserPromptSubmit, cel: {expression:
    '{"decision": "mutate", "patch": {"message": data.message + " Please."}}'}},
  {name: before, event: PreToolUse, matcher: {toolName: look}, cel: {expression:
    '{"decision": "mutate", "patch": {"arguments": {"what": "the sea"}}}'}},
  {name: block, event: PreToolUse, matcher: {toolName: pay}, cel: {expression: '"too much"'}},
  {name: near, event: PostToolUse, matcher: {toolName: look}, cel: {expression:
    '{"decision": "mutate", "patch": {"additional_context": data.arguments.what}}'}},
  {name: fail, event: PostToolUse, matcher: {toolNameGlob: "l*|p*"}, onError: Block, cel: {expression: 'data.missing'}},
  {name: end, event: TurnEnd, cel: {expression: 'data.success ? "well" : "badly"'}},
  {name: wrong, event: TurnEnd, cel: {expression: 'data.missing'}}]`

// lively is a Session with hooks at its start and its end.
const lively = `hooks: [
  {name: hello, event: SessionStart, cel: {expression: 'event == "session_start" ? "it starts" : "it does not"'}},
  {name: wrong, event: SessionStart, cel: {expression: 'data.missing'}},
  {name: fine, event: SessionStart, bash: {command: "true"}},
  {name: bye, event: SessionEnd, timeout: 2s, cel: {expression: data.reason}}]`

// scenarios are run both ways and compared.
var scenarios = map[string]scenario{
	"no tools": {model: script(), ends: "EndTurn"},
	"tools at once": {
		model: script(`{calls: [{name: look}, {name: pay}, {name: look, arguments: {what: the sea}}]}`),
		tools: speak,
		ends:  "EndTurn",
	},
	"one after another": {
		model: script(
			`{calls: [{name: look}, {name: pay}]}`,
		),
		harness: "toolConcurrency: Sequential",
		tools:   speak,
		ends:    "EndTurn",
	},
	"built-in tools": {model: callingBuiltins, harness: builtins, tools: speak, ends: "EndTurn"},
	"built-in tools one after another": {
		model: callingBuiltins, harness: builtins + ", toolConcurrency: Sequential", tools: speak, ends: "EndTurn",
	},
	"files of a Job": {
		model: `simulation: {
  response: {text: "Told: {{tool:read_file}}"},
  toolCalls: {sequence: [
    {calls: [{name: write_file, arguments: {path: /src/a, content: source}}]},
    {calls: [{name: build}]},
    {calls: [{name: read_file, arguments: {path: /bin/a}}, {name: read_file, arguments: {path: /src/a}},
      {name: read_file, arguments: {path: /outputs/demo-1.2-0.txt, offset: 20000}}]},
    {}]}}`,
		session: filing + `, initialFiles: [{path: /src/locked, content: l, access: ReadOnly}]`,
		tools:   build, ends: "EndTurn",
	},
	"hooks": {model: script(callLook, callPay), session: hooking, tools: speak, ends: "EndTurn"},
	"a hook at the end of a Turn that fails": {
		model:   `simulation: {response: {type: Error, code: provider_misconfigured, text: who are you}}`,
		session: hooking, ends: "ProviderMisconfigured",
	},
	"files": {model: callingFiles, harness: filing, tools: speak, ends: "EndTurn"},
	"tools of a server": {
		model: script(`{calls: [{name: mcp_search__find, arguments: {word: a}}, {name: mcp_search__lose}, ` +
			`{name: mcp_search__gone}]}`),
		session: "mcpServers: [{name: search}]", ends: "EndTurn",
	},
	"a sub-agent": {model: script(callHelp), tools: speak, ends: "EndTurn"},
	"sub-agents beside tools": {
		model: script(`{calls: [{name: help, arguments: {message: Look.}}, {name: look}, `+
			`{name: help, arguments: {message: Listen.}}, {name: help}]}`, callPay),
		tools: speak,
		ends:  "EndTurn",
	},
	"cancelled while the tool of a sub-agent runs": {
		model: script(callHelp), tools: hang, during: func(ctx context.Context, w world) { w.cancel(ctx) }, ends: "Cancelled",
	},
	"two act steps": {model: script(callLook, callPay), tools: speak, ends: "EndTurn"},
	"a tool that fails": {
		model: script(callPay),
		tools: func(_ capstantest.Call, started func()) (string, string, int) {
			started()
			return "half", "no money", 7
		},
		ends: "EndTurn",
	},
	"a long result": {
		model: script(callLook),
		tools: func(_ capstantest.Call, started func()) (string, string, int) {
			started()
			return strings.Repeat("long ", 20_000), "", 0
		},
		ends: "EndTurn",
	},
	"arguments against the schema": {
		model: script(`{calls: [{name: look, arguments: {where: here}}]}`),
		tools: speak,
		ends:  "EndTurn",
	},
	"arguments that are no JSON": {
		model: script(`{calls: [{name: look, rawArguments: "{"}]}`),
		tools: speak,
		ends:  "EndTurn",
	},
	"a tool that there is not": {model: script(`{calls: [{name: dig}, {name: look}]}`), tools: speak, ends: "EndTurn"},
	// Rules: VEC-21.
	"a tool that there is not, amid others, one after another": {
		model:   script(`{calls: [{name: look}, {name: dig}, {name: pay}]}`),
		harness: "toolConcurrency: Sequential",
		tools:   speak,
		ends:    "EndTurn",
	},
	// Rules: VEC-13.
	"hooks that block a message, by the exit code": {
		model: script(),
		session: `hooks: [
  {name: fine, event: UserPromptSubmit, bash: {command: "true"}},
  {name: rewrites, event: UserPromptSubmit, cel: {expression:
    '{"decision": "mutate", "patch": {"message": data.message + " Please."}}'}},
  {name: guards, event: UserPromptSubmit, bash: {command: "echo not today >&2; exit 1"}}]`,
		ends: "BlockedByUserPromptHook",
	},
	// Rules: VEC-13.
	"hooks that fail at a message": {
		model: script(),
		session: `hooks: [
  {name: warns, event: UserPromptSubmit, cel: {expression: data.missing}},
  {name: passes, event: UserPromptSubmit, onError: Allow, cel: {expression: data.missing}},
  {name: odd, event: UserPromptSubmit, cel: {expression: '{"decision": "mutate", "patch": {"message": 1}}'}},
  {name: rewrites, event: UserPromptSubmit, cel: {expression:
    '{"decision": "mutate", "patch": {"message": data.message + " Please."}}'}}]`,
		ends: "EndTurn",
	},
	// Rules: VEC-13.
	"a hook that fails at a message, and blocks": {
		model:   script(),
		session: `hooks: [{name: guards, event: UserPromptSubmit, onError: Block, cel: {expression: data.missing}}]`,
		ends:    "BlockedByUserPromptHook",
	},
	"the most model calls": {
		model:   script(callLook, callLook, callLook),
		harness: "maxIterations: 2",
		tools:   speak,
		ends:    "MaxTurnRequests",
	},
	"a client's tool": {
		model: script(`{calls: [{name: ask}, {name: look}]}`),
		tools: speak,
		then: []func(context.Context, world){
			func(ctx context.Context, w world) { w.answer(ctx, "1-0", "Yes.") },
		},
		ends: "EndTurn",
	},
	"two clients' tools, one after another": {
		model: script(`{calls: [{name: ask}, {name: ask}]}`),
		then: []func(context.Context, world){
			func(ctx context.Context, w world) { w.refuse(ctx, "1-1", "The user is absent.") },
			func(ctx context.Context, w world) { w.answer(ctx, "1-0", "Yes.") },
		},
		ends: "EndTurn",
	},
	"a client that is not waited for": {
		model:   script(`{calls: [{name: ask}]}`),
		session: "clientTools: FollowHints",
		ends:    "EndTurn",
	},
	"an approval": {
		model: script(callGuarded),
		tools: speak,
		then: []func(context.Context, world){
			func(ctx context.Context, w world) { w.decide(ctx, "1-0", v1alpha1.DecisionApprove) },
		},
		ends: "EndTurn",
	},
	"a rejection": {
		model: script(`{calls: [{name: guarded}, {name: pay}]}`),
		tools: speak,
		then: []func(context.Context, world){
			func(ctx context.Context, w world) { w.decide(ctx, "1-0", v1alpha1.DecisionReject) },
		},
		ends: "EndTurn",
	},
	"a rejection with a reason": {
		model: script(`{calls: [{name: guarded}, {name: pay}]}`),
		tools: speak,
		then: []func(context.Context, world){
			func(ctx context.Context, w world) { w.reject(ctx, "1-0", "It is too dear.") },
		},
		ends: "EndTurn",
	},
	// Rules: TOOL-16.
	"a connection that a tool needs": {
		model: script(`{calls: [{name: buy}, {name: look}]}`), tools: speak,
		then: []func(context.Context, world){
			func(ctx context.Context, w world) { w.connect(ctx, "1-0", v1alpha1.InputActionAccept) },
		},
		ends: "EndTurn",
	},
	"a connection that is declined": {
		model: script(`{calls: [{name: buy}]}`),
		then: []func(context.Context, world){
			func(ctx context.Context, w world) { w.connect(ctx, "1-0", v1alpha1.InputActionDecline) },
		},
		ends: "EndTurn",
	},
	"a connection that no client sets up": {
		model: script(`{calls: [{name: buy}]}`), session: "clientTools: FollowHints", ends: "EndTurn",
	},
	// Rules: TOOL-16.
	"a connection that a Job needs": {
		model: script(`{calls: [{name: hire}]}`), tools: unconnected,
		then: []func(context.Context, world){
			func(ctx context.Context, w world) { w.connect(ctx, "1-0", v1alpha1.InputActionAccept) },
		},
		ends: "EndTurn",
	},
	"a connection that an AtMostOnce Job needs, beside another call": {
		model: script(`{calls: [{name: rent}, {name: look}]}`), tools: unconnected,
		then: []func(context.Context, world){
			func(ctx context.Context, w world) { w.connect(ctx, "1-0", v1alpha1.InputActionAccept) },
		},
		ends: "EndTurn",
	},
	"a connection that a Job needs and that is declined": {
		model: script(`{calls: [{name: rent}]}`), tools: unconnected,
		then: []func(context.Context, world){
			func(ctx context.Context, w world) { w.connect(ctx, "1-0", v1alpha1.InputActionDecline) },
		},
		ends: "EndTurn",
	},
	"a connection that a Job needs and that no client sets up": {
		model: script(`{calls: [{name: rent}]}`), tools: unconnected, session: "clientTools: FollowHints", ends: "EndTurn",
	},
	"a Secret that is missing": {
		model: script(`{calls: [{name: send}, {name: look}]}`), tools: speak,
		then: []func(context.Context, world){func(ctx context.Context, w world) { w.supply(ctx) }}, ends: "EndTurn",
	},
	"a Secret that is missing, and a client": {
		model: script(`{calls: [{name: send}, {name: ask}]}`), tools: speak,
		then: []func(context.Context, world){
			func(ctx context.Context, w world) { w.answer(ctx, "1-1", "Yes.") },
			func(ctx context.Context, w world) { w.supply(ctx) },
		},
		ends: "EndTurn",
	},
	"cancelled while a Secret is missing": {
		model: script(`{calls: [{name: send}]}`),
		then:  []func(context.Context, world){func(ctx context.Context, w world) { w.cancel(ctx) }}, ends: "Cancelled",
	},
	"a Harness that is archived before the tools run": {
		model:   script(callPay),
		archive: true,
		tools:   speak,
		ends:    "DependencyUnavailable",
	},
	// Rules: VEC-06.
	"a Harness that is archived before a client would be waited for": {
		model:   script(`{calls: [{name: ask}, {name: pay}]}`),
		archive: true,
		tools:   speak,
		ends:    "DependencyUnavailable",
	},
	"a fallback": {
		model: `fallbacks: [{name: backup}], simulation: {response: {type: Error, code: provider_unavailable, ` +
			`text: out of order}}`,
		ends: "EndTurn",
	},
	"a model that fails": {
		model: `simulation: {response: {type: Error, code: provider_misconfigured, text: who are you}}`,
		ends:  "ProviderMisconfigured",
	},
	"cancelled while tools run": {
		model: script(callPay), tools: hang, during: func(ctx context.Context, w world) { w.cancel(ctx) }, ends: "Cancelled",
	},
	"cancelled while it waits": {
		model: script(
			`{calls: [{name: ask}, {name: guarded}]}`,
		),
		then: []func(context.Context, world){func(ctx context.Context, w world) { w.cancel(ctx) }},
		ends: "Cancelled",
	},
}
