// Package tool implements tool calls: it checks arguments, computes fingerprints, decides which calls of a step may
// start, builds the Job of a call, and reads the call's outcome from that Job's pod.
//
// Everything here is a function of its arguments: no client, no clock. The one exception is Validator, which caches
// compiled schemas. Package result holds the wire format that the launcher in the pod and this package share.
//
// A call ends in exactly one of four ways, which the model can distinguish: it returned a result or an error
// (Succeeded, Failed), it never started (NotExecuted), or it started and its outcome cannot be determined (Unknown). A
// tool that ran to its end but whose output is lost has Failed with v1alpha1.ToolCallReasonOutputLost.
package tool
