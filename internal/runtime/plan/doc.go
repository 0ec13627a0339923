// Package plan decides what a turn does next.
//
// It is a function of three things: the state a turn carries between its steps, what the step that just ended
// observed, and the clock reading it is given. It performs no I/O, reads no clock, writes no log and imports only the
// standard library, so a decision can be repeated after a crash and gives the same answer.
//
// There are two ways in, and one core behind both:
//
//   - Next takes the name of the finished activity and its raw JSON output. Hosts that persist a turn between steps use
//     it (TURN-03 to TURN-14).
//   - Machine holds one turn in memory and is fed typed results. It is SM-01 to SM-08 in a form that tests can run; no
//     host uses it, for the in-process runtime carries out the same steps as the controllers.
//
// Both call AfterInput, AfterReason and AfterAct, so that they can not disagree about limits, failures or waiting. A
// step ends in an Outcome: one Plan, and the lifecycle Effects that the host applies in the order given. Fail, FailAs
// and Cancel close a turn from any phase when no step result will come any more.
//
// # Deviations
//
// The behaviour specification describes two runtimes that differ from each other and have known gaps. This package
// departs from it in these points, each of which has a test:
//
//   - SM-03(a), vector 10: a turn that finishes by itself on the last allowed iteration is a success with stop reason
//     EndTurn. Only a turn that wanted to go on (tool calls, or steering messages) and was not allowed to is reported
//     as having reached the limit (GAP-03).
//   - SM-02, SM-06: a reason result that says it has tool calls but lists none schedules an act step in both runtimes,
//     as TURN-06 says; the machine of SM-02 would complete.
//   - SM-07: the machine honours the act result. A blocked act ends the turn, and a wait for tool results is returned
//     as the action Wait (GAP-05, GAP-06).
//   - SM-08: a turn that fails in-process carries the same classification as one that fails on the planner path, and
//     its turn.failed carries the user-facing text.
//   - TURN-08: usage in turn.completed and session.idled is that of the whole turn, not of the last call (GAP-13).
//   - TURN-11: the wait for tool results is taken whenever the act step asks for it; the rule with the session hint
//     applies under the policy FollowHints only (GAP-06).
//   - A failed reason step without an error string fails the turn with GenericError (SM-03(b), GAP-07).
//   - A turn without an id is not given a fresh one at every step: Next refuses to plan past process_input (GAP-17).
//   - The texts that providers use for a quota that is used up are recognised before those for a rate limit; ERR-02 has
//     the code but no rule for it.
//   - A max_iterations of 0 counts as not set.
package plan
