// Package leader elects the manager that runs the controllers.
//
// It is client-go's election on a Lease, with one difference: a Lease whose holder is known to have ended is free.
// Otherwise the successor of a killed manager would wait until the Lease expires. A manager that finds its Lease with
// another one ends. Until then, which is a RetryPeriod or the time for which it was paused, two act: the journal
// decides their races, no AtMostOnce call starts twice, and a model call may be made by both.
package leader
