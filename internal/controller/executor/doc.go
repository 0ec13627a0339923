// Package executor runs the slow work of Turns (model calls, log reads) outside the reconcile workers: bounded,
// cancellable, keyed, and waking the Turn at each end. The results of an activity are in the Session's journal, never
// only here: an executor that dies with its process loses nothing.
package executor
