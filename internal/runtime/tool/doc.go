// Package tool is what the runtime knows about tool calls: it checks arguments, computes fingerprints, decides which
// calls of a step may start, builds the Job of a call, and reads from that Job's pod what became of it.
//
// Everything here is a function of its arguments: no client, no clock. The one exception is Validator, which caches
// compiled schemas. Package result holds the wire format that the launcher in the pod and this package share.
//
// A call ends in exactly one of four ways, and they are kept apart all the way to the model: it gave a result or an
// error (Succeeded, Failed), it never started (NotExecuted), or it started and nobody can know what became of it
// (Unknown). A tool that ran to its end but whose output is lost has Failed with ReasonOutputLost.
package tool
