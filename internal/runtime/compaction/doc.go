// Package compaction decides when and how a conversation is shortened for the models that read it (LLM-08). The
// functions do no I/O and read no clock. Package step carries the decisions out, and package journal applies their
// record.
//
// Nothing is removed from the journal. A compaction counts for later prompts: tool results are replaced by notes, or
// the older messages by a summary. It never separates a tool call from its result, or reasoning from its message,
// because it cuts before whole messages that are not tool results; when a model is about to be called, no call of the
// Turn is open.
//
// Providers have compaction of their own. It is not used: what it returns is opaque, and only the model that wrote it
// can read it, so that a fallback, another Model or another key would lose the conversation (and so would its readers).
package compaction
