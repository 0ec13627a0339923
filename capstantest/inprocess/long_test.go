package inprocess_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest/inprocess"
)

// longObjects are a Session with the capability compaction. Its Model is a function.
const longObjects = `
apiVersion: capstan.dev/v1alpha1
kind: Model
metadata: {name: scripted}
spec: {provider: Simulated, contextWindow: 8000, simulation: {}}
---
apiVersion: capstan.dev/v1alpha1
kind: Harness
metadata: {name: base}
spec: {modelRef: {name: scripted}, capabilities: [{builtin: compaction, config: {threshold: "50%"}}]}
---
apiVersion: capstan.dev/v1alpha1
kind: Session
metadata: {name: demo}
spec: {harnessRef: {name: base}, journalLimit: 32Mi}
`

// Rules: LLM-08.
func TestAConversationOfManyTurnsStaysBounded(t *testing.T) {
	turns := 2000
	if testing.Short() {
		turns = 300
	}
	const fact = "The code word is heron."
	var largest, compactions int
	answer := func(_ context.Context, _ *v1alpha1.Model, r inprocess.Request) (*inprocess.Response, error) {
		size, known := len(r.SystemPrompt), false
		for _, m := range r.Messages {
			size += len(m.PlainText())
			known = known || strings.Contains(m.PlainText(), fact)
		}
		largest = max(largest, size)
		text := strings.Repeat("An answer of some length. ", 12)
		last := r.Messages[len(r.Messages)-1].PlainText()
		switch {
		case strings.HasPrefix(r.SystemPrompt, "You write a summary"):
			compactions++
			if text = "Nothing of note."; known {
				text = "The user said: " + fact
			}
		case strings.Contains(last, "What is the code word?"):
			if text = "I do not know."; known {
				text = "heron"
			}
		}
		usage := inprocess.ModelUsage{InputTokens: int64(size / 4), OutputTokens: int64(len(text) / 4)}
		return &inprocess.Response{Text: text, Usage: usage}, nil
	}
	runtime, err := inprocess.New(t.Context(), inprocess.WithYAML(longObjects),
		inprocess.WithAnswer(v1alpha1.ModelProviderSimulated, answer))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := runtime.RunText(t.Context(), "demo", fact+" Remember it."); err != nil {
		t.Fatal(err)
	}
	for i := range turns {
		turn, err := runtime.RunText(t.Context(), "demo", fmt.Sprintf("Question %d: %s", i, strings.Repeat("why? ", 40)))
		if err != nil {
			t.Fatal(err)
		}
		if turn.Status.Phase != v1alpha1.TurnPhaseSucceeded {
			t.Fatalf("Turn %d is %s: %+v", i, turn.Status.Phase, turn.Status.Error)
		}
	}
	turn, err := runtime.RunText(t.Context(), "demo", "What is the code word?")
	if err != nil {
		t.Fatal(err)
	}
	if turn.Status.Output != "heron" {
		t.Errorf("the response about the first Turn is %q", turn.Status.Output)
	}
	// 4,000 tokens, with a Turn more and the estimate of its message.
	if largest > 4*4500 {
		t.Errorf("the largest prompt had %d bytes", largest)
	}
	events, err := runtime.Events(t.Context(), "demo")
	if err != nil {
		t.Fatal(err)
	}
	messages := 0
	for _, e := range events {
		if e.Type == "input.message" || e.Type == "output.message.completed" {
			messages++
		}
	}
	if messages != 2*(turns+2) {
		t.Errorf("the journal has %d messages of %d Turns", messages, turns+2)
	}
	t.Logf("%d Turns: the largest prompt had %d bytes, with %d compactions", turns+2, largest, compactions)
}
