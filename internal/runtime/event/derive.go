package event

import (
	"encoding/json"
	"fmt"
)

// MessageOf returns the message that an event stands for (MSG-02): the message of input.message and
// output.message.completed, the tool result of tool.completed or tool.rate_limited, and none (false) for any other. It
// is an error if the event's data does not match its type.
func MessageOf(e Event) (Message, bool, error) {
	switch e.Type {
	case TypeInputMessage:
		var data InputMessage
		if err := decode(e, &data); err != nil {
			return Message{}, false, err
		}
		return tidy(data.Message), true, nil
	case TypeOutputMessageCompleted:
		var data OutputMessageCompleted
		if err := decode(e, &data); err != nil {
			return Message{}, false, err
		}
		return tidy(data.Message), true, nil
	case TypeToolCompleted:
		var data ToolCompleted
		if err := decode(e, &data); err != nil {
			return Message{}, false, err
		}
		return toolResult(e.ID, data), true, nil
	case TypeToolRateLimited:
		var data ToolRateLimited
		if err := decode(e, &data); err != nil {
			return Message{}, false, err
		}
		return toolResult(e.ID, ToolCompleted{
			ToolCallID: data.ToolCallID, ToolName: data.ToolName, Error: data.Error, Fence: data.Fence,
		}), true, nil
	default:
		return Message{}, false, nil
	}
}

// MessagesOf are the messages of events, in order.
func MessagesOf(events []Event) ([]Message, error) {
	var messages []Message
	for _, e := range events {
		m, ok, err := MessageOf(e)
		if err != nil {
			return nil, err
		}
		if ok {
			messages = append(messages, m)
		}
	}
	return messages, nil
}

// Decode reads the data of an event into the struct of its type.
func Decode[T any](e Event) (T, error) {
	var data T
	err := decode(e, &data)
	return data, err
}

func decode(e Event, into any) error {
	if e.Data == nil {
		return fmt.Errorf("event %s of type %s has no data", e.ID, e.Type)
	}
	if err := json.Unmarshal(e.Data.Raw, into); err != nil {
		return fmt.Errorf("reading the data of event %s of type %s: %w", e.ID, e.Type, err)
	}
	return nil
}

// toolResult makes the message of a tool's outcome (MSG-03): its text parts and those images that have both bytes and
// media type, or that are stored, in order. An error is kept beside images (GAP-25).
func toolResult(id string, data ToolCompleted) Message {
	m := Message{
		ID:         id,
		Role:       RoleToolResult,
		ToolCallID: data.ToolCallID,
		ToolName:   data.ToolName,
		Error:      data.Error,
		Fence:      data.Fence,
	}
	if data.Result == nil {
		return m
	}
	m.Content = make([]Part, 0, len(data.Result))
	for _, p := range data.Result {
		switch {
		case p.Type == PartText:
			m.Content = append(m.Content, Text(p.Text))
		case p.Type == PartImage && p.ImageID != "":
			m.Content = append(m.Content, Part{
				Type: PartImage, MediaType: p.MediaType, ImageID: p.ImageID, ImageBytes: p.ImageBytes,
			})
		case p.Type == PartImage && p.Base64 != "" && p.MediaType != "":
			m.Content = append(m.Content, Part{Type: PartImage, Base64: p.Base64, MediaType: p.MediaType})
		}
	}
	return m
}

// tidy brings a message into the form that it also has after being written and read again.
func tidy(m Message) Message {
	if len(m.ToolCalls) == 0 {
		m.ToolCalls = nil
	}
	if len(m.Metadata) == 0 {
		m.Metadata = nil
	}
	return m
}
