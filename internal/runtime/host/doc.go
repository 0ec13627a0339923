// Package host runs the steps of a Turn: it reads the log, calls the model, folds tool results, asks the planner what
// happens next, and appends the one entry that closes the step. It knows nothing of reconcilers and watches.
//
// Every function that closes a step returns the entry that closed it, which may be another writer's: whoever appended
// it has decided, and the caller adopts it (invariant 2).
package host
