package format

import (
	"bytes"
	"encoding/json"

	"github.com/capstan-dev/capstan/internal/runtime/event"
)

// idKind is what an id in the data of an event identifies.
type idKind int

const (
	turnID idKind = iota
	messageID
)

// idFields are the fields of events' data, by type and key, whose ids follow from Turn and step. A payload has null in
// their place. The key message stands for the id within a message.
var idFields = map[string]map[string]idKind{
	event.TypeInputMessage:           {"message": turnID},
	event.TypeSessionActivated:       {"turn_id": turnID, "input_message_id": turnID},
	event.TypeSessionIdled:           {"turn_id": turnID},
	event.TypeTurnStarted:            {"turn_id": turnID, "input_message_id": turnID},
	event.TypeTurnCompleted:          {"turn_id": turnID, "final_message_id": messageID},
	event.TypeTurnFailed:             {"turn_id": turnID},
	event.TypeOutputMessageStarted:   {"turn_id": turnID, "message_id": messageID},
	event.TypeOutputMessageCompleted: {"message": messageID},
}

var null = []byte("null")

// withoutIDs returns an event's data with null in place of the ids that withIDs knows. The second value reports that the
// data is returned as it is, because withIDs would not restore it.
func (c *codec) withoutIDs(kind string, raw []byte) (short json.RawMessage, verbatim bool) {
	short, ok := c.replaceIDs(kind, raw, func(value json.RawMessage, id string) (json.RawMessage, bool) {
		quoted, err := json.Marshal(id)
		switch {
		case err != nil || bytes.Equal(value, null):
			return nil, false
		case bytes.Equal(value, quoted):
			return null, true
		default:
			return value, true
		}
	})
	if !ok {
		return raw, true
	}
	return short, false
}

// withIDs reverses withoutIDs.
func (c *codec) withIDs(kind string, raw []byte) (json.RawMessage, error) {
	var failed error
	whole, ok := c.replaceIDs(kind, raw, func(value json.RawMessage, id string) (json.RawMessage, bool) {
		if !bytes.Equal(value, null) {
			return value, true
		}
		quoted, err := json.Marshal(id)
		failed = err
		return quoted, err == nil
	})
	if !ok {
		return raw, failed
	}
	return whole, nil
}

// replaceIDs changes the ids of an event's data, the keys of which stay sorted. It reports whether the data could be
// changed; that of a part of an event is text, and has no ids.
func (c *codec) replaceIDs(
	kind string, raw []byte, change func(value json.RawMessage, id string) (json.RawMessage, bool),
) (json.RawMessage, bool) {
	fields, known := idFields[kind]
	if !known || len(raw) == 0 || raw[0] != '{' {
		return raw, true
	}
	return replaceIn(raw, fields, func(value json.RawMessage, of idKind) (json.RawMessage, bool) {
		id := string(c.turn)
		if of == messageID {
			id = event.MessageID(c.turn, c.step)
		}
		return change(value, id)
	})
}

func replaceIn(
	raw []byte, fields map[string]idKind, change func(json.RawMessage, idKind) (json.RawMessage, bool),
) (json.RawMessage, bool) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil {
		return raw, false
	}
	for key, of := range fields {
		value, ok := object[key]
		if !ok {
			continue
		}
		if key == "message" {
			value, ok = replaceIn(value, map[string]idKind{"id": of}, change)
		} else {
			value, ok = change(value, of)
		}
		if !ok {
			return raw, false
		}
		object[key] = value
	}
	changed, err := json.Marshal(object)
	return changed, err == nil
}
