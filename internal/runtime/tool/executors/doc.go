// Package executors registers the executors of tools: their carriers, the field of a Tool that chooses them, and their
// defaults. All other code that works with calls uses the registry. How calls are carried out is not here:
// the executors of the process are packages of internal/runtime/invocation, and Jobs are those of package jobspec.
package executors
