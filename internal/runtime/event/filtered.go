package event

import "slices"

// MetadataPromptFiltered marks an assistant message that says nothing, because a filter of the provider refused what
// had come since the message of the model before it.
const MetadataPromptFiltered = "prompt_filtered"

// noteFiltered stands in a prompt for what a filter refused. The journal keeps the original.
const noteFiltered = "(Left out: a content filter of the provider refused this text.)"

// WithoutFiltered replaces what a filter refused by a note, so that it does not stop every later request of the
// Session. That is the messages of the user and the tool results before a message with MetadataPromptFiltered, back to
// the message of the model before it. The given messages do not change.
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
