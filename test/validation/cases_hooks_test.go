package validation_test

import (
	"fmt"
	"slices"
	"strings"
)

// hook is the patch of a layer with one hook, which has the given fields and a name.
func hook(fields string) string {
	return `spec: {hooks: [{name: guard, ` + fields + `}]}`
}

// The parts of hooks in cases.
const (
	before  = `event: PreToolUse, `
	always  = `cel: {expression: "true"}`
	inBash  = before + `bash: {command: ls`
	calling = before + `webhook: {url: "https://example.org/"`
)

// matching is the patch of a layer with a hook that has a matcher.
func matching(matcher string) string {
	return hook(before + always + `, matcher: {` + matcher + `}`)
}

// sending is the patch of a layer with a webhook that has headers.
func sending(headers string) string {
	return hook(calling + `, headers: [` + headers + `]}`)
}

// commands is hooks with commands of a number of bytes.
func commands(sizes ...int) string {
	var all []string
	for i, size := range sizes {
		all = append(all, fmt.Sprintf("{name: h%d, %sbash: {command: %q}}", i, before, strings.Repeat("a", size)))
	}
	return `spec: {hooks: [` + strings.Join(all, ", ") + `]}`
}

// advisory is the rule about the events at which hooks change nothing.
const advisory = "spec.hooks[] rule onError is not for the events SessionStart, SessionEnd and TurnEnd, whose hooks " +
	"change nothing."

var hookCases = slices.Concat(hookFieldCases, hookWebhookCases)

var hookFieldCases = []ruleCase{
	{
		rule:     "spec.hooks rule hooks must have at most 32768 bytes of commands, expressions and certificates together.",
		accepted: commands(16384, 16384), rejected: commands(16384, 16384, 1),
	},
	{
		rule: "spec.hooks[] required name", accepted: hook(before + always),
		rejected: `spec: {hooks: [{` + before + always + `}]}`, message: `spec.hooks[0].name: Required value`,
	},
	{
		rule: "spec.hooks[] required event", accepted: hook(before + always), rejected: hook(always),
		message: `spec.hooks[0].event: Required value`,
	},
	{
		rule: "spec.hooks[] rule exactly one of bash, cel and webhook must be set.", accepted: hook(before + always),
		rejected: hook(before + always + `, bash: {command: ls}`),
	},
	{
		rule: "spec.hooks[] rule exactly one of bash, cel and webhook must be set.", accepted: hook(inBash + `}`),
		rejected: `spec: {hooks: [{name: guard, event: PreToolUse}]}`,
	},
	{
		rule:     "spec.hooks[] rule matcher is for the events PreToolUse and PostToolUse.",
		accepted: hook(`event: PostToolUse, onError: Block, matcher: {toolName: a}, ` + always),
		rejected: hook(`event: UserPromptSubmit, matcher: {toolName: a}, ` + always),
	},
	{
		rule:     advisory,
		accepted: hook(`event: TurnEnd, ` + always), rejected: hook(`event: TurnEnd, onError: Warn, ` + always),
	},
	{
		rule:     advisory,
		accepted: hook(`event: SessionStart, ` + always), rejected: hook(`event: SessionStart, onError: Block, ` + always),
	},
	{
		rule:     advisory,
		accepted: hook(`event: SessionEnd, ` + always), rejected: hook(`event: SessionEnd, onError: Allow, ` + always),
	},
	{
		rule:     "spec.hooks[] rule matcher is for the events PreToolUse and PostToolUse.",
		accepted: hook(`event: SessionEnd, ` + always),
		rejected: hook(`event: SessionEnd, matcher: {toolName: a}, ` + always),
	},
	{
		rule: "spec.hooks[].name pattern", accepted: `spec: {hooks: [{name: no_secrets-2, ` + before + always + `}]}`,
		rejected: `spec: {hooks: [{name: "a:b", ` + before + always + `}]}`,
		message:  `spec.hooks[0].name in body should match`,
	},
	{
		rule: "spec.hooks[].event enum", accepted: hook(`event: UserPromptSubmit, ` + always),
		rejected: hook(`event: pre_tool_use, ` + always), message: `spec.hooks[0].event: Unsupported value: "pre_tool_use"`,
	},
	{
		rule: "spec.hooks[].onError enum", accepted: hook(before + always + `, onError: Block`),
		rejected: hook(before + always + `, onError: Fail`), message: `spec.hooks[0].onError: Unsupported value: "Fail"`,
	},
	{
		rule: "spec.hooks[].timeout pattern", accepted: hook(before + always + `, timeout: 2s`),
		rejected: hook(before + always + `, timeout: soon`), message: `spec.hooks[0].timeout in body should match`,
	},
	{
		rule:     "spec.hooks[].timeout rule timeout must be between 100ms and 30s.",
		accepted: hook(before + always + `, timeout: 100ms`), rejected: hook(before + always + `, timeout: 99ms`),
	},
	{
		rule:     "spec.hooks[].timeout rule timeout must be between 100ms and 30s.",
		accepted: hook(before + always + `, timeout: 30s`), rejected: hook(before + always + `, timeout: 30001ms`),
	},
	{
		rule:     "spec.hooks[].matcher rule at most one of matchRegex and denyRegex can be set.",
		accepted: matching(`argsPath: a, matchRegex: b`), rejected: matching(`argsPath: a, matchRegex: b, denyRegex: c`),
	},
	{
		rule:     "spec.hooks[].matcher rule a regular expression needs argsPath.",
		accepted: matching(`argsPath: a, denyRegex: b`), rejected: matching(`denyRegex: b`),
	},
	{
		rule: "spec.hooks[].matcher.toolNameGlob pattern", accepted: matching(`toolNameGlob: "a*|b"`),
		rejected: matching(`toolNameGlob: "a?"`), message: `spec.hooks[0].matcher.toolNameGlob in body should match`,
	},
	{
		rule: "spec.hooks[].cel required expression", accepted: hook(before + always), rejected: hook(before + `cel: {}`),
		message: `spec.hooks[0].cel.expression: Required value`,
	},
	{
		rule: "spec.hooks[].bash required command", accepted: hook(inBash + `}`), rejected: hook(before + `bash: {}`),
		message: `spec.hooks[0].bash.command: Required value`,
	},
	{
		rule: "spec.hooks[].bash.command rule command must not be blank.", accepted: hook(inBash + `}`),
		rejected: hook(before + `bash: {command: "  "}`),
	},
	{
		rule: "spec.hooks[].bash.env[] required name", accepted: hook(inBash + `, env: [{name: A, value: b}]}`),
		rejected: hook(inBash + `, env: [{value: b}]}`), message: `spec.hooks[0].bash.env[0].name: Required value`,
	},
	{
		rule: "spec.hooks[].bash.env[] required value", accepted: hook(inBash + `, env: [{name: A, value: ""}]}`),
		rejected: hook(inBash + `, env: [{name: A}]}`), message: `spec.hooks[0].bash.env[0].value: Required value`,
	},
	{
		rule: "spec.hooks[].bash.env[].name pattern", accepted: hook(inBash + `, env: [{name: _a1, value: b}]}`),
		rejected: hook(inBash + `, env: [{name: "A=B", value: b}]}`),
		message:  `spec.hooks[0].bash.env[0].name in body should match`,
	},
}

var hookWebhookCases = []ruleCase{
	{
		rule: "spec.hooks[].webhook required url", accepted: hook(calling + `}`), rejected: hook(before + `webhook: {}`),
		message: `spec.hooks[0].webhook.url: Required value`,
	},
	{
		rule: "spec.hooks[].webhook.url rule url must be an absolute https URL.", accepted: hook(calling + `}`),
		rejected: hook(before + `webhook: {url: "http://example.org/"}`),
	},
	{
		rule:     "spec.hooks[].webhook.url rule url must not have a user or a password in it: use headers.",
		accepted: hook(calling + `}`), rejected: hook(before + `webhook: {url: "https://a:b@example.org/"}`),
	},
	{
		rule: "spec.hooks[].webhook.url rule url must not have a fragment.", accepted: hook(calling + `}`),
		rejected: hook(before + `webhook: {url: "https://example.org/#a"}`),
	},
	{
		rule: "spec.hooks[].webhook.headers[] required name", accepted: sending(`{name: A, value: b}`),
		rejected: sending(`{value: b}`), message: `spec.hooks[0].webhook.headers[0].name: Required value`,
	},
	{
		rule:     "spec.hooks[].webhook.headers[] rule exactly one of value and secretKeyRef must be set.",
		accepted: sending(`{name: A, secretKeyRef: {name: s, key: k}}`),
		rejected: sending(`{name: A}`),
	},
	{
		rule: "spec.hooks[].webhook.headers[].name pattern", accepted: sending(`{name: X-A, value: b}`),
		rejected: sending(`{name: "a:b", value: b}`), message: `spec.hooks[0].webhook.headers[0].name in body should match`,
	},
	{
		rule: "spec.hooks[].webhook.headers[].name rule this header is set by the runtime, or says how the request" +
			" is sent. " +
			"Leave it out.",
		accepted: sending(`{name: X-Host, value: b}`), rejected: sending(`{name: Host, value: b}`),
	},
	{
		rule: "spec.hooks[].webhook.headers[].value pattern", accepted: sending(`{name: A, value: "b c"}`),
		rejected: sending(`{name: A, value: "b\nc"}`), message: `spec.hooks[0].webhook.headers[0].value in body should match`,
	},
	{
		rule:     "spec.hooks[].webhook.headers[].secretKeyRef required name",
		accepted: sending(`{name: A, secretKeyRef: {name: s, key: k}}`),
		rejected: sending(`{name: A, secretKeyRef: {key: k}}`),
		message:  `spec.hooks[0].webhook.headers[0].secretKeyRef.name: Required value`,
	},
	{
		rule:     "spec.hooks[].webhook.headers[].secretKeyRef.key pattern",
		accepted: sending(`{name: A, secretKeyRef: {name: s, key: a.b_c-d}}`),
		rejected: sending(`{name: A, secretKeyRef: {name: s, key: "a b"}}`),
		message:  `spec.hooks[0].webhook.headers[0].secretKeyRef.key in body should match`,
	},
	{
		rule:     "spec.hooks[].webhook.headers[].secretKeyRef required key",
		accepted: sending(`{name: A, secretKeyRef: {name: s, key: k}}`),
		rejected: sending(`{name: A, secretKeyRef: {name: s}}`),
		message:  `spec.hooks[0].webhook.headers[0].secretKeyRef.key: Required value`,
	},
}

// hookSpecimens are layers with each kind of hook.
func hookSpecimens() []specimen {
	var all []specimen
	for kind, rest := range map[string]string{
		"Harness": "", "Agent": "", "Session": "\n  harnessRef: {name: base}", "Capability": "",
	} {
		for name, fields := range map[string]string{
			"script": `event: PreToolUse, timeout: 2s, onError: Block, matcher: {toolName: pay, toolNameGlob: "p*|q", ` +
				`argsPath: $.to, matchRegex: "^a"}, bash: {command: "exit 1", env: [{name: A, value: b}]}`,
			"expression": `event: PreToolUse, matcher: {argsPath: $.to, denyRegex: "^a"}, cel: {expression: "true"}`,
			"webhook": `event: UserPromptSubmit, webhook: {url: "https://example.org/", caBundle: a, ` +
				`headers: [{name: A, value: b}]}`,
			"end":           `event: TurnEnd, cel: {expression: "true"}`,
			"session-start": `event: SessionStart, cel: {expression: "true"}`,
			"session-end":   `event: SessionEnd, cel: {expression: "true"}`,
			"secret": `event: UserPromptSubmit, webhook: {url: "https://example.org/", ` +
				`headers: [{name: A, secretKeyRef: {name: s, key: k}}]}`,
		} {
			spec := fmt.Sprintf("%s\n  hooks: [{name: guard, %s}]\n", rest, fields)
			if kind != "Capability" {
				spec += "  disabledHooks: [\"session:other\"]\n"
			}
			all = append(all, specimen{kind: kind, name: name, spec: spec})
		}
	}
	slices.SortFunc(all, func(a, b specimen) int { return strings.Compare(a.kind+a.name, b.kind+b.name) })
	return all
}
