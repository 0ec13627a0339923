// Package act decides what an open act step does (PHASE-06, TOOL-12, TOOL-13). It is pure: it calls no client and reads
// no clock. A driver, which is the Turn reconciler or the in-process runtime, observes Jobs, requests, ToolResults and
// the journal, passes the observations in together with the time, and carries out the resulting actions.
//
// A Step has one Row per call, with the knowledge of a process about it. Nothing in a Row is the only copy of a fact
// that a decision depends on: a new process reads it again from the journal, the status, a pod or a ToolResult, or
// produces it again without an effect that must not repeat (invariant 3).
package act
