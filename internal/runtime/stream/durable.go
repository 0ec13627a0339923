package stream

import (
	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

// Durable returns the events of a step that was closed (EVT-02). first is the sequence number of its first event: one
// more than the journal has events before it. Parts that no final entry names have no events.
func Durable(s journal.Session, closed *journal.Closed, first int64) ([]stream.Event, error) {
	events := make([]stream.Event, 0, len(closed.Events))
	for i, e := range closed.Events {
		data, err := dataOf(e)
		if err != nil {
			return nil, err
		}
		events = append(events, stream.Event{
			Type: e.Type, ID: e.ID, Sequence: first + int64(i), Time: e.Time, Session: sessionOf(s),
			Turn: &stream.Turn{Name: closed.Turn.Name, UID: closed.Turn.UID}, Step: closed.Step,
			Context: e.Context, Data: data,
		})
	}
	return events, nil
}

func sessionOf(s journal.Session) stream.Session {
	return stream.Session{Namespace: s.Namespace, Name: s.Name, UID: s.UID}
}
