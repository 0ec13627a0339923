// Package plan decides how a Turn begins, what follows each of its steps, and how it ends. The in-process runtime and
// the controllers make these decisions here, through package step.
//
// What a Turn carries from one step to the next is the TurnProgress in its status (TURN-01). Its plan is the open step:
// a model call, tool calls, or none in a Turn that has ended (TURN-02, SM-01). Each function takes the progress before
// a step is closed, changes nothing of it, and returns the one after it, without the texts and tool calls that the
// caller adds in the room that the status has for them. The functions read no clock, do no I/O and import only the API,
// so that a decision that is made again after a crash is the same.
//
//   - Begin opens the first step (TURN-04).
//   - AfterReason decides what follows a model call (TURN-06 to TURN-08, TURN-14).
//   - AfterAct decides what follows tool calls, and Waits whether client tools are waited for (TURN-11, TURN-12).
//   - Fail and Cancel end a Turn in any step (TURN-09).
//   - NeverBegan is a Turn that ends before its first step.
//
// # Deviations
//
// The behaviour specification describes two runtimes that differ from each other. This package departs from it here:
//
//   - SM-03(a): a Turn that finishes by itself in the last permitted iteration stops with EndTurn. Only a Turn that
//     needed another model call, for tool results or a message, stops with MaxTurnRequests (GAP-03).
//   - TURN-08: the usage of a Turn is that of all its model calls, not that of the last one (GAP-13).
//   - TURN-10: the code of a failure comes with the error (model.CodeOf). No text is classified.
//   - TURN-11: the Turn waits for client tools unless the Session has the policy FollowHints (GAP-06).
//   - TURN-01, TURN-06, TURN-07 and SM-06: the id of the last response is not carried along. No provider stores
//     anything, so that each request has the whole conversation.
//   - SM-04: a Turn that fails keeps the count of its tool calls.
package plan
