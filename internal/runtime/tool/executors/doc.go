// Package executors registers the executors of tools: what carries out their calls, which field of a Tool chooses them,
// and their defaults. All other code that works with calls asks the registry. How calls are carried out is not here:
// the executors of the process are packages of internal/runtime/invocation, and Jobs are those of package jobspec.
package executors
