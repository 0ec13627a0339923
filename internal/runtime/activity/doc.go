// Package activity runs the slow work of Turns (model calls, log reads) outside the reconcile workers: bounded,
// cancellable, keyed, and reporting each end by waking its Turn. What an activity achieved is in the Session's log,
// never only here: an executor that dies with its process loses nothing.
package activity
