package journal

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
)

// canonical returns a record in the form in which it is read back: times in microseconds, text in valid UTF-8, the keys
// of data sorted, an id for each event. So the writer and every later reader count the same bytes, and split cuts
// between characters. It rejects a record that no reader could read.
func canonical(r Record) (Record, error) {
	raw, err := json.Marshal(content{Events: r.Events, Calls: r.Calls, Compaction: r.Compaction, Transition: r.Transition})
	if err != nil {
		return r, fmt.Errorf("encoding the record: %w", err)
	}
	var c content
	if err := json.Unmarshal(raw, &c); err != nil {
		return r, fmt.Errorf("reading back the record: %w", err)
	}
	event.Identify(r.Turn.UID, r.Step, c.Events)
	if err := canonicalEvents(c.Events); err != nil {
		return r, err
	}
	ids := make(map[string]bool, len(c.Calls))
	for _, call := range c.Calls {
		if call.ID == "" || ids[call.ID] {
			return r, fmt.Errorf("call id %q is empty or appears twice in one record", call.ID)
		}
		ids[call.ID] = true
	}
	r.Events, r.Calls, r.Compaction, r.Transition = c.Events, c.Calls, c.Compaction, c.Transition
	return r, nil
}

type content struct {
	Events     []event.Event         `json:"events,omitempty"`
	Calls      []PlannedCall         `json:"calls,omitempty"`
	Compaction *Compaction           `json:"compaction,omitempty"`
	Transition v1alpha1.TurnProgress `json:"transition"`
}

func canonicalEvents(events []event.Event) error {
	ids := make(map[string]bool, len(events))
	for i := range events {
		e := &events[i]
		if e.ID == "" || ids[e.ID] {
			return fmt.Errorf("event id %q is empty or appears twice in one record", e.ID)
		}
		ids[e.ID] = true
		if e.Data != nil {
			data, err := canonicalJSON(e.Data.Raw)
			if err != nil {
				return fmt.Errorf("reading the data of event %s of type %s: %w", e.ID, e.Type, err)
			}
			e.Data = data
		}
		if _, _, err := event.MessageOf(*e); err != nil {
			return err
		}
	}
	return nil
}

func canonicalJSON(raw []byte) (*v1alpha1.JSON, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	sorted, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return &v1alpha1.JSON{Raw: sorted}, nil
}

// assemble reads the parts of a final entry and returns the step as it was recorded.
func assemble(final *Entry, parts []*entry) (*Closed, error) {
	closed := &Closed{
		Ordinal: final.Ordinal,
		Adopted: true,
		Time:    final.Time,
		Step:    final.Step,
		Digest:  final.Digest,
		Steered: final.Steered,
		Context: final.Context,

		Compaction: final.Compaction,
	}
	if final.Turn == nil || final.Transition == nil {
		return nil, fmt.Errorf("%w: the final entry at ordinal %d has no turn or no transition", ErrCorrupt, final.Ordinal)
	}
	closed.Turn = *final.Turn
	var events []event.Event
	var calls []PlannedCall
	for _, part := range parts {
		p := part.spec
		if p.Final || p.Turn == nil || p.Turn.UID != final.Turn.UID || p.Step != final.Step || p.Ordinal >= final.Ordinal {
			return nil, fmt.Errorf(
				"%w: the entry at ordinal %d is not a part of the one at %d, which names it",
				ErrCorrupt,
				p.Ordinal,
				final.Ordinal,
			)
		}
		closed.Settled = settledIn(closed.Settled, p)
		events = append(events, p.Events...)
		calls = append(calls, p.Calls...)
	}
	var err error
	if closed.Events, err = joinEvents(append(events, final.Events...)); err != nil {
		return nil, err
	}
	closed.Calls = joinCalls(append(calls, final.Calls...))
	closed.Transition = transition(final)
	return closed, nil
}

// transition is the transition of a final entry, with the ordinal at which the next step opens.
func transition(final *Entry) v1alpha1.TurnProgress {
	t := *final.Transition.DeepCopy()
	if t.Plan != nil && t.Plan.OpenedAtOrdinal == 0 {
		t.Plan.OpenedAtOrdinal = final.Ordinal + 1
	}
	return t
}
