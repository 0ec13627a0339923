package tool

import "github.com/capstan-dev/capstan/api/v1alpha1"

// Startable returns the indexes of the calls that may start now, in call order (TOOL-12). Only calls that the manager
// carries out are started; calls of client tools and refused calls take no slot. A Running call takes a slot; a Pending
// call does not have its Job yet, or its Job was created and that is not recorded: it is returned again, and takes the
// same slot as before. A call that waits for approval takes no slot, and holds back calls that must not overtake it
// (see Held).
//
// Sequential starts one call at a time, in order. Parallel starts as many as limit allows, but of one concurrencyClass
// only the first that is not settled. A limit below 1 stands for MaxConcurrency.
func Startable(calls []v1alpha1.ToolCall, concurrency v1alpha1.ToolConcurrency, limit int) []int {
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
	held := Held(calls, concurrency)
	var chosen []int
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
		chosen = append(chosen, i)
		free--
	}
	return chosen
}

// open reports whether the manager runs a call, which is not settled.
func open(call *v1alpha1.ToolCall) bool {
	return CarriedOut(call.Executor) && !call.State.Settled()
}

func running(call *v1alpha1.ToolCall) bool {
	return call.State == v1alpha1.ToolCallStateRunning
}
