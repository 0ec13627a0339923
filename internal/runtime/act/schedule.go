package act

import (
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool/executors"
)

// MaxConcurrency is the maximum number of calls of one step that run at the same time (TOOL-12).
const MaxConcurrency = 32

// chosen returns the indexes of the calls that may start now, in call order (TOOL-12). Only calls that the manager
// carries out are started; calls of client tools and refused calls take no slot. A Running call takes a slot; a Pending
// call does not have its Job yet, or its Job was created and that is not recorded: it is returned again, and takes the
// same slot as before. A call that waits for approval takes no slot, and holds back calls that must not overtake it
// (see heldBack).
//
// Sequential starts one call at a time, in order. Parallel starts as many as limit allows, but of one concurrencyClass
// only the first that is not settled. A limit below 1 stands for MaxConcurrency.
func chosen(calls []v1alpha1.ToolCall, concurrency v1alpha1.ToolConcurrency, limit int) []int {
	switch {
	case concurrency == v1alpha1.ToolConcurrencySequential:
		limit = 1
	case limit < 1:
		limit = MaxConcurrency
	}
	busy := map[string]bool{}
	free := limit
	for i := range calls {
		if open(&calls[i]) && running(&calls[i]) {
			free--
			if class := calls[i].ConcurrencyClass; class != "" {
				busy[class] = true
			}
		}
	}
	held := heldBack(calls, concurrency)
	var due []int
	for i := range calls {
		call := &calls[i]
		if free < 1 {
			break
		}
		if !open(call) || running(call) || held[i] || busy[call.ConcurrencyClass] {
			continue
		}
		if call.ConcurrencyClass != "" {
			busy[call.ConcurrencyClass] = true
		}
		due = append(due, i)
		free--
	}
	return due
}

// open reports whether the manager runs a call, which is not settled.
func open(call *v1alpha1.ToolCall) bool {
	return executors.CarriedOut(call.Executor) && !call.State.Settled()
}

func running(call *v1alpha1.ToolCall) bool {
	return call.State == v1alpha1.ToolCallStateRunning
}

// heldBack reports for each call whether it must wait for an approval, a Secret or an answer, its own or another's: in
// Sequential no call overtakes one that waits, and in Parallel no call of its concurrencyClass does, so that calls
// start in the model's order. Calls that run or have ended, and those of client tools, are not held.
func heldBack(calls []v1alpha1.ToolCall, concurrency v1alpha1.ToolConcurrency) []bool {
	held := make([]bool, len(calls))
	classes, waits := map[string]bool{}, false
	for i := range calls {
		call := &calls[i]
		switch {
		case AwaitsApproval(*call), awaitsSecret(*call), AwaitsInput(*call):
			held[i], waits = true, true
			classes[call.ConcurrencyClass] = call.ConcurrencyClass != ""
		case !open(call) || running(call):
		case concurrency == v1alpha1.ToolConcurrencySequential:
			held[i] = waits
		default:
			held[i] = classes[call.ConcurrencyClass]
		}
	}
	return held
}
