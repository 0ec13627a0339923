package invocation

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/memory"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
	"github.com/capstan-dev/capstan/internal/testing/site"
)

// order is a call of a tool that asks, on a store that outlives the processes.
type order struct {
	t     *testing.T
	site  *site.Site
	store *memory.Store
	turn  turnstate.Turn
	call  v1alpha1.ToolCall
	of    *definition.Definition
	// keys are the Idempotency-Keys of the requests.
	keys []string
}

func newOrder(t *testing.T, class v1alpha1.SideEffect, answers func(*sdk.CallToolParamsRaw)) *order {
	t.Helper()
	asking := site.Asking("echo")
	if ask := asking.Answer; answers != nil {
		asking.Answer = func(params *sdk.CallToolParamsRaw) *sdk.CallToolResult {
			answers(params)
			return ask(params)
		}
	}
	o := &order{t: t, store: memory.New()}
	handler := site.MCPHandler(site.Stateless, asking)
	o.site = site.New(t, func(w http.ResponseWriter, r *http.Request) {
		if key := r.Header.Get("Idempotency-Key"); key != "" {
			o.keys = append(o.keys, key)
		}
		handler.ServeHTTP(w, r)
	})
	o.turn, o.call = acting(v1alpha1.ToolExecutorMCP, class)
	o.call.Name = "mcp_search__echo"
	o.of = definition.OfServer(offering(o.site, class)).Find(o.call.Name)
	o.of.Pin(&o.call)
	return o
}

// process is a new process with its own attempt of the call.
func (o *order) process() func() (End, error) {
	runner, attempt := onStore(o.t, o.store).reaching(o.site), NewAttempt(&Line{})
	return func() (End, error) {
		return runner.CarryOut(o.t.Context(), o.turn, Call{Call: o.call, Definition: o.of, Attempt: attempt})
	}
}

// carryOut carries the call out in a new process.
func (o *order) carryOut() End {
	o.t.Helper()
	end, err := o.process()()
	if err != nil {
		o.t.Fatal(err)
	}
	return end
}

// answer records the answer to the question, and lets the call continue as package act does.
func (o *order) answer(asked journal.SettledRef) {
	o.t.Helper()
	step := &act.Step{}
	step.Ask(&o.call, asked)
	ref, _, err := onStore(o.t, o.store).Log.Settle(o.t.Context(), session, o.turn.Ref, 2, 1, journal.SettledCall{
		ID: o.call.ID, Source: "result-uid", By: "ann", Answered: &journal.AnsweredInput{
			Round: o.call.Input.Round, Answer: v1alpha1.InputAnswer{
				ID: "size", Action: v1alpha1.InputActionAccept, Content: &v1alpha1.JSON{Raw: []byte(`{"size":"large"}`)},
			},
		},
	})
	if err != nil {
		o.t.Fatal(err)
	}
	step.Record([]journal.SettledRef{ref})
	calls := []v1alpha1.ToolCall{o.call}
	step.ApplyRecorded(calls)
	if o.call = calls[0]; o.call.State != v1alpha1.ToolCallStatePending || o.call.Input.Round != asked.Call.Asked.Round {
		o.t.Fatalf("the call is %+v", o.call)
	}
}

// Rules: DUR-01, MCP-02.
func TestACallWhoseToolAsksIsSentOnceInEachRound(t *testing.T) {
	var states []string
	o := newOrder(t, v1alpha1.SideEffectAtMostOnce, func(params *sdk.CallToolParamsRaw) {
		states = append(states, params.RequestState)
	})
	first := o.process()
	asked, err := first()
	if err != nil || asked.Asked.Ordinal == 0 || asked.Asked.Call.Asked.State != "cart-7" {
		t.Fatalf("it ends with %+v, %v", asked, err)
	}
	for name, again := range map[string]func() (End, error){"the same process": first, "another process": o.process()} {
		end, err := again()
		if err != nil || end.Asked.Ordinal != asked.Asked.Ordinal ||
			end.Asked.Call.Asked.Digest != asked.Asked.Call.Asked.Digest {
			t.Errorf("in %s it ends with %+v, %v", name, end, err)
		}
	}
	o.answer(asked.Asked)
	for _, name := range []string{"the first", "another"} {
		end := o.carryOut()
		if end.Outcome.State != v1alpha1.ToolCallStateSucceeded || !strings.Contains(*end.Outcome.Result, `"large"`) {
			t.Errorf("in %s process it ends with %+v", name, end)
		}
	}
	if strings.Join(states, " ") != " cart-7" || len(o.keys) != 2 || o.keys[0] == o.keys[1] {
		t.Errorf("the requests have the states %q and the keys %q", states, o.keys)
	}
}

// Rules: DUR-01.
func TestAnAnswerThatMayHaveBeenSentIsNotSentAgain(t *testing.T) {
	sent := 0
	o := newOrder(t, v1alpha1.SideEffectAtMostOnce, func(*sdk.CallToolParamsRaw) { sent++ })
	o.answer(o.carryOut().Asked)
	// Another process has claimed the round, and has ended since.
	if _, _, err := onStore(t, o.store).Log.Claim(t.Context(), session, o.turn.Ref, 2, 1,
		journal.ClaimedCall{ID: "1-0", Holder: "gone", Round: 1}); err != nil {
		t.Fatal(err)
	}
	end := o.carryOut()
	if end.Outcome.State != v1alpha1.ToolCallStateUnknown || sent != 1 {
		t.Errorf("after %d requests it ends with %+v", sent, end)
	}
}

func TestARepeatableCallContinuesWithWhatWasRecordedFirst(t *testing.T) {
	o := newOrder(t, v1alpha1.SideEffectIdempotent, nil)
	asked := o.carryOut().Asked
	if again := o.carryOut().Asked; again.Ordinal != asked.Ordinal || !again.Adopted {
		t.Errorf("another process has recorded %+v", again)
	}
	o.answer(asked)
	if end := o.carryOut(); end.Outcome.State != v1alpha1.ToolCallStateSucceeded || end.Kept.Ordinal != 0 {
		t.Errorf("it ends with %+v", end)
	}
	if entries := onStore(t, o.store).entries(); entries != 2 {
		t.Errorf("%d entries, want the question and the answer", entries)
	}
}

func TestARoundWithoutItsAnswersIsNotSent(t *testing.T) {
	o := newOrder(t, v1alpha1.SideEffectIdempotent, nil)
	o.call.Input = &v1alpha1.ToolInput{Round: 1}
	if _, err := o.process()(); !errors.Is(err, journal.ErrCorrupt) || o.site.Requests() != 0 {
		t.Errorf("it ends with %v", err)
	}
}

func TestACallThatHasAskedIsNotCalledNotExecutedWhenItsAnswersCannotBeSent(t *testing.T) {
	for class, want := range map[v1alpha1.SideEffect]v1alpha1.ToolCallState{
		v1alpha1.SideEffectAtMostOnce: v1alpha1.ToolCallStateUnknown,
		v1alpha1.SideEffectIdempotent: v1alpha1.ToolCallStateFailed,
	} {
		o := newOrder(t, class, nil)
		o.answer(o.carryOut().Asked)
		o.of = nil
		end := o.carryOut()
		if end.Outcome.State != want || end.Outcome.Reason != v1alpha1.ToolCallReasonToolChanged {
			t.Errorf("%s: it ends with %+v", class, end.Outcome)
		}
		if class == v1alpha1.SideEffectAtMostOnce && !strings.Contains(end.Outcome.Error, "The answers were not sent") {
			t.Errorf("the model is told %q", end.Outcome.Error)
		}
	}
}
