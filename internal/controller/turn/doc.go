// Package turn reconciles Turns: it advances the plan in a Turn's status, step by step, as the entries of the Session's
// log decide.
//
// A pass reads as a list of phases over a scope. Each phase either leaves the Turn to the next one, changes the status
// and starts the pass over, or stops until something wakes the Turn: a watch event, the end of an activity, a deadline.
// Nothing polls.
//
// What survives a crash is in the Turn's status and in the log. What this process remembers besides (memory.go) saves
// reads and repeated work; losing it changes nothing.
package turn
