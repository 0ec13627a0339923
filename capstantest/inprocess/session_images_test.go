package inprocess_test

import (
	"encoding/base64"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest/inprocess"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/sessionimage"
)

// looking are a Session that can look at images, and another one.
const looking = `
apiVersion: capstan.dev/v1alpha1
kind: Harness
metadata: {name: base}
spec: {capabilities: [{builtin: session_images}, {builtin: session_file_system}]}
---
apiVersion: capstan.dev/v1alpha1
kind: Session
metadata: {name: demo}
spec: {harnessRef: {name: base}}
---
apiVersion: capstan.dev/v1alpha1
kind: Session
metadata: {name: other}
spec: {harnessRef: {name: base}}
`

// A model writes a file, looks at it, and deletes the image: later prompts have a note in its place. No other Session
// has the image.
//
// Rules: CTX-06, IMG-01, IMG-02, IMG-03.
func TestAModelLooksAtImages(t *testing.T) {
	plotted := base64.StdEncoding.EncodeToString([]byte(plot))
	id := sessionimage.IDOf([]byte(plot))
	rule := func(contains string, calls ...[2]string) v1alpha1.SimulatedRule {
		rule := v1alpha1.SimulatedRule{Contains: contains}
		for _, c := range calls {
			rule.Sequence = append(rule.Sequence, v1alpha1.SimulatedStep{Calls: []v1alpha1.SimulatedToolCall{
				{Name: c[0], Arguments: &v1alpha1.JSON{Raw: []byte(c[1])}},
			}})
		}
		return rule
	}
	script := v1alpha1.Simulation{
		Response: &v1alpha1.SimulatedResponse{Text: "{{images}}|{{tool:view_image}}|{{tool:delete_image}}"},
		ToolCalls: &v1alpha1.SimulatedToolCalls{Conditional: []v1alpha1.SimulatedRule{
			rule("draw", [2]string{"write_file", `{"path": "/a.png", "encoding": "base64", "content": "` + plotted + `"}`},
				[2]string{"view_image", `{"path": "/a.png"}`}),
			rule("view", [2]string{"view_image", `{"id": "` + id + `"}`}),
			rule("delete", [2]string{"delete_image", `{"id": "` + id + `"}`}),
		}},
	}
	var mu sync.Mutex
	var prompt []event.Message
	runtime := start(t, inprocess.WithYAML(looking), inprocess.WithSimulation(script),
		inprocess.WithPrompts(func(r inprocess.Request) {
			mu.Lock()
			defer mu.Unlock()
			prompt = slices.Clone(r.Messages)
		}))
	shown := func() (images []string, text string) {
		mu.Lock()
		defer mu.Unlock()
		for _, m := range prompt {
			text += m.PlainText()
			for _, p := range m.Images() {
				images = append(images, p.Base64)
			}
		}
		return images, text
	}
	send := func(turn *v1alpha1.Turn) string { return run(t, runtime, turn).Status.Output }

	if got := send(message("demo-1", "draw")); !strings.Contains(got, id+", image/png of 8 bytes") {
		t.Errorf("the tool returns %s", got)
	}
	if images, _ := shown(); !slices.Equal(images, []string{plotted}) {
		t.Errorf("the model is shown %q", images)
	}
	named := message("demo-2", "")
	named.Spec.Message = &v1alpha1.TurnMessage{Content: []v1alpha1.MessagePart{
		{Text: "Again."}, {ImageRef: &v1alpha1.MessageImageRef{ID: id}},
	}}
	if got := send(named); !strings.HasPrefix(got, "image/png of 8 bytes|") {
		t.Errorf("the model responds %s", got)
	}
	if images, _ := shown(); !slices.Equal(images, []string{plotted, plotted}) {
		t.Errorf("the model is shown %q", images)
	}
	if got := send(message("demo-3", "delete")); !strings.Contains(got, `{"existed":true}`) {
		t.Errorf("the tool returns %s", got)
	}
	if images, text := shown(); len(images) != 0 || strings.Count(text, "does not have any more") != 2 {
		t.Errorf("the model is shown %q and %s", images, text)
	}
	foreign := message("other-1", "view")
	foreign.Spec.SessionRef.Name = "other"
	if got := send(foreign); !strings.Contains(got, "This session has no image "+id) {
		t.Errorf("in another Session the tool returns %s", got)
	}
}
