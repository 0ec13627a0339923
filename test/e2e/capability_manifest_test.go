package e2e_test

import (
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// capabilityManifest is what the spec of Capabilities applies, once its words in capitals are replaced. This file has
// no build tag, so that the test below runs without a cluster.
const capabilityManifest = `
apiVersion: capstan.dev/v1alpha1
kind: Capability
metadata: {name: counting}
spec:
  description: Counts words by rules.
  systemPrompt: Count as /rules.md demands.
  tools: [{name: word-count}, {name: shout}]
  mcpServers: [{name: tools}]
  dependencies: [{name: filing, maxRisk: High}, {builtin: current_time, maxRisk: Low}]
  configSchema: {type: object, properties: {language: {type: string}}, required: [language]}
  riskLevel: High
  lifecycle: Active
  hooks:
  - name: polish
    event: UserPromptSubmit
    onError: Block
    timeout: 10s
    webhook:
      url: WEBHOOK_URL
      caBundle: CA_BUNDLE
      headers:
      - {name: X-Capability, value: counting}
      - {name: Authorization, secretKeyRef: {name: hook, key: token}}
  - name: no-secrets
    event: PreToolUse
    matcher: {toolName: shout, argsPath: $.text, denyRegex: secret}
    onError: Block
    bash:
      command: 'echo "$REASON" >&2; exit 1'
      env: [{name: REASON, value: it is a secret}]
  - name: sign
    event: PostToolUse
    matcher: {toolNameGlob: 'mcp_*|other', argsPath: $.word, matchRegex: ^a}
    cel: {expression: '{"decision": "mutate", "patch": {"result": "signed"}}'}
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
  blueprints:
  - name: reader
    description: Reads and counts.
    systemPrompt: Read, then count.
    tools: [{name: word-count}]
    modelPolicy: Default
    modelRef: {name: reading}
    maxIterations: 2
    configSchema: {type: object, properties: {depth: {type: integer}}, required: [depth]}
---
apiVersion: capstan.dev/v1alpha1
kind: MCPServer
metadata: {name: tools}
spec: {url: SERVER_URL}
---
apiVersion: v1
kind: Secret
metadata: {name: hook}
stringData: {token: Bearer of-the-hook}
---
apiVersion: capstan.dev/v1alpha1
kind: Tool
metadata: {name: word-count}
spec:
  description: Counts the words of a text.
  sideEffect: Pure
  inputSchema: {type: object, properties: {text: {type: string}}, required: [text]}
  job: {image: TOOLBOX_IMAGE, command: [/toolbox, word-count]}
---
apiVersion: capstan.dev/v1alpha1
kind: Tool
metadata: {name: shout}
spec:
  description: Repeats a text.
  sideEffect: Pure
  inputSchema: {type: object, properties: {text: {type: string}}, required: [text]}
  job: {image: TOOLBOX_IMAGE, command: [/toolbox, echo]}
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
kind: Session
metadata: {name: reading}
spec:
  harnessRef: {name: base}
  blueprint: {capability: filing, name: reader, config: {depth: 2}, maxRisk: Low}
---
apiVersion: capstan.dev/v1alpha1
kind: Model
metadata: {name: simulated, annotations: {capstan.dev/is-default-model: "true"}}
spec:
  provider: Simulated
  simulation:
    response: {text: "{{input}} {{tool:read_file}} {{tool:word-count}} {{tool:mcp_tools__echo}} {{tool:shout}}"}
    toolCalls:
      sequence:
      - calls:
        - {name: read_file, arguments: {path: /rules.md}}
        - {name: word-count, arguments: {text: one two three}}
        - {name: mcp_tools__echo, arguments: {word: a}}
        - {name: shout, arguments: {text: my secret}}
      - {}
---
apiVersion: capstan.dev/v1alpha1
kind: Model
metadata: {name: reading}
spec:
  provider: Simulated
  simulation:
    response: {text: "I count {{tool:word-count}}."}
    toolCalls:
      sequence:
      - calls: [{name: word-count, arguments: {text: one two}}]
      - calls: [{name: word-count, arguments: {text: one}}]
      - {}
`

// Rules: CAP-03, BP-02.
func TestTheSpecOfCapabilitiesUsesEachField(t *testing.T) {
	used := map[string]bool{}
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(capabilityManifest), 4096)
	for {
		var object unstructured.Unstructured
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if object.GetKind() == "Capability" {
			usedIn("", object.Object["spec"], used)
		}
	}
	fields := map[string]bool{}
	fieldsOf("", reflect.TypeFor[v1alpha1.CapabilitySpec](), fields)
	if len(fields) < 40 {
		t.Errorf("a Capability has only the fields %v", fields)
	}
	for field := range fields {
		if !used[field] {
			t.Errorf("the spec of Capabilities does not use the field %s", field)
		}
	}
}

// usedIn adds the paths of the values in an object. Elements of a list have the path of the list.
func usedIn(path string, value any, used map[string]bool) {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			used[path+"."+name] = true
			usedIn(path+"."+name, member, used)
		}
	case []any:
		for _, element := range v {
			usedIn(path, element, used)
		}
	}
}

// fieldsOf adds the paths of the fields of a type, in the same form. What has a form of its own in JSON has no fields.
func fieldsOf(path string, t reflect.Type, fields map[string]bool) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[v1alpha1.JSON]() || t == reflect.TypeFor[metav1.Duration]() {
		return
	}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		fields[path+"."+name] = true
		fieldsOf(path+"."+name, t.Field(i).Type, fields)
	}
}
