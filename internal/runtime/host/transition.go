package host

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// maxOutputBytes is the most bytes of a response in status, as JSON.
const maxOutputBytes = 8 << 10

// maxMessageBytes is the length of an error's message in status, as JSON.
const maxMessageBytes = 2 << 10

// Begin returns the status of an admitted Turn: the first reason step is open. head is the first free ordinal of the
// journal that is known.
func Begin(openedAt int64, now metav1.MicroTime) v1alpha1.TurnProgress {
	return v1alpha1.TurnProgress{
		Phase:     v1alpha1.TurnPhaseReason,
		Iteration: 1,
		Plan:      &v1alpha1.TurnPlan{Step: 1, Phase: v1alpha1.PlanPhaseReason, OpenedAt: openedAt},
		Summary:   &v1alpha1.TurnSummary{StartedAt: &now},
	}
}

// CancelledBeforeStart is the status of a Turn that was cancelled while it was queued.
func CancelledBeforeStart(now metav1.MicroTime) v1alpha1.TurnProgress {
	return v1alpha1.TurnProgress{
		Phase:   v1alpha1.TurnPhaseCancelled,
		Plan:    &v1alpha1.TurnPlan{Phase: v1alpha1.PlanPhaseComplete},
		Summary: &v1alpha1.TurnSummary{FinishedAt: &now},
		Error:   &v1alpha1.TurnError{Code: string(plan.CodeCancelled), Message: "The turn was cancelled before it began."},
	}
}

// next returns the status after the open step, without the decision. The calls of the newest act step stay in it, so
// that users can see how they ended.
func (t Turn) next(state plan.State) v1alpha1.TurnProgress {
	p := *t.Progress.DeepCopy()
	p.Plan = &v1alpha1.TurnPlan{Step: t.step() + 1, PreviousResponseID: state.PreviousResponseID}
	p.Iteration, p.WaitsFor = int32(state.Iteration), nil
	if p.Summary == nil {
		p.Summary = &v1alpha1.TurnSummary{}
	}
	if state.Usage != nil {
		p.Summary.Usage = usageOf(state.Usage)
	}
	p.Summary.ModelCalls = int32(state.LLMCallCount)
	if t.Progress.Plan != nil && t.Progress.Plan.Phase == v1alpha1.PlanPhaseAct {
		p.Summary.FailedToolCalls += failedCalls(p.ToolCalls)
	}
	setCalls(&p)
	return p
}

// reasonNext is the status when a model call follows.
func (t Turn) reasonNext(state plan.State) v1alpha1.TurnProgress {
	p := t.next(state)
	p.Phase, p.Plan.Phase = v1alpha1.TurnPhaseReason, v1alpha1.PlanPhaseReason
	return p
}

// actNext returns the status when tool calls follow. planned is their number; calls are those that fit into status.
func (t Turn) actNext(
	state plan.State,
	calls []v1alpha1.ToolCall,
	planned int,
	concurrency v1alpha1.ToolConcurrency,
) v1alpha1.TurnProgress {
	p := t.next(state)
	p.Phase, p.Plan.Phase = v1alpha1.TurnPhaseAct, v1alpha1.PlanPhaseAct
	p.ToolCalls = calls
	p.Summary.ToolCalls += int32(planned)
	setCalls(&p)
	if WaitsForOthers(t, calls, nil, concurrency) {
		p.Phase = v1alpha1.TurnPhaseWaitingForToolResults
	}
	return p
}

// complete is the status when the Turn ends.
func (t Turn) complete(c plan.Complete, output, sentence string, now metav1.MicroTime) v1alpha1.TurnProgress {
	p := t.next(c.State)
	p.Plan.Step, p.Plan.Phase = t.step(), v1alpha1.PlanPhaseComplete
	p.Plan.PreviousResponseID = ""
	p.Summary.FinishedAt = &now
	if c.Succeeded() {
		p.Phase = v1alpha1.TurnPhaseSucceeded
		p.Plan.StopReason = v1alpha1.StopReason(c.StopReason)
		p.Output = cutEncoded(output, maxOutputBytes)
		return p
	}
	p.Phase = v1alpha1.TurnPhaseFailed
	if c.StopReason == plan.StopCancelled {
		p.Phase = v1alpha1.TurnPhaseCancelled
	}
	p.Error = turnError(c, sentence)
	setCalls(&p)
	return p
}

const (
	// maxFieldBytes bounds a field of an error in the status, and maxProblemBytes the field with a
	// provider's own text, and the one with the remedy.
	maxFieldBytes   = 256
	maxProblemBytes = 1040
)

// turnError returns why the Turn failed, in a form that users may read.
func turnError(c plan.Complete, sentence string) *v1alpha1.TurnError {
	e := &v1alpha1.TurnError{Code: string(plan.CodeProcessingError)}
	if c.Failure != nil {
		e.Code = string(c.Failure.Code)
		for name, value := range c.Failure.Fields {
			if e.Fields == nil {
				e.Fields = map[string]string{}
			}
			limit := maxFieldBytes
			if name == plan.FieldProblem || name == plan.FieldRemedy {
				limit = maxProblemBytes
			}
			e.Fields[name] = cutEncoded(fmt.Sprint(value), limit)
		}
		if sentence == "" {
			sentence = c.Failure.Sentence()
		}
	}
	e.Message = cutEncoded(sentence, maxMessageBytes)
	return e
}

// failedCalls counts the calls that have failed or have an unknown outcome.
func failedCalls(calls []v1alpha1.ToolCall) (failed int32) {
	for _, call := range calls {
		if call.State == v1alpha1.ToolCallStateFailed || call.State == v1alpha1.ToolCallStateUnknown {
			failed++
		}
	}
	return failed
}

// setCalls updates the counts of tool calls.
func setCalls(p *v1alpha1.TurnProgress) {
	open := int32(0)
	for _, call := range p.ToolCalls {
		if !call.State.Settled() {
			open++
		}
	}
	p.Summary.SettledToolCalls = max(p.Summary.ToolCalls-open, 0)
	p.Summary.Calls = ""
	if p.Summary.ToolCalls > 0 {
		p.Summary.Calls = fmt.Sprintf("%d/%d", p.Summary.SettledToolCalls, p.Summary.ToolCalls)
	}
	failed := p.Summary.FailedToolCalls
	if p.Plan != nil && p.Plan.Phase == v1alpha1.PlanPhaseAct {
		failed += failedCalls(p.ToolCalls)
	}
	if failed > 0 {
		p.Summary.Calls += fmt.Sprintf(", %d failed", failed)
	}
}

// Progress updates a status while the calls of its act step are running. lacks are the waits of calls for anything but
// clients and approvals. The phase is Waiting where the Turn waits for these alone.
func Progress(p *v1alpha1.TurnProgress, outcomes map[string]tool.Outcome, waits bool, lacks []v1alpha1.TurnWait) {
	for i := range p.ToolCalls {
		if outcome, ok := outcomes[p.ToolCalls[i].ID]; ok {
			Describe(&p.ToolCalls[i], outcome)
		}
	}
	p.Phase, p.WaitsFor = v1alpha1.TurnPhaseAct, lacks
	switch {
	case waits && len(lacks) > 0 && !slices.ContainsFunc(p.ToolCalls, asks):
		p.Phase = v1alpha1.TurnPhaseWaiting
	case waits:
		p.Phase = v1alpha1.TurnPhaseWaitingForToolResults
	}
	setCalls(p)
}

// asks reports whether a call waits for others: for a client, or for approval.
func asks(call v1alpha1.ToolCall) bool {
	return call.State == v1alpha1.ToolCallStateWaiting || tool.AwaitsApproval(call)
}

// WaitsForOthers reports whether the act step only waits for ToolResults and Secrets: there are calls without an
// outcome, and each is a client's, waits for approval or a Secret, or is held back behind one that does. Client calls
// count only if the Turn waits for clients; approvals always do (GAP-06).
func WaitsForOthers(
	t Turn,
	calls []v1alpha1.ToolCall,
	outcomes map[string]tool.Outcome,
	concurrency v1alpha1.ToolConcurrency,
) bool {
	held := tool.Held(calls, concurrency)
	missing := false
	for i, call := range calls {
		if _, ok := outcomes[call.ID]; ok || call.State.Settled() {
			continue
		}
		switch {
		case held[i]:
			missing = true
		case call.Executor != v1alpha1.ToolExecutorClient:
			return false
		case Waits(t):
			missing = true
		}
	}
	return missing
}

// Describe writes the end of a call to status.
func Describe(call *v1alpha1.ToolCall, outcome tool.Outcome) {
	call.State, call.Reason, call.NotBefore = outcome.State, outcome.Reason, nil
	tool.Asked(call)
	switch {
	case outcome.Error != "":
		call.Preview = preview(outcome.Error)
	case outcome.Result != nil:
		call.Preview = preview(*outcome.Result)
	}
}

// preview is the start of a text for status.
func preview(text string) string {
	return cutEncoded(tool.Preview(text), tool.MaxPreviewBytes)
}

func usageOf(u *plan.Usage) v1alpha1.Usage {
	return v1alpha1.Usage{
		InputTokens:  u.InputTokens,
		OutputTokens: u.OutputTokens,
		TotalTokens:  u.InputTokens + u.OutputTokens,
	}
}

// cut shortens text to at most limit bytes, at the end of a character.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const mark = "…"
	return strings.ToValidUTF8(text[:limit-len(mark)], "") + mark
}

// cutEncoded shortens text so that it takes at most limit bytes within a JSON string, where some characters take six:
// foreign text must not make status grow beyond its bound (invariant 7).
func cutEncoded(text string, limit int) string {
	const mark = "…"
	size, fits := 0, 0
	for i, r := range text {
		if size <= limit-len(mark) {
			fits = i
		}
		if size += encodedLength(r); size > limit {
			return strings.ToValidUTF8(text[:fits], "") + mark
		}
	}
	return text
}

// encodedLength returns the most that a character takes within a JSON string.
func encodedLength(r rune) int {
	switch {
	case r == '"' || r == '\\' || r == '\n' || r == '\r' || r == '\t' || r == '\b' || r == '\f':
		return len(`\"`)
	case r < ' ' || r == '<' || r == '>' || r == '&' || r == '\u2028' || r == '\u2029' || r == utf8.RuneError:
		return len(`\u0000`)
	default:
		return utf8.RuneLen(r)
	}
}
