package inprocess_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/capstan-dev/capstan/capstantest/inprocess"
)

const wordCount = `
apiVersion: capstan.dev/v1alpha1
kind: Tool
metadata: {name: word-count}
spec:
  description: Counts the words of a text.
  sideEffect: Pure
  inputSchema: {type: object, properties: {text: {type: string}}, required: [text]}
  job: {image: example.org/wc:1, command: [/wc]}
---
apiVersion: capstan.dev/v1alpha1
kind: Model
metadata: {name: simulated, annotations: {capstan.dev/is-default-model: "true"}}
spec:
  provider: Simulated
  simulation:
    toolCalls: {sequence: [{calls: [{name: word-count, arguments: {text: "{{input}}"}}]}, {}]}
    response: {text: "It has {{tool:word-count}} words."}
---
apiVersion: capstan.dev/v1alpha1
kind: Harness
metadata: {name: base}
spec: {systemPrompt: You answer briefly., tools: [{name: word-count}]}
---
apiVersion: capstan.dev/v1alpha1
kind: Session
metadata: {name: demo}
spec: {harnessRef: {name: base}}
`

func Example() {
	ctx := context.Background()
	runtime, err := inprocess.New(ctx,
		inprocess.WithYAML(wordCount),
		inprocess.WithTool("word-count", func(call inprocess.Call) (stdout, stderr string, exit int) {
			return strconv.Itoa(len(strings.Fields(call.Arguments))), "", 0
		}),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	turn, err := runtime.RunText(ctx, "demo", "How many words has this sentence?")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(turn.Status.Phase, turn.Status.Output)
	// Output: Succeeded It has 6 words.
}
