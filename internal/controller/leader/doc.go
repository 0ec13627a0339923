// Package leader elects the one manager that works.
//
// It is client-go's election on a Lease, with one difference: a Lease whose holder is known to have ended is free.
// Without that, a manager that was killed keeps its successor waiting until the Lease runs out. Two managers at once do
// no harm: the journal decides every race.
package leader
