package event

import "slices"

// MetadataPromptFiltered marks an empty assistant message: a filter of the provider refused the messages since the
// previous message of the model.
const MetadataPromptFiltered = "prompt_filtered"

// noteFiltered replaces a text that a filter refused in a prompt. The journal keeps the original.
const noteFiltered = "(Left out: a content filter of the provider refused this text.)"

// WithoutFiltered replaces messages that a filter refused by a note, so that they do not block every later request of
// the Session: the user messages and the tool results before a message with MetadataPromptFiltered, back to the
// previous message of the model. The given messages do not change.
func WithoutFiltered(messages []Message) []Message {
	kept := messages
	for i, m := range messages {
		if m.Role != RoleAssistant || m.Metadata[MetadataPromptFiltered] != true {
			continue
		}
		if &kept[0] == &messages[0] {
			kept = slices.Clone(messages)
		}
		for j := i - 1; j >= 0 && messages[j].Role != RoleAssistant; j-- {
			kept[j].Content, kept[j].Error = []Part{Text(noteFiltered)}, ""
		}
	}
	return kept
}
