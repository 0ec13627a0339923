// Package leader elects the manager that runs the controllers.
//
// It is client-go's election on a Lease, with one difference: a Lease whose holder is known to have ended is free.
// Otherwise the successor of a killed manager would wait until the Lease expires. A manager exits when it finds that
// another one holds its Lease. Until then, for a RetryPeriod or the time for which it was paused, both are active: the
// journal decides their races, no AtMostOnce call starts twice, and both may make the same model call.
package leader
