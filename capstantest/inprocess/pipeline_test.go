package inprocess_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest/clock"
	"github.com/capstan-dev/capstan/capstantest/inprocess"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/journaltest"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	sites "github.com/capstan-dev/capstan/internal/testing/site"
)

// trace is a Store that records the stages which calls of the Session demo reach, in order: those that the journal
// shows, and those that the test adds.
type trace struct {
	inprocess.Store
	mu     sync.Mutex
	stages []string
}

func (tr *trace) add(stage, call string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.stages = append(tr.stages, stage+" "+call)
}

func (tr *trace) reached() []string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return slices.Clone(tr.stages)
}

func (tr *trace) Create(ctx context.Context, s inprocess.LogSession, e *v1alpha1.JournalEntrySpec) error {
	err := tr.Store.Create(ctx, s, e)
	if err == nil && s.Name == "demo" {
		tr.read(journaltest.Content(e))
	}
	return err
}

// read adds the stages that an entry shows.
func (tr *trace) read(e *journal.Entry) {
	for _, call := range e.Calls {
		if call.Refusal != "" {
			tr.add("refuse", call.ID)
		} else {
			tr.add("plan", call.ID)
		}
	}
	switch {
	case e.Claimed != nil:
		tr.add("claim", e.Claimed.ID)
	case e.Settled != nil && e.Settled.Decision != "":
		tr.add("decide", e.Settled.ID)
	case e.Settled != nil:
		tr.add("settle", e.Settled.ID)
	}
	for _, of := range e.Events {
		if of.Type == event.TypeToolStarted || of.Type == event.TypeToolCompleted {
			tr.add(of.Type, of.Subject)
		}
	}
}

// payAs is the Tool pay with other fields.
func payAs(fields string) string {
	return "{apiVersion: capstan.dev/v1alpha1, kind: Tool, metadata: {name: pay}, spec: {description: Pays., " + fields +
		"}}\n---\n"
}

// blockedSite is a Harness that has only the tool pay, and blocks the address of that tool.
const blockedSite = `
{apiVersion: capstan.dev/v1alpha1, kind: Harness, metadata: {name: base}, spec: {
  systemPrompt: Be brief., tools: [{name: pay}], networkAccess: {blocked: [pay.example.org]}}}
`

// pipelineRow is a call that ends at one stage of the pipeline.
type pipelineRow struct {
	stage string
	// objects are those of the row; call is the tool that the model calls, with arguments unless they are empty.
	objects, call, arguments string
	// stdout, stderr and exit are the results of the tool's function. stdout can have {arguments}.
	stdout, stderr string
	exit           int
	// decide is the decision about the call, once the Turn waits for one.
	decide v1alpha1.Decision
	// claimed reports whether another process has claimed the call, and ended.
	claimed bool
	// serve is what an MCPServer of the row does with a call, which it adds to the trace.
	serve func(tr *trace, now *clock.Clock) sites.MCPTool

	// reached are the stages, in order. None comes after the one at which the call ends, but those that report its end.
	reached []string
	state   v1alpha1.ToolCallState
	reason  string
	// status is that of the event tool.completed; empty for a call that does not end.
	status string
	// text is part of the text for the model.
	text string
}

const (
	job  = "job: {image: i, command: [/pay]}"
	site = `http: {url: "https://pay.example.org/v1"}`
)

// pipeline has a row for each stage, in order (TOOL-13).
var pipeline = []pipelineRow{
	{
		stage: "no definition", call: "nothing",
		reached: []string{"refuse 1-0", "tool.completed 1-0"},
		state:   v1alpha1.ToolCallStateNotExecuted, reason: v1alpha1.ToolCallReasonToolNotFound,
		status: event.StatusError, text: "Tool definition not found: nothing",
	},
	{
		stage: "arguments that are too large", call: "pay",
		arguments: `{"for": "` + strings.Repeat("x", tool.MaxArgumentsBytes) + `"}`,
		reached:   []string{"refuse 1-0", "tool.completed 1-0"},
		state:     v1alpha1.ToolCallStateNotExecuted, reason: v1alpha1.ToolCallReasonArgumentsTooLarge,
		status: event.StatusError, text: "a tool can be given at most 98304",
	},
	{
		stage: "arguments that violate the schema", call: "pay", arguments: `{"sum": "much"}`,
		objects: payAs("inputSchema: {type: object, properties: {sum: {type: integer}}}, " + job),
		reached: []string{"refuse 1-0", "tool.completed 1-0"},
		state:   v1alpha1.ToolCallStateNotExecuted, reason: v1alpha1.ToolCallReasonInvalidArguments,
		status: event.StatusError, text: "The tool was not executed: ",
	},
	{
		stage: "a decision that is missing", call: "guarded",
		reached: []string{"plan 1-0"},
		state:   v1alpha1.ToolCallStateWaiting, reason: v1alpha1.ReasonApproval,
	},
	{
		stage: "a rejection", call: "guarded", decide: v1alpha1.DecisionReject,
		reached: []string{"plan 1-0", "tool.completed 1-0"},
		state:   v1alpha1.ToolCallStateNotExecuted, reason: v1alpha1.ToolCallReasonRejected,
		status: event.StatusError, text: "rejected",
	},
	{
		stage: "an approval", call: "guarded", decide: v1alpha1.DecisionApprove, stdout: "paid",
		reached: []string{
			"plan 1-0", "decide 1-0", "claim 1-0", "execute 1-0", "settle 1-0", "tool.started 1-0", "tool.completed 1-0",
		},
		state: v1alpha1.ToolCallStateSucceeded, reason: v1alpha1.ToolCallReasonCompleted,
		status: event.StatusSuccess, text: "paid",
	},
	{
		stage: "a Secret that is missing", call: "pay",
		objects: payAs(`http: {url: "https://pay.example.org/v1", headers: [{name: A, secretKeyRef: {name: s, key: k}}]}`),
		reached: []string{"plan 1-0"},
		state:   v1alpha1.ToolCallStatePending, reason: v1alpha1.ReasonSecretMissing,
	},
	{
		stage: "a claim of another process", call: "pay", claimed: true,
		reached: []string{"tool.started 1-0", "tool.completed 1-0"},
		state:   v1alpha1.ToolCallStateUnknown, reason: v1alpha1.ToolCallReasonManagerLost,
		status: event.StatusInterrupted, text: "The outcome of this tool call is unknown",
	},
	{
		stage: "a request that is not allowed", call: "pay", objects: payAs(site) + blockedSite,
		reached: []string{"plan 1-0", "claim 1-0", "settle 1-0", "tool.completed 1-0"},
		state:   v1alpha1.ToolCallStateNotExecuted, reason: v1alpha1.ToolCallReasonNetworkAccessDenied,
		status: event.StatusError, text: "The tool was not executed",
	},
	{
		stage: "an execution that fails", call: "pay", stdout: "half of it", stderr: "no funds", exit: 3,
		reached: []string{
			"plan 1-0", "claim 1-0", "execute 1-0", "settle 1-0", "tool.started 1-0", "tool.completed 1-0",
		},
		state: v1alpha1.ToolCallStateFailed, reason: v1alpha1.ToolCallReasonExitCode,
		status: event.StatusError, text: "no funds",
	},
	{
		stage: "a result that is too long", call: "pay", stdout: strings.Repeat("y", 70_000),
		reached: []string{
			"plan 1-0", "claim 1-0", "execute 1-0", "settle 1-0", "tool.started 1-0", "tool.completed 1-0",
		},
		state: v1alpha1.ToolCallStateSucceeded, reason: v1alpha1.ToolCallReasonCompleted,
		status: event.StatusSuccess, text: "of 70000 bytes. Call the tool so that it returns less",
	},
	{
		stage: "a call that may be repeated", call: "look", stdout: "seen",
		reached: []string{"plan 1-0", "execute 1-0", "tool.started 1-0", "tool.completed 1-0"},
		state:   v1alpha1.ToolCallStateSucceeded, reason: v1alpha1.ToolCallReasonCompleted,
		status: event.StatusSuccess, text: "seen",
	},
	{
		stage: "a call that starts at most once", call: "pay", stdout: "paid",
		reached: []string{
			"plan 1-0", "claim 1-0", "execute 1-0", "settle 1-0", "tool.started 1-0", "tool.completed 1-0",
		},
		state: v1alpha1.ToolCallStateSucceeded, reason: v1alpha1.ToolCallReasonCompleted,
		status: event.StatusSuccess, text: "paid",
	},
}

// TestThePipelineOfACall runs a call through each row. Whatever its end, the Turn goes on (TOOL-13).
// Rules: TOOL-04, TOOL-15.
func TestThePipelineOfACall(t *testing.T) {
	for _, row := range slices.Concat(pipeline, hookedPipeline, remotePipeline) {
		t.Run(row.stage, func(t *testing.T) {
			now := &clock.Clock{}
			tr := &trace{Store: inprocess.NewMemoryStore()}
			script := calling([]string{row.call})
			if row.arguments != "" {
				script.ToolCalls.Sequence[0].Calls[0].RawArguments = &row.arguments
			}
			if row.claimed {
				claimAndStop(t, tr.Store, script)
			}
			options := []inprocess.Option{
				inprocess.WithYAML(row.objects), inprocess.WithStore(tr), inprocess.WithClock(now),
				inprocess.WithSimulation(script), inprocess.WithDefaultSession("demo"),
				inprocess.WithTools(func(call inprocess.Call) (string, string, int) {
					tr.add("execute", call.ID)
					now.Advance(pipelineRun)
					return strings.ReplaceAll(row.stdout, "{arguments}", call.Arguments), row.stderr, row.exit
				}),
			}
			if row.serve != nil {
				server := sites.NewMCP(t, sites.Stateless, row.serve(tr, now))
				options = append(append(options, reaching(server.Server)...), searching(server.URL, ""))
			}
			runtime := start(t, options...)
			turn := run(t, runtime, message("demo-1", "Go."))
			if row.decide != "" {
				var err error
				if turn, err = runtime.Decide(t.Context(), "demo-1", "1-0", row.decide); err != nil {
					t.Fatal(err)
				}
			}
			if got := tr.reached(); !slices.Equal(got, row.reached) {
				t.Errorf("the call reached %q,\nwant %q", got, row.reached)
			}
			if call := turn.Status.ToolCalls[0]; call.State != row.state || call.Reason != row.reason {
				t.Errorf("the call is %+v", call)
			}
			if row.status != "" {
				row.ended(t, runtime, turn)
			}
		})
	}
}

// pipelineRun is how long each function runs, by the clock of the test.
const pipelineRun = 10 * time.Second

// claimAndStop runs a Turn until its call is claimed and begins, and ends the runtime.
func claimAndStop(t *testing.T, store inprocess.Store, script v1alpha1.Simulation) {
	t.Helper()
	life, die := context.WithCancel(t.Context())
	first := startIn(life, t, inprocess.WithStore(store), inprocess.WithSimulation(script),
		inprocess.WithTools(func(call inprocess.Call) (string, string, int) {
			die()
			<-call.Context.Done()
			return "", "", 1
		}))
	if turn, err := first.RunTurn(t.Context(), message("demo-1", "Go.")); err == nil {
		t.Fatalf("the first runtime returned %+v", turn.Status)
	}
}

// ended checks the events of the end of the call, the text for the model, and that the Turn has ended as any other.
func (row *pipelineRow) ended(t *testing.T, runtime *inprocess.Runtime, turn *v1alpha1.Turn) {
	t.Helper()
	if reason(turn) != "True EndTurn" {
		t.Errorf("the Turn ended with %s", reason(turn))
	}
	if texts := resultTexts(t, runtime); len(texts) != 1 || !strings.Contains(texts[0], row.text) ||
		len(texts[0]) > tool.MaxResultBytes {
		t.Errorf("the model received %.200q", texts)
	}
	events, err := runtime.Events(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	ended := decodeOne[event.ToolCompleted](t, events, event.TypeToolCompleted)
	success := row.status == event.StatusSuccess
	if ended.Status != row.status || ended.Success != success || (ended.Error == "") != success ||
		(ended.Result != nil) != success || ended.Fingerprint == "" {
		t.Errorf("tool.completed has %+v", ended)
	}
	executed := slices.Contains(row.reached, "execute 1-0")
	if executed != (ended.DurationMS != nil) || executed && *ended.DurationMS < pipelineRun.Milliseconds() {
		t.Errorf("tool.completed has the duration %v", ended.DurationMS)
	}
	counts := decodeOne[event.ActCompleted](t, events, event.TypeActCompleted)
	if !counts.Completed || counts.SuccessCount+counts.ErrorCount != 1 || (counts.SuccessCount == 1) != success {
		t.Errorf("act.completed has %+v", counts)
	}
}

// decodeOne is the data of the only event of a type.
func decodeOne[T any](t *testing.T, events []event.Event, of string) T {
	t.Helper()
	var found []T
	for _, e := range events {
		if e.Type != of {
			continue
		}
		data, err := event.Decode[T](e)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, data)
	}
	if len(found) != 1 {
		t.Fatalf("there are %d events of type %s", len(found), of)
	}
	return found[0]
}

// A call takes its place before it is claimed: the second call of a class waits until the first one has its outcome.
// Rules: TOOL-12, TOOL-13.
func TestACallIsClaimedOnceItHasItsPlace(t *testing.T) {
	tr := &trace{Store: inprocess.NewMemoryStore()}
	runtime := start(t, inprocess.WithYAML(payAs("concurrencyClass: purse, "+job)), inprocess.WithStore(tr),
		inprocess.WithSimulation(calling([]string{"pay", "pay"})),
		inprocess.WithTools(func(call inprocess.Call) (string, string, int) {
			tr.add("execute", call.ID)
			return "paid", "", 0
		}))
	if turn := run(t, runtime, message("demo-1", "Go.")); reason(turn) != "True EndTurn" {
		t.Fatalf("the Turn ended with %s", reason(turn))
	}
	want := []string{
		"plan 1-0", "plan 1-1", "claim 1-0", "execute 1-0", "settle 1-0", "claim 1-1", "execute 1-1", "settle 1-1",
		"tool.started 1-0", "tool.completed 1-0", "tool.started 1-1", "tool.completed 1-1",
	}
	if got := tr.reached(); !slices.Equal(got, want) {
		t.Errorf("the calls reached %q,\nwant %q", got, want)
	}
}
