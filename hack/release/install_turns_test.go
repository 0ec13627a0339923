//go:build e2e

package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// kindsOfTurns are the Turns that run during a change: a model that responds slowly, a Job of a tool that must not run
// twice, and a question to a client.
var kindsOfTurns = []string{"slow", "worker", "asker"}

const scene = `
apiVersion: v1
kind: Namespace
metadata: {name: %[1]s, labels: {app.kubernetes.io/part-of: capstan-e2e}}
---
apiVersion: capstan.dev/v1alpha1
kind: Harness
metadata: {name: base, namespace: %[1]s}
spec: {systemPrompt: Short., tools: [{name: nap}, {name: question}]}
---
apiVersion: capstan.dev/v1alpha1
kind: Tool
metadata: {name: nap, namespace: %[1]s}
spec:
  description: Sleeps.
  sideEffect: AtMostOnce
  inputSchema: {type: object, properties: {seconds: {type: number}}}
  job: {image: "capstan.dev/toolbox:dev", command: [/toolbox, sleep], timeout: 10m}
---
apiVersion: capstan.dev/v1alpha1
kind: Tool
metadata: {name: question, namespace: %[1]s}
spec: {description: Asks., inputSchema: {type: object}, client: {}}
---
apiVersion: capstan.dev/v1alpha1
kind: Model
metadata: {name: slow, namespace: %[1]s}
spec: {provider: Simulated, simulation: {latency: %[2]ds, response: {text: done}}}
---
apiVersion: capstan.dev/v1alpha1
kind: Model
metadata: {name: worker, namespace: %[1]s}
spec:
  provider: Simulated
  simulation:
    response: {text: done}
    toolCalls: {sequence: [{calls: [{name: nap, arguments: {seconds: %[2]d}}]}, {}]}
---
apiVersion: capstan.dev/v1alpha1
kind: Model
metadata: {name: asker, namespace: %[1]s}
spec:
  provider: Simulated
  simulation:
    response: {text: done}
    toolCalls: {sequence: [{calls: [{name: question, arguments: {}}]}, {}]}
`

// start begins Turns, and returns their names when all of them run.
func (c *cluster) start(prefix string, n int) []string {
	c.t.Helper()
	c.step(fmt.Sprintf("%d Turns begin", n))
	if _, err := c.run(
		fmt.Sprintf(scene, c.namespace, int(c.hold.Seconds())),
		"apply",
		"--server-side",
		"-f",
		"-",
	); err != nil {
		c.t.Fatal(err)
	}
	var manifests strings.Builder
	var names []string
	for i := range n {
		turn := fmt.Sprintf("%s-%d", prefix, i)
		names = append(names, turn)
		fmt.Fprintf(&manifests, `---
apiVersion: capstan.dev/v1alpha1
kind: Session
metadata: {name: %[1]s}
spec: {harnessRef: {name: base}, modelRef: {name: %[2]s}}
---
apiVersion: capstan.dev/v1alpha1
kind: Turn
metadata: {name: %[1]s}
spec: {sessionRef: {name: %[1]s}, input: Begin.}
`, turn, kindsOfTurns[i%len(kindsOfTurns)])
	}
	c.apply(manifests.String())
	c.eventually("the Turns run", func() (bool, string) {
		turns := c.turns(names)
		var waiting []string
		for _, turn := range turns {
			if !turn.runs() {
				waiting = append(waiting, turn.Metadata.Name+" "+turn.Status.Phase)
			}
		}
		return len(turns) == n && len(waiting) == 0, strings.Join(waiting, ", ")
	})
	return names
}

type turn struct {
	Metadata struct{ Name, UID string }
	Status   struct {
		Phase     string
		Output    string
		ToolCalls []struct{ ID, Name, State string }
	}
}

// asks reports whether a Turn is of the kind that asks a question: start deals the kinds out in turn.
func (t turn) asks(names []string) bool {
	return kindsOfTurns[slices.Index(names, t.Metadata.Name)%len(kindsOfTurns)] == "asker"
}

func (t turn) runs() bool {
	return slices.Contains([]string{"Reason", "Act", "WaitingForToolResults"}, t.Status.Phase)
}

func (c *cluster) turns(names []string) []turn {
	c.t.Helper()
	var list struct{ Items []turn }
	out := c.kubectl("--namespace", c.namespace, "get", "turns", "-o", "json")
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		c.t.Fatal(err)
	}
	return slices.DeleteFunc(list.Items, func(found turn) bool { return !slices.Contains(names, found.Metadata.Name) })
}

// stillRun prints how many Turns a change of version has met: those of a question at least.
func (c *cluster) stillRun(names []string) {
	c.t.Helper()
	running := slices.DeleteFunc(c.turns(names), func(t turn) bool { return !t.runs() })
	if len(running) == 0 {
		c.t.Errorf("all Turns ended before the change was over")
	}
	c.step(fmt.Sprintf("%d of %d Turns still run after the change", len(running), len(names)))
}

// answer answers the questions of Turns, once all those that ask have asked.
func (c *cluster) answer(names []string) {
	c.t.Helper()
	var answers strings.Builder
	c.eventually("the questions are asked", func() (bool, string) {
		answers.Reset()
		var left []string
		for _, turn := range c.turns(names) {
			switch {
			case turn.Status.Phase == "WaitingForToolResults":
				fmt.Fprintf(&answers, "---\napiVersion: capstan.dev/v1alpha1\nkind: ToolResult\nmetadata: {name: %[1]s}\n"+
					"spec: {turnRef: {name: %[1]s, uid: %[2]s}, callID: %[3]s, result: sure}\n",
					turn.Metadata.Name, turn.Metadata.UID, turn.Status.ToolCalls[0].ID)
			case turn.asks(names) && turn.runs():
				left = append(left, turn.Metadata.Name+" "+turn.Status.Phase)
			}
		}
		return len(left) == 0, strings.Join(left, ", ")
	})
	if answers.Len() > 0 {
		c.apply(answers.String())
	}
}

// finish answers the questions of Turns, and waits until all have succeeded. No call of a tool has an unknown outcome.
func (c *cluster) finish(names []string) {
	c.t.Helper()
	c.answer(names)
	c.eventually("the Turns succeed", func() (bool, string) {
		var left []string
		for _, turn := range c.turns(names) {
			switch turn.Status.Phase {
			case "Succeeded":
			case "Failed", "Cancelled":
				c.t.Fatalf("Turn %s ended as %+v", turn.Metadata.Name, turn.Status)
			default:
				left = append(left, turn.Metadata.Name+" "+turn.Status.Phase)
			}
			for _, call := range turn.Status.ToolCalls {
				if call.State == "Unknown" {
					c.t.Errorf("Turn %s has a call with an unknown outcome", turn.Metadata.Name)
				}
			}
		}
		return len(left) == 0, strings.Join(left, ", ")
	})
	c.step(fmt.Sprintf("%d Turns have succeeded", len(names)))
}

func (c *cluster) eventually(what string, done func() (bool, string)) {
	c.t.Helper()
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.Now().Add(patience + c.hold)
	for {
		reached, left := done()
		if reached {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("%s: not after %s: %s", what, patience+c.hold, left)
		}
		<-ticker.C
	}
}
