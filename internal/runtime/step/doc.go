// Package step runs the steps of a Turn: it reads the journal, has a response made, collects the outcomes of tool
// calls, and appends the one entry that closes the step. It waits, reads and writes; what it decides with is in
// packages plan, act and turnstate. Package prompt composes the request to a model, package modelcall calls it, and
// package invocation carries out tool calls. It does not depend on reconcilers or watches.
//
// Every function that closes a step returns the entry that closed it, which may be another writer's: the writer of that
// entry has decided, and the caller adopts it (invariant 2).
package step
