package inprocess_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/capstantest/inprocess"
	sites "github.com/capstan-dev/capstan/internal/testing/site"
)

// connected is an answer about the connection to shop.
func connected(action v1alpha1.InputAction) v1alpha1.InputAnswer {
	return v1alpha1.InputAnswer{ID: "shop", Action: action}
}

// buying is a Runtime whose model calls an HTTP tool once, which needs a connection until it exists.
func buying(t *testing.T, connected *atomic.Bool, more string) (*inprocess.Runtime, *[]string) {
	t.Helper()
	keys := &[]string{}
	server := sites.New(t, func(w http.ResponseWriter, r *http.Request) {
		*keys = append(*keys, r.Header.Get("Idempotency-Key"))
		if !connected.Load() {
			w.Header().Set("Capstan-Connection-Required", "shop")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte("bought"))
	})
	return start(t, append(reaching(server.Server), inprocess.WithYAML(`
apiVersion: capstan.dev/v1alpha1
kind: Tool
metadata: {name: buy}
spec: {description: Buys., inputSchema: {type: object}, http: {url: "`+server.URL+`"}}
---
apiVersion: capstan.dev/v1alpha1
kind: Session
metadata: {name: demo}
spec: {harnessRef: {name: base}, tools: [{name: buy}], `+more+`}
`), inprocess.WithSimulation(calling([]string{"buy"})))...), keys
}

// requestedConnections are the calls of setup_connection in the events of the Session demo.
func requestedConnections(t *testing.T, runtime *inprocess.Runtime) []string {
	t.Helper()
	events, err := runtime.Events(t.Context(), "demo")
	if err != nil {
		t.Fatal(err)
	}
	var calls []string
	for _, e := range events {
		var data struct {
			ToolCalls []struct{ ID, Name, Arguments string } `json:"tool_calls"`
		}
		if e.Type != "tool.call_requested" {
			continue
		}
		if err := json.Unmarshal(e.Data.Raw, &data); err != nil {
			t.Fatal(err)
		}
		for _, call := range data.ToolCalls {
			if !strings.HasPrefix(call.ID, "setup_conn_") {
				t.Errorf("the call has the id %s", call.ID)
			}
			calls = append(calls, call.Name+" "+call.Arguments)
		}
	}
	return calls
}

// Rules: TOOL-16.
func TestACallWaitsForAConnectionThatItsToolNeeds(t *testing.T) {
	var exists atomic.Bool
	runtime, keys := buying(t, &exists, "")
	turn := run(t, runtime, message("demo-1", "Go."))
	call := turn.Status.ToolCalls[0]
	if turn.Status.Phase != v1alpha1.TurnPhaseWaitingForToolResults || call.Reason != v1alpha1.ReasonConnection ||
		call.Input == nil || call.Input.Requests[0].Mode != v1alpha1.ToolInputModeConnection ||
		turn.Status.WaitsFor[0].Type != v1alpha1.WaitTypeConnection {
		t.Fatalf("the Turn is %+v", turn.Status)
	}
	with := connected(v1alpha1.InputActionAccept)
	with.Content = &v1alpha1.JSON{Raw: []byte(`{"token":"x"}`)}
	_, err := runtime.AnswerInput(t.Context(), "demo-1", "1-0", with)
	refused(t, err, v1alpha1.ReasonInvalidInput)
	// The user was wrong: the tool still needs it.
	turn, err = runtime.AnswerInput(t.Context(), "demo-1", "1-0", connected(v1alpha1.InputActionAccept))
	if err != nil || turn.Status.ToolCalls[0].Input == nil || turn.Status.ToolCalls[0].Input.Round != 2 {
		t.Fatalf("after a connection that does not exist: %+v, %v", turn, err)
	}
	exists.Store(true)
	turn, err = runtime.AnswerInput(t.Context(), "demo-1", "1-0", connected(v1alpha1.InputActionAccept))
	if err != nil || reason(turn) != "True EndTurn" || turn.Status.ToolCalls[0].Preview != "bought" {
		t.Fatalf("once it exists: %+v, %v", turn, err)
	}
	if len(*keys) != 3 || (*keys)[0] == (*keys)[1] || (*keys)[1] == (*keys)[2] {
		t.Errorf("the requests have the keys %q", *keys)
	}
	if calls := requestedConnections(t, runtime); strings.Join(calls, ", ") != `setup_connection {"provider":"shop"}` {
		t.Errorf("the events request %q", calls)
	}
}

// Rules: TOOL-16.
func TestAConnectionThatIsDeclinedEndsItsCall(t *testing.T) {
	var exists atomic.Bool
	runtime, keys := buying(t, &exists, "")
	run(t, runtime, message("demo-1", "Go."))
	turn, err := runtime.AnswerInput(t.Context(), "demo-1", "1-0", connected(v1alpha1.InputActionDecline))
	call := turn.Status.ToolCalls[0]
	if err != nil || call.State != v1alpha1.ToolCallStateFailed ||
		call.Reason != v1alpha1.ToolCallReasonConnectionRequired || len(*keys) != 1 {
		t.Errorf("after %d requests the call is %+v, %v", len(*keys), call, err)
	}
}

// Rules: TOOL-16, TURN-11.
func TestNoCallWaitsForAConnectionWhereNoClientSetsOneUp(t *testing.T) {
	var exists atomic.Bool
	runtime, _ := buying(t, &exists, "clientTools: FollowHints")
	turn := run(t, runtime, message("demo-1", "Go."))
	if call := turn.Status.ToolCalls[0]; reason(turn) != "True EndTurn" ||
		call.Reason != v1alpha1.ToolCallReasonConnectionRequired {
		t.Errorf("the call is %+v", call)
	}
}

// Rules: TOOL-16.
func TestAToolOfAServerNeedsAConnection(t *testing.T) {
	var exists atomic.Bool
	runtime := ordering(t, sites.Connecting("order", "shop", exists.Load))
	turn := run(t, runtime, message("demo-1", "Go."))
	if call := turn.Status.ToolCalls[0]; call.Reason != v1alpha1.ReasonConnection {
		t.Fatalf("the call is %+v", call)
	}
	exists.Store(true)
	turn, err := runtime.AnswerInput(t.Context(), "demo-1", "1-0", connected(v1alpha1.InputActionAccept))
	if err != nil || turn.Status.ToolCalls[0].State != v1alpha1.ToolCallStateSucceeded {
		t.Errorf("after the answer: %+v, %v", turn, err)
	}
}

// paying is a Runtime whose model calls a Job tool once, which exits with 75 until the connection exists.
func paying(
	t *testing.T, exists *atomic.Bool, class v1alpha1.SideEffect, more string,
) (*inprocess.Runtime, *atomic.Int64) {
	t.Helper()
	runs := &atomic.Int64{}
	return start(t, inprocess.WithYAML(`
apiVersion: capstan.dev/v1alpha1
kind: Tool
metadata: {name: pay}
spec:
  description: Pays.
  inputSchema: {type: object}
  sideEffect: `+string(class)+`
  job: {image: example.org/pay:1, command: [/pay], connections: [{exitCode: 75, provider: shop}]}
---
apiVersion: capstan.dev/v1alpha1
kind: Session
metadata: {name: demo}
spec: {harnessRef: {name: base}, tools: [{name: pay}], `+more+`}
`), inprocess.WithSimulation(calling([]string{"pay"})),
		inprocess.WithTools(func(capstantest.Call) (string, string, int) {
			runs.Add(1)
			if !exists.Load() {
				return `{"connectionRequired":"other"}`, "no key", 75
			}
			return "paid", "", 0
		})), runs
}

// Rules: TOOL-16.
func TestAJobReportsByItsExitCodeThatItNeedsAConnection(t *testing.T) {
	for _, class := range []v1alpha1.SideEffect{v1alpha1.SideEffectPure, v1alpha1.SideEffectAtMostOnce} {
		t.Run(string(class), func(t *testing.T) {
			var exists atomic.Bool
			runtime, runs := paying(t, &exists, class, "")
			turn := run(t, runtime, message("demo-1", "Go."))
			call := turn.Status.ToolCalls[0]
			if call.State != v1alpha1.ToolCallStateWaiting || call.Reason != v1alpha1.ReasonConnection || call.Attempt != 1 ||
				call.Input.Requests[0].ID != "shop" || turn.Status.WaitsFor[0].Type != v1alpha1.WaitTypeConnection {
				t.Fatalf("the call is %+v", call)
			}
			turn, err := runtime.AnswerInput(t.Context(), "demo-1", "1-0", connected(v1alpha1.InputActionAccept))
			if err != nil || turn.Status.ToolCalls[0].Input == nil || turn.Status.ToolCalls[0].Input.Round != 2 ||
				runs.Load() != 2 {
				t.Fatalf("after a connection that does not exist: %+v, %v", turn, err)
			}
			exists.Store(true)
			turn, err = runtime.AnswerInput(t.Context(), "demo-1", "1-0", connected(v1alpha1.InputActionAccept))
			if err != nil || reason(turn) != "True EndTurn" || turn.Status.ToolCalls[0].Preview != "paid" ||
				turn.Status.ToolCalls[0].Attempt != 3 || runs.Load() != 3 {
				t.Fatalf("once it exists, after %d runs: %+v, %v", runs.Load(), turn, err)
			}
			calls := requestedConnections(t, runtime)
			if strings.Join(calls, ", ") != `setup_connection {"provider":"shop"}` {
				t.Errorf("the events request %q", calls)
			}
		})
	}
}

// Rules: TOOL-16.
func TestAJobThatReportsAConnectionForeverEndsItsCall(t *testing.T) {
	var exists atomic.Bool
	runtime, runs := paying(t, &exists, v1alpha1.SideEffectAtMostOnce, "")
	turn := run(t, runtime, message("demo-1", "Go."))
	var err error
	for range 8 {
		if turn.Status.ToolCalls[0].State != v1alpha1.ToolCallStateWaiting {
			t.Fatalf("after %d runs the call is %+v", runs.Load(), turn.Status.ToolCalls[0])
		}
		if turn, err = runtime.AnswerInput(t.Context(), "demo-1", "1-0", connected(v1alpha1.InputActionAccept)); err != nil {
			t.Fatal(err)
		}
	}
	if call := turn.Status.ToolCalls[0]; call.State != v1alpha1.ToolCallStateFailed || runs.Load() != 9 ||
		reason(turn) != "True EndTurn" {
		t.Errorf("after %d runs the call is %+v", runs.Load(), call)
	}
}

// Rules: TOOL-16, TURN-11.
func TestNoJobWaitsForAConnectionThatIsNotSetUp(t *testing.T) {
	for name, more := range map[string]string{"declined": "", "without clients": "clientTools: FollowHints"} {
		var exists atomic.Bool
		runtime, runs := paying(t, &exists, v1alpha1.SideEffectAtMostOnce, more)
		turn := run(t, runtime, message("demo-1", "Go."))
		if more == "" {
			var err error
			turn, err = runtime.AnswerInput(t.Context(), "demo-1", "1-0", connected(v1alpha1.InputActionDecline))
			if err != nil {
				t.Fatal(err)
			}
		}
		if call := turn.Status.ToolCalls[0]; call.State != v1alpha1.ToolCallStateFailed ||
			call.Reason != v1alpha1.ToolCallReasonConnectionRequired || runs.Load() != 1 || reason(turn) != "True EndTurn" {
			t.Errorf("%s: after %d runs the call is %+v", name, runs.Load(), call)
		}
	}
}
