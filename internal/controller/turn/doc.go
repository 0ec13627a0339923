// Package turn reconciles Turns: it advances the plan in a Turn's status step by step, as the entries of the Session's
// journal determine.
//
// A pass reads as a list of phases over a scope. Each phase either proceeds to the next one, changes the status and
// starts the pass over, or stops until an event wakes the Turn: a watch event, the end of an activity, a deadline.
// Nothing polls.
//
// The state that survives a crash is in the Turn's status and in the journal. The memory of the process (memory.go)
// only saves reads and repeated work; losing it changes nothing.
package turn
