package journal

import "github.com/capstan-dev/capstan/internal/runtime/journal/format"

// The content of entries, and the name of a journal. Package format has them, with the encoding.
type (
	// Session names a journal.
	Session = format.Session
	// Entry is one entry of a journal.
	Entry = format.Entry
	// PinnedContext is the part of a Turn's prompts beside the messages.
	PinnedContext = format.PinnedContext
	// Compaction shortens the conversation that later prompts are made of.
	Compaction = format.Compaction
	// ContextRef is where a journal has the context that it had last.
	ContextRef = format.ContextRef
	// PlannedCall holds the large fields of a tool call that a reason step planned.
	PlannedCall = format.PlannedCall
	// ClaimedCall is the intent to start a call that must start at most once (DUR-01).
	ClaimedCall = format.ClaimedCall
	// SettledCall is the outcome of one call, recorded before the step closes.
	SettledCall = format.SettledCall
	// AskedInput is what a tool asks before it continues with a call.
	AskedInput = format.AskedInput
	// AnsweredInput is the answer to one question.
	AnsweredInput = format.AnsweredInput
	// SettledRef is where a journal has the outcome of a call.
	SettledRef = format.SettledRef
	// ClaimRef is where a journal has the claim of a call.
	ClaimRef = format.ClaimRef
	// HookRun is the outcome of one hook.
	HookRun = format.HookRun
	// HookedPrompt is a message after its hooks.
	HookedPrompt = format.HookedPrompt
	// HookedEnd shows that the hooks at the end of a Turn have run.
	HookedEnd = format.HookedEnd
	// HookedResponse is a part of a response whose calls hooks look at.
	HookedResponse = format.HookedResponse
	// PartialAnswer is a part of a response that is still streaming (PART-01).
	PartialAnswer = format.PartialAnswer
	// PartialContent is the kind of a part of a response.
	PartialContent = format.PartialContent
	// RecordedTurn is a Turn whose first step, or whose message, is in the journal.
	RecordedTurn = format.RecordedTurn
	// Checkpoint summarizes the entries from an ordinal to the checkpoint itself.
	Checkpoint = format.Checkpoint
)

const (
	// PartialContentText: more text of the response has arrived.
	PartialContentText = format.PartialContentText
	// PartialContentDiscarded: the text of the earlier parts is not the response.
	PartialContentDiscarded = format.PartialContentDiscarded
	// Format is the version of the form that entries are written in.
	Format = format.Version
)

// ErrFormat reports an entry that a later build has written, in a form that this one does not know. Nothing is
// concluded from it.
var ErrFormat = format.ErrUnknown
