// Package turnstate has the state of a Turn as a value, and the pure functions over it: what objects of the API become
// as that value, how it changes, and what the status shows of it. Code that waits, reads or writes belongs in package
// step: no function here takes a context, a client or the journal, and none reads a clock.
//
// Turn, Config and Steer carry functions that read what a cache has left out. Only package step calls them.
//
// The conditions of a status follow from its progress alone (invariant 3): every process shows the same, however often
// it computes it.
package turnstate
