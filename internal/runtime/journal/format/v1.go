package format

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
)

// v1 is the content of an entry of format 1, which is beside the envelope.
type v1 struct {
	Parts      []int64        `json:"parts,omitempty"`
	Digest     string         `json:"digest,omitempty"`
	Events     []eventV1      `json:"events,omitempty"`
	Calls      []plannedCall  `json:"calls,omitempty"`
	Steered    []recordedTurn `json:"steered,omitempty"`
	Claimed    *claimedCall   `json:"claimed,omitempty"`
	Settled    *settledCall   `json:"settled,omitempty"`
	Outcomes   []settledCall  `json:"outcomes,omitempty"`
	Partial    *partialAnswer `json:"partial,omitempty"`
	Transition *progress      `json:"transition,omitempty"`
	Checkpoint *checkpoint    `json:"checkpoint,omitempty"`
}

type eventV1 struct {
	ID      string            `json:"id"`
	Type    string            `json:"type"`
	Time    metav1.MicroTime  `json:"time"`
	Context map[string]string `json:"context,omitempty"`
	Data    *v1alpha1.JSON    `json:"data,omitempty"`
}

// decodeV1 adds the content of a spec of format 1, which is beside the envelope.
func decodeV1(spec []byte, e *Entry) error {
	var p v1
	if err := json.Unmarshal(spec, &p); err != nil {
		return fmt.Errorf("reading an entry of format 1: %w", err)
	}
	e.Parts, e.Digest = p.Parts, p.Digest
	e.Events = each(p.Events, func(v eventV1) event.Event {
		return event.Event{ID: v.ID, Type: v.Type, Time: v.Time, Context: v.Context, Data: v.Data}
	})
	e.Calls, e.Steered = each(p.Calls, plannedCall.call), each(p.Steered, recordedTurn.turn)
	e.Claimed, e.Partial = (*ClaimedCall)(p.Claimed), p.Partial.partial()
	if p.Settled != nil {
		settled := p.Settled.call()
		e.Settled = &settled
	}
	e.Outcomes = each(p.Outcomes, settledCall.call)
	e.Transition, e.Checkpoint = p.Transition.progress(), p.Checkpoint.checkpoint()
	return nil
}
