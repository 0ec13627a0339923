package inprocess_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest/inprocess"
)

// titledObjects are a Session whose title the Model small writes. Its hook rewrites a password in messages.
const titledObjects = `
apiVersion: capstan.dev/v1alpha1
kind: Model
metadata: {name: large}
spec: {provider: Simulated, simulation: {}}
---
apiVersion: capstan.dev/v1alpha1
kind: Model
metadata: {name: small}
spec: {provider: Simulated, simulation: {}}
---
apiVersion: capstan.dev/v1alpha1
kind: Harness
metadata: {name: base}
spec:
  modelRef: {name: large}
  capabilities:
  - {builtin: utility_model, config: {modelRef: {name: small}}}
  - {builtin: session_title}
  hooks:
  - name: rewrite
    event: UserPromptSubmit
    cel: {expression: "{'decision': 'mutate', 'patch': {'message': 'My password is REDACTED.'}}"}
---
apiVersion: capstan.dev/v1alpha1
kind: Session
metadata: {name: demo}
spec: {harnessRef: {name: base}}
`

// scribe is the models of a Runtime: small writes titles, or fails with err, and large responds, or calls tools.
type scribe struct {
	mu      sync.Mutex
	err     error
	text    string
	prompts []string
	calls   []inprocess.ModelToolCall
}

func (s *scribe) respond(
	_ context.Context, m *v1alpha1.Model, r inprocess.Request,
) (*inprocess.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.Name == "small" {
		if len(r.Tools) > 0 {
			return nil, errors.New("the model for titles has tools")
		}
		s.prompts = append(s.prompts, r.SystemPrompt+r.Messages[len(r.Messages)-1].PlainText())
		if s.err != nil {
			return nil, s.err
		}
		return &inprocess.Response{Text: s.text}, nil
	}
	calls := s.calls
	s.calls = nil
	return &inprocess.Response{Text: "Noted.", ToolCalls: calls}, nil
}

func (s *scribe) start(t *testing.T, more string) *inprocess.Runtime {
	t.Helper()
	runtime, err := inprocess.New(t.Context(), inprocess.WithYAML(titledObjects+more),
		inprocess.WithAnswer(v1alpha1.ModelProviderSimulated, s.respond))
	if err != nil {
		t.Fatal(err)
	}
	return runtime
}

// expectTitle fails unless the Session has a title.
func expectTitle(t *testing.T, runtime *inprocess.Runtime, session, want string) {
	t.Helper()
	if got, err := runtime.Title(session); err != nil || got != want {
		t.Errorf("the title is %q, not %q (%v)", got, want, err)
	}
}

// The utility model writes the title once, and reads the message as the hooks have left it.
//
// Rules: SVC-01.
func TestTheUtilityModelWritesTheTitle(t *testing.T) {
	s := &scribe{text: "\"A password\n\"and more"}
	runtime := s.start(t, "")
	for _, name := range []string{"one", "two"} {
		if turn := run(t, runtime, message(name, "My password is hunter2.")); reason(turn) != "True EndTurn" {
			t.Fatalf("%+v", turn.Status)
		}
	}
	expectTitle(t, runtime, "demo", "A password")
	if len(s.prompts) != 1 {
		t.Fatalf("%d calls for the title", len(s.prompts))
	}
	if p := s.prompts[0]; strings.Contains(p, "hunter2") || !strings.Contains(p, "My password is REDACTED.") ||
		!strings.Contains(p, "Noted.") {
		t.Errorf("the prompt is %q", p)
	}
}

// A title that cannot be written costs the Turn nothing, and is tried for a few Turns only.
//
// Rules: SVC-01.
func TestATitleThatFailsChangesNoTurn(t *testing.T) {
	s := &scribe{err: errors.New("out of order")}
	runtime := s.start(t, "")
	for _, name := range []string{"one", "two", "three", "four", "five"} {
		if turn := run(t, runtime, message(name, "Hi")); reason(turn) != "True EndTurn" || turn.Status.Error != nil {
			t.Fatalf("%+v", turn.Status)
		}
	}
	expectTitle(t, runtime, "demo", "")
	if len(s.prompts) != 3 {
		t.Errorf("%d calls for the title", len(s.prompts))
	}
}

// The model sets the title with a tool, unless the user has given one; then no model is called for it either.
//
// Rules: CTX-02.
func TestTheModelSetsTheTitle(t *testing.T) {
	call := inprocess.ModelToolCall{ProviderID: "a", Name: "set_session_title", Arguments: `{"title":"  New\ttitle\n"}`}
	s := &scribe{text: "Written", calls: []inprocess.ModelToolCall{call}}
	runtime := s.start(t, `---
apiVersion: capstan.dev/v1alpha1
kind: Session
metadata: {name: given}
spec: {harnessRef: {name: base}, title: Mine}
`)
	turn := run(t, runtime, message("one", "Hi"))
	if state := turn.Status.ToolCalls[0].State; state != v1alpha1.ToolCallStateSucceeded {
		t.Fatalf("%+v", turn.Status.ToolCalls)
	}
	expectTitle(t, runtime, "demo", "New title")
	s.calls = []inprocess.ModelToolCall{call}
	other := message("other", "Hi")
	other.Spec.SessionRef.Name = "given"
	turn = run(t, runtime, other)
	if shown := turn.Status.ToolCalls[0]; shown.State != v1alpha1.ToolCallStateFailed ||
		!strings.Contains(shown.Preview, "The user has given this session its title") {
		t.Errorf("%+v", shown)
	}
	expectTitle(t, runtime, "given", "Mine")
	if len(s.prompts) != 0 {
		t.Errorf("%d calls for the title", len(s.prompts))
	}
}
