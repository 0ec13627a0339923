package event

import (
	"crypto/sha256"
	"strconv"
	"strings"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Event is one event of a Session (EVT-02). Its sequence number follows from its position in the journal.
type Event struct {
	// ID of the event. It follows from Turn, step, type and subject; journals of earlier builds have other ids.
	ID string `json:"id"`
	// Subject distinguishes the event from others of its type in one step: the id of a tool call, and a number where that
	// is not enough. Identify sets it.
	Subject string `json:"subject,omitempty"`
	// Type in dotted form.
	Type string `json:"type"`
	// Time at which it happened.
	Time metav1.MicroTime `json:"time"`
	// Context names the turn, message, execution and spans that the event belongs to.
	Context map[string]string `json:"context,omitempty"`
	// Data of the event, by type.
	Data *v1alpha1.JSON `json:"data,omitempty"`
}

// Identify sets the ids of the events of one step, in order. Events with an id keep it.
func Identify(turn types.UID, step int32, events []Event) {
	type key struct{ kind, subject string }
	seen := map[key]int{}
	for i := range events {
		e := &events[i]
		subject, _, _ := strings.Cut(e.Subject, "#")
		of := key{e.Type, subject}
		n := seen[of]
		seen[of]++
		if e.ID != "" {
			continue
		}
		if n > 0 {
			e.Subject += "#" + strconv.Itoa(n)
		}
		e.ID = ID(turn, step, e.Type, e.Subject)
	}
}

// ID is the id of the event of a type and subject in a step: a UUIDv8, so that every process that records the step
// gives it the same one.
func ID(turn types.UID, step int32, kind, subject string) string {
	return derivedID(string(turn), strconv.Itoa(int(step)), kind, subject)
}

// MessageID is the id of the assistant message of a step.
func MessageID(turn types.UID, step int32) string {
	return derivedID(string(turn), strconv.Itoa(int(step)), "message", "")
}

func derivedID(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	var id uuid.UUID
	copy(id[:], sum[:])
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return id.String()
}

// Context returns the context of the events of a turn; with an execution, that of an event of this run of a step, and
// of a tool call's event in it.
func Context(turn types.UID, exec, kind, subject string) map[string]string {
	context := map[string]string{ContextTurn: string(turn), ContextInputMessage: string(turn)}
	if exec == "" {
		return context
	}
	span, parent := StepSpan(turn, exec), TurnSpan(turn)
	if kind == TypeToolStarted || kind == TypeToolCompleted {
		call, _, _ := strings.Cut(subject, "#")
		span, parent = ToolSpan(turn, exec, call), span
	}
	context[ContextExec], context[ContextTrace] = exec, string(turn)
	context[ContextSpan], context[ContextParentSpan] = span, parent
	return context
}
