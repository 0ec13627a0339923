package host

import (
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
	if WaitsForOthers(t, p.ToolCalls, nil, concurrency) {
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
	e := &v1alpha1.TurnError{Code: failure.Code, Message: cutEncoded(sentence, maxMessageBytes)}
	for name, value := range failure.Fields {
		if e.Fields == nil {
			e.Fields = map[string]string{}
		}
		limit := maxFieldBytes
		if name == v1alpha1.ErrorFieldProblem || name == v1alpha1.ErrorFieldRemedy {
			limit = maxProblemBytes
		}
		e.Fields[name] = cutEncoded(value, limit)
	}
	return e
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
	plan.CountCalls(p)
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
