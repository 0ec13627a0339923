package inprocess_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest/inprocess"
	runtimeinprocess "github.com/capstan-dev/capstan/internal/runtime/inprocess"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

// documented is the Harness of docs/hooks.md, with the objects that it needs.
func documented(t *testing.T) inprocess.Option {
	t.Helper()
	page, err := os.ReadFile("../../docs/hooks.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	harness, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("docs/hooks.md has no example")
	}
	return inprocess.WithYAML(harness + `---
apiVersion: capstan.dev/v1alpha1
kind: Tool
metadata: {name: write}
spec: {description: Writes., sideEffect: Pure, job: {image: i, command: [/write]}}
---
apiVersion: capstan.dev/v1alpha1
kind: Session
metadata: {name: hooked}
spec: {harnessRef: {name: guarded}}
`)
}

// writing is a model that writes to a path and then responds.
func writing(path string) v1alpha1.Simulation {
	script := calling([]string{"write"})
	script.ToolCalls.Sequence[0].Calls[0].Arguments = &v1alpha1.JSON{Raw: []byte(`{"path":"` + path + `"}`)}
	return script
}

func TestTheExampleOfTheDocumentation(t *testing.T) {
	for name, test := range map[string]struct {
		message, path, arguments, reason string
		state                            v1alpha1.ToolCallState
	}{
		"a path below /tmp": {
			"Go.", "/tmp/a", `{"path":"/tmp/a"}`, "True EndTurn", v1alpha1.ToolCallStateSucceeded,
		},
		"a path that is moved": {
			"Go.", "/var/a", `{"path":"/tmp/moved"}`, "True EndTurn", v1alpha1.ToolCallStateSucceeded,
		},
		"a path that is blocked": {"Go.", "/etc/a", "", "True EndTurn", v1alpha1.ToolCallStateNotExecuted},
		"a key":                  {"-----BEGIN PRIVATE KEY-----", "/tmp/a", "", "False BlockedByUserPromptHook", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var arguments string
			runtime := start(t, documented(t), inprocess.WithSimulation(writing(test.path)),
				inprocess.WithTools(func(call inprocess.Call) (string, string, int) {
					arguments = call.Arguments
					return "written", "", 0
				}), inprocess.WithDefaultSession("hooked"))
			turn, err := runtime.RunText(t.Context(), "hooked", test.message)
			if err != nil {
				t.Fatal(err)
			}
			if reason(turn) != test.reason || arguments != test.arguments {
				t.Errorf("it ends with %s, the tool got %q: %+v", reason(turn), arguments, turn.Status.Error)
			}
			if test.state != "" && turn.Status.ToolCalls[0].State != test.state {
				t.Errorf("the call is %+v", turn.Status.ToolCalls[0])
			}
			if test.state == "" && turn.Status.Error.Message != "Do not send private keys." {
				t.Errorf("the user reads %q", turn.Status.Error.Message)
			}
		})
	}
}

// Rules: TURN-16.
func TestHooksAtTheEndOfATurnAreRecorded(t *testing.T) {
	store := inprocess.NewMemoryStore()
	runtime := start(t, inprocess.WithStore(store), inprocess.WithSimulation(calling()), inprocess.WithYAML(`---
apiVersion: capstan.dev/v1alpha1
kind: Session
metadata: {name: hooked}
spec:
  harnessRef: {name: base}
  hooks: [{name: report, event: TurnEnd, cel: {expression: "data.success ? 'seen' : 'missed'"}}]
`), inprocess.WithDefaultSession("hooked"))
	turn, err := runtime.RunText(t.Context(), "hooked", "Go.")
	if err != nil || reason(turn) != "True EndTurn" {
		t.Fatalf("it ends with %s, %v", reason(turn), err)
	}
	of := journal.Session{Namespace: turn.Namespace, Name: "hooked", UID: turn.Status.SessionUID}
	steps, err := runtimeinprocess.Steps(t.Context(), journal.New(store, journal.Options{}), store, of)
	if err != nil || len(steps) != 1 {
		t.Fatalf("%d steps, %v", len(steps), err)
	}
	end, err := journal.New(store, journal.Options{}).Ended(t.Context(), of, steps[0])
	if err != nil || end == nil || len(end.Hooks) != 1 || end.Hooks[0].Reason != "seen" {
		t.Errorf("the journal has %+v, %v", end, err)
	}
}

// lively has hooks at the start and the end of a Session, which keep their count in its files.
const lively = `---
apiVersion: capstan.dev/v1alpha1
kind: Session
metadata: {name: lively}
spec:
  harnessRef: {name: base}
  hooks:
  - {name: hello, event: SessionStart, bash: {command: "printf x >> n; cat n >&2; exit 1"}}
  - {name: bye, event: SessionEnd, bash: {command: "printf x >> n; cat n >&2; exit 1"}}
`

// Rules: HOOK-01, HOOK-15.
func TestASessionStartsOnceAndEndsOnce(t *testing.T) {
	runtime := start(t, inprocess.WithSimulation(calling()), inprocess.WithYAML(lively))
	if hooks := runtime.SessionHooks("lively"); hooks != nil {
		t.Errorf("before the first Turn: %+v", hooks)
	}
	for range 2 {
		if turn, err := runtime.RunText(t.Context(), "lively", "Go."); err != nil || reason(turn) != "True EndTurn" {
			t.Fatalf("it ends with %s, %v", reason(turn), err)
		}
	}
	outcome := func(id, text string) []v1alpha1.HookOutcome {
		return []v1alpha1.HookOutcome{{ID: id, Decision: v1alpha1.HookDecisionBlock, Reason: text}}
	}
	hooks := runtime.SessionHooks("lively")
	if hooks == nil || hooks.StartedAt == nil || !slices.Equal(hooks.Start, outcome("session:hello", "x")) ||
		len(hooks.End) != 1 || hooks.End[0].ID != "session:bye" {
		t.Fatalf("the hooks are %+v", hooks)
	}
	ended, err := runtime.EndSession(t.Context(), "lively")
	if err != nil || !slices.Equal(ended, outcome("session:bye", "xx")) {
		t.Errorf("it ends with %+v, %v", ended, err)
	}
	if again, err := runtime.EndSession(t.Context(), "lively"); err != nil || again != nil {
		t.Errorf("it ends again with %+v, %v", again, err)
	}
	if _, err := runtime.RunText(t.Context(), "lively", "Go."); err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("a Turn of a Session that has ended: %v", err)
	}
	if _, err := runtime.EndSession(t.Context(), "none"); err == nil {
		t.Error("a Session that does not exist ends")
	}
}

func TestASessionThatHasHadNoTurnEndsWithoutHooks(t *testing.T) {
	runtime := start(t, inprocess.WithSimulation(calling()), inprocess.WithYAML(lively))
	if ended, err := runtime.EndSession(t.Context(), "lively"); err != nil || ended != nil {
		t.Errorf("it ends with %+v, %v", ended, err)
	}
}

func TestASessionThatAnotherRuntimeHasStartedEndsHere(t *testing.T) {
	store, records := inprocess.NewMemoryStore(), inprocess.NewMemoryRecords()
	options := []inprocess.Option{
		inprocess.WithStore(store), inprocess.WithRecords(records), inprocess.WithSimulation(calling()),
		inprocess.WithYAML(lively),
	}
	if _, err := start(t, options...).RunText(t.Context(), "lively", "Go."); err != nil {
		t.Fatal(err)
	}
	runtime := start(t, options...)
	if _, err := runtime.RunText(t.Context(), "lively", "Go."); err != nil || runtime.SessionHooks("lively") != nil {
		t.Errorf("the hooks at the start run again: %+v, %v", runtime.SessionHooks("lively"), err)
	}
	ended, err := runtime.EndSession(t.Context(), "lively")
	if err != nil || len(ended) != 1 || ended[0].Reason != "xx" {
		t.Errorf("it ends with %+v, %v", ended, err)
	}
}

// Rules: HOOK-15.
func TestAnEndingSessionCancelsItsTurns(t *testing.T) {
	runtime := start(t, inprocess.WithSimulation(calling([]string{"ask"})), inprocess.WithYAML(lively),
		inprocess.WithYAML(`---
apiVersion: capstan.dev/v1alpha1
kind: Tool
metadata: {name: ask}
spec: {description: Asks., client: {}}
---
apiVersion: capstan.dev/v1alpha1
kind: Session
metadata: {name: lively}
spec:
  harnessRef: {name: base}
  tools: [{name: ask}]
  hooks: [{name: bye, event: SessionEnd, cel: {expression: "'over'"}}]
`))
	turn, err := runtime.RunText(t.Context(), "lively", "Go.")
	if err != nil || turn.Status.Phase != v1alpha1.TurnPhaseWaitingForToolResults {
		t.Fatalf("it is %s, %v", turn.Status.Phase, err)
	}
	ended, err := runtime.EndSession(t.Context(), "lively")
	if err != nil || len(ended) != 1 || ended[0].Reason != "over" {
		t.Errorf("it ends with %+v, %v", ended, err)
	}
	if got := reason(runtime.Turn(turn.Name)); got != "False Cancelled" {
		t.Errorf("its Turn ends with %s", got)
	}
}

func TestAnInvalidHookIsNotLeftOut(t *testing.T) {
	_, err := inprocess.New(t.Context(), inprocess.WithYAML(base+`---
apiVersion: capstan.dev/v1alpha1
kind: Session
metadata: {name: broken}
spec:
  harnessRef: {name: base}
  hooks: [{name: guard, event: PreToolUse, cel: {expression: "data."}}]
`), inprocess.WithSimulation(calling()))
	if err == nil || !strings.Contains(err.Error(), `Hook "session:guard" is invalid`) {
		t.Errorf("it starts with %v", err)
	}
}

// Rules: HOOK-12.
func TestAScriptWorksOnTheFilesOfItsSession(t *testing.T) {
	const session = `
apiVersion: capstan.dev/v1alpha1
kind: Harness
metadata: {name: base}
spec:
  initialFiles: [{path: /count, content: x}]
  hooks:
  - name: count
    event: UserPromptSubmit
    bash: {command: "printf x >> /workspace/count; cp count a"}
  - name: guard
    event: PreToolUse
    onError: Block
    bash: {command: "[ \"$(cat count)\" = xxx ] || { echo \"it is the turn of $(cat count)\" >&2; exit 1; }"}
---
apiVersion: capstan.dev/v1alpha1
kind: Session
metadata: {name: demo}
spec: {harnessRef: {name: base}, capabilities: [{builtin: session_file_system}]}
`
	r, err := inprocess.New(t.Context(), inprocess.WithYAML(session), inprocess.WithSimulation(fileScript()))
	if err != nil {
		t.Fatal(err)
	}
	if turn := run(t, r, message("demo-1", "read")); !strings.Contains(turn.Status.Output, "it is the turn of xx") {
		t.Errorf("the first Turn: %s", turn.Status.Output)
	}
	if turn := run(t, r, message("demo-2", "read")); !strings.Contains(turn.Status.Output, `"content":"xxx"`) {
		t.Errorf("the second Turn: %s", turn.Status.Output)
	}
}
