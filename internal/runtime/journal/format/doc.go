// Package format has the content of journal entries, and its encoding in JournalEntry objects.
//
// The API type holds an envelope and an opaque payload. The payload has Go types of its own for each version, which do
// not change with Turn.status: an entry can never be written again. Encode writes the newest one. Decode reads
// every version that any build has written:
//
//   - Format 1 has the payload's fields beside those of the envelope.
//   - Format 2 has them in the payload, which repeats nothing of the envelope: ids, times and the context of
//     events are left out where they follow from it, and values where an event before has them.
//   - Format 3 is format 2 with the payload compressed in one string. An entry that this would not make shorter keeps
//     format 2.
//
// An entry of a later version, with an unknown field or without any content is not guessed at: Decode returns
// ErrUnknown.
package format
