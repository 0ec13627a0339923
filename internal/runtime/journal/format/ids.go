package format

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/capstan-dev/capstan/internal/runtime/event"
)

// idKind is the kind of object that an id in the data of an event identifies.
type idKind int

const (
	turnID idKind = iota
	messageID
)

// idFields are the fields of events' data, by type and key, whose ids follow from Turn and step: a payload leaves them
// out. The key message stands for the id within a message.
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

// The values that several events of one entry have in common.
const (
	sameUsage    = "usage"
	sameResponse = "response"
	sameInput    = "input"
	sameText     = "text"
)

// sameFields are the fields of events' data that a payload leaves out if their value is that of the events before, in
// this order, with the value that they have.
var sameFields = []struct{ key, value string }{
	{"final_answer_preview", sameText},
	{"input_content", sameInput},
	{"response_id", sameResponse},
	{"text_preview", sameText},
	{"usage", sameUsage},
}

// firstToken is a field of the events of a model call. Those of these types have the value of the one before, so that a
// payload leaves it out and does not even name it.
const firstToken = "time_to_first_token_ms"

var firstTokenTypes = []string{event.TypeReasonCompleted, event.TypeTurnCompleted}

type object = map[string]json.RawMessage

// objectOf decodes data; that of a part of an event is text, and no object.
func objectOf(raw []byte) (object, bool) {
	var data object
	if err := json.Unmarshal(raw, &data); err != nil || data == nil {
		return nil, false
	}
	return data, true
}

// shortenData returns an event's data without the fields that restoreData restores. The second value has the keys that
// were left out because their values are those of the events before; the third reports that the data is returned as it
// is.
func (c *codec) shortenData(kind string, raw []byte) (short json.RawMessage, same []string, verbatim bool) {
	data, ok := objectOf(raw)
	if !ok {
		return raw, nil, true
	}
	text := textOf(kind, data)
	for key, of := range idFields[kind] {
		if key == "message" {
			message, ok := objectOf(data[key])
			if !ok || message["id"] == nil {
				return raw, nil, true
			}
			c.dropID(message, "id", of)
			data[key] = encoded(message)
			continue
		}
		if data[key] == nil {
			return raw, nil, true
		}
		c.dropID(data, key, of)
	}
	if !c.dropFirstToken(kind, data) {
		return raw, nil, true
	}
	for _, field := range sameFields {
		value, ok := data[field.key]
		switch {
		case !ok:
		case bytes.Equal(value, c.values[field.value]):
			delete(data, field.key)
			same = append(same, field.key)
		default:
			c.values[field.value] = value
		}
	}
	c.remember(kind, text)
	return encoded(data), same, false
}

// dropID removes an id that follows from Turn and step.
func (c *codec) dropID(data object, key string, of idKind) {
	if bytes.Equal(data[key], c.id(of)) {
		delete(data, key)
	}
}

// dropFirstToken removes the value that follows from the event before. It reports false if addFirstToken would add one
// that the event does not have.
func (c *codec) dropFirstToken(kind string, data object) bool {
	known, given := c.values[firstToken], data[firstToken]
	follows := known != nil && slices.Contains(firstTokenTypes, kind)
	switch {
	case given == nil:
		return !follows
	case follows && bytes.Equal(known, given):
		delete(data, firstToken)
	default:
		c.values[firstToken] = given
	}
	return true
}

// addFirstToken reverses dropFirstToken.
func (c *codec) addFirstToken(kind string, data object) {
	switch given := data[firstToken]; {
	case given != nil:
		c.values[firstToken] = given
	case c.values[firstToken] != nil && slices.Contains(firstTokenTypes, kind):
		data[firstToken] = c.values[firstToken]
	}
}

// restoreData reverses shortenData.
func (c *codec) restoreData(kind string, raw []byte, same []string) (json.RawMessage, error) {
	data, ok := objectOf(raw)
	if !ok {
		return nil, fmt.Errorf("the data is not an object")
	}
	for key, of := range idFields[kind] {
		if key == "message" {
			message, ok := objectOf(data[key])
			if !ok {
				return nil, fmt.Errorf("the data has no message")
			}
			c.addID(message, "id", of)
			data[key] = encoded(message)
			continue
		}
		c.addID(data, key, of)
	}
	c.addFirstToken(kind, data)
	for _, field := range sameFields {
		if slices.Contains(same, field.key) {
			if data[field.key] = c.values[field.value]; data[field.key] == nil {
				return nil, fmt.Errorf("no event before has the value of %s", field.key)
			}
		} else if value, ok := data[field.key]; ok {
			c.values[field.value] = value
		}
	}
	c.remember(kind, textOf(kind, data))
	return encoded(data), nil
}

func (c *codec) addID(data object, key string, of idKind) {
	if _, ok := data[key]; !ok {
		data[key] = c.id(of)
	}
}

// id is the JSON form of an id that follows from Turn and step.
func (c *codec) id(of idKind) json.RawMessage {
	if of == messageID {
		return encoded(event.MessageID(c.turn, c.step))
	}
	return encoded(string(c.turn))
}

// remember keeps the text of a message, which later events repeat.
func (c *codec) remember(kind string, text json.RawMessage) {
	switch {
	case text == nil:
	case kind == event.TypeInputMessage:
		c.values[sameInput] = text
	default:
		c.values[sameText] = text
	}
}

// textOf is the text of an event's message, if that is a single text.
func textOf(kind string, data object) json.RawMessage {
	if kind != event.TypeInputMessage && kind != event.TypeOutputMessageCompleted {
		return nil
	}
	var message struct {
		Content []struct {
			Text json.RawMessage `json:"text"`
		} `json:"content"`
	}
	if json.Unmarshal(data["message"], &message) != nil || len(message.Content) != 1 {
		return nil
	}
	return message.Content[0].Text
}

// encoded is for values that were decoded, and for strings.
func encoded(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encoding %T: %v", v, err))
	}
	return raw
}
