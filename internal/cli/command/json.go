package command

import (
	"encoding/json"
	"fmt"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/cli/history"
	"github.com/capstan-dev/capstan/internal/cli/text"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

// typeDecision is the type of a decision about a call in the output: it is a part of the journal, and no event.
const typeDecision = "call.decided"

// decisionData is the data of a decision.
type decisionData struct {
	ToolCallID string            `json:"tool_call_id"`
	Decision   v1alpha1.Decision `json:"decision"`
	By         string            `json:"by,omitempty"`
	Reason     string            `json:"reason,omitempty"`
}

// eventOf returns an item as it is printed: as the event stream has it.
func eventOf(s journal.Session, item history.Item) (stream.Event, error) {
	d := item.Decision
	if d == nil {
		return item.Public, nil
	}
	decided := decisionData{ToolCallID: d.ID, Decision: d.Decision, By: d.By}
	if d.Error != nil {
		decided.Reason = *d.Error
	}
	data, err := json.Marshal(decided)
	if err != nil {
		return stream.Event{}, fmt.Errorf("encoding a decision: %w", err)
	}
	return stream.Event{
		Type: typeDecision, Session: stream.Session{Namespace: s.Namespace, Name: s.Name, UID: s.UID},
		Turn: &stream.Turn{Name: item.Turn.Name, UID: item.Turn.UID}, Data: data,
	}, nil
}

// printEvent prints an item as one line of JSON.
func (p *program) printEvent(s journal.Session, item history.Item) error {
	e, err := eventOf(s, item)
	if err != nil {
		return err
	}
	return p.printJSON(e)
}

// printJSON prints a value as one line.
func (p *program) printJSON(value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encoding the output: %w", err)
	}
	raw = append(text.EscapeJSON(raw), '\n')
	if _, err := p.out.Out.Write(raw); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}
