//go:build e2e

package e2e_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

var _ = Describe("A Capability", func() {
	It("brings all that it has to a Session, and stops its Turns while it is archived", SpecTimeout(specLimit),
		func(ctx SpecContext) {
			namespace := newNamespace(ctx)
			apply(ctx, namespace, `
apiVersion: capstan.dev/v1alpha1
kind: Capability
metadata: {name: counting}
spec:
  description: Counts words by rules.
  systemPrompt: Count as /rules.md demands.
  tools: [{name: word-count}]
  dependencies: [{name: filing, maxRisk: High}, {builtin: current_time, maxRisk: Low}]
  configSchema: {type: object, properties: {language: {type: string}}, required: [language]}
  riskLevel: High
  lifecycle: Active
---
apiVersion: capstan.dev/v1alpha1
kind: Capability
metadata: {name: filing}
spec:
  initialFiles: [{path: /rules.md, content: Count all words., encoding: Text, access: ReadOnly}]
  dependencies: [{builtin: session_file_system}]
  hooks:
  - name: rules
    event: PreToolUse
    matcher: {toolName: read_file}
    onError: Block
    bash: {command: 'jq -e ".data.arguments.path == \"/rules.md\"" "$CAPSTAN_HOOK_PAYLOAD_PATH" > /dev/null || exit 2'}
---
apiVersion: capstan.dev/v1alpha1
kind: Tool
metadata: {name: word-count}
spec:
  description: Counts the words of a text.
  sideEffect: Pure
  inputSchema: {type: object, properties: {text: {type: string}}, required: [text]}
  job: {image: "`+toolboxImage+`", command: [/toolbox, word-count]}
---
apiVersion: capstan.dev/v1alpha1
kind: Harness
metadata: {name: base}
---
apiVersion: capstan.dev/v1alpha1
kind: Session
metadata: {name: demo}
spec:
  harnessRef: {name: base}
  capabilities:
  - {name: counting, config: {language: English}, maxRisk: High}
  - {name: absent, optional: true}
---
apiVersion: capstan.dev/v1alpha1
kind: Model
metadata: {name: simulated, annotations: {capstan.dev/is-default-model: "true"}}
spec:
  provider: Simulated
  simulation:
    response: {text: "{{tool:read_file}} {{tool:word-count}}"}
    toolCalls:
      sequence:
      - calls: [{name: read_file, arguments: {path: /rules.md}}, {name: word-count, arguments: {text: one two three}}]
      - {}
`)
			kubectl(ctx, "wait", "--namespace", namespace, "capability/counting", "session/demo", "--for=condition=Ready",
				"--timeout=30s")
			show("Capabilities", kubectl(ctx, "get", "--namespace", namespace, "capabilities", "--output=wide"))
			counting := &v1alpha1.Capability{ObjectMeta: named(namespace, "counting")}
			Expect(api.Get(ctx, keyOf(counting), counting)).To(Succeed())
			Expect(counting.Status.Dependencies).To(Equal([]string{"session_file_system", "object/filing", "current_time"}))
			ask(ctx, namespace, "demo-1")
			answer := succeeded(ctx, namespace, "demo-1")
			Expect(answer.Status.Output).To(And(ContainSubstring("Count all words."), HaveSuffix(" 3")))

			kubectl(ctx, "patch", "--namespace", namespace, "capability/filing", "--type=merge", "--patch",
				`{"spec":{"lifecycle":"Archived"}}`)
			kubectl(ctx, "wait", "--namespace", namespace, "capability/counting", "session/demo",
				"--for=condition=Ready=false", "--timeout=30s")
			ask(ctx, namespace, "demo-2")
			kubectl(ctx, "patch", "--namespace", namespace, "capability/filing", "--type=merge", "--patch",
				`{"spec":{"lifecycle":"Active"}}`)
			succeeded(ctx, namespace, "demo-2")
		})
})
