// Package leader elects the manager that runs the controllers.
//
// It is client-go's election on a Lease, with one difference: a Lease whose holder is known to have ended is free.
// Otherwise the successor of a killed manager would wait until the Lease expires. Two active managers do no harm: the
// journal decides every race.
package leader
