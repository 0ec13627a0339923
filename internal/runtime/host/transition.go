package host

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// maxOutputBytes is the most bytes of a response in status, as JSON.
const maxOutputBytes = 8 << 10

// maxMessageBytes is the length of an error's message in status, as JSON.
const maxMessageBytes = 2 << 10

// CancelledBeforeStart is the status of a Turn that was cancelled while it was queued.
func CancelledBeforeStart(now metav1.MicroTime) v1alpha1.TurnProgress {
	p := plan.NeverBegan(v1alpha1.TurnPhaseCancelled, now)
	p.Error = &v1alpha1.TurnError{
		Code: v1alpha1.ErrorCodeCancelled, Message: "The turn was cancelled before it began.",
	}
	return p
}

// showWait sets the phase of a Turn whose next step is made of tool calls that all wait for others.
func (t Turn) showWait(p *v1alpha1.TurnProgress, concurrency v1alpha1.ToolConcurrency) {
	if (*act.Step)(nil).WaitsForOthers(p.ToolCalls, Waits(t), concurrency) {
		p.Phase = v1alpha1.TurnPhaseWaitingForToolResults
	}
}

const (
	// maxFieldBytes bounds a field of an error in the status, and maxProblemBytes the field with a
	// provider's own text, and the one with the remedy.
	maxFieldBytes   = 256
	maxProblemBytes = 1040
)

// turnError returns why the Turn failed, in a form that users may read.
func turnError(failure plan.Failure, sentence string) *v1alpha1.TurnError {
	e := &v1alpha1.TurnError{Code: failure.Code, Message: tool.CutEncoded(sentence, maxMessageBytes)}
	for name, value := range failure.Fields {
		if e.Fields == nil {
			e.Fields = map[string]string{}
		}
		limit := maxFieldBytes
		if name == v1alpha1.ErrorFieldProblem || name == v1alpha1.ErrorFieldRemedy {
			limit = maxProblemBytes
		}
		e.Fields[name] = tool.CutEncoded(value, limit)
	}
	return e
}

// Progress updates a status while the calls of its act step are running. waits reports whether the step only waits for
// others, and lacks are the waits of calls other than for clients and approvals. The phase is Waiting if the Turn waits
// only for these.
func Progress(p *v1alpha1.TurnProgress, known *act.Step, waits bool, lacks []v1alpha1.TurnWait) {
	for i := range p.ToolCalls {
		if outcome, ok := known.Outcome(p.ToolCalls[i].ID); ok {
			act.Describe(&p.ToolCalls[i], outcome)
		}
	}
	p.Phase, p.WaitsFor = v1alpha1.TurnPhaseAct, lacks
	switch {
	case waits && len(lacks) > 0 && !slices.ContainsFunc(p.ToolCalls, asks):
		p.Phase = v1alpha1.TurnPhaseWaiting
	case waits:
		p.Phase = v1alpha1.TurnPhaseWaitingForToolResults
	}
	plan.CountCalls(p)
}

// asks reports whether a call waits for others: for a client, or for approval.
func asks(call v1alpha1.ToolCall) bool {
	return call.State == v1alpha1.ToolCallStateWaiting || tool.AwaitsApproval(call)
}

// cut shortens text to at most limit bytes, at the end of a character.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const mark = "…"
	return strings.ToValidUTF8(text[:limit-len(mark)], "") + mark
}
