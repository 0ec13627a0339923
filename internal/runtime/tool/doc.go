// Package tool has the code that the calls of all tools share: fingerprints and limits, outcomes, and the texts in
// which a model learns of them. Packages jobspec and jobstatus build and read the Jobs of calls,
// package httpcall their requests, and package builtin runs the tools that are part of the manager.
//
// Everything here is a function of its arguments: no client, no clock.
//
// A call ends in exactly one of four ways, which the model can distinguish: it returned a result or an error
// (Succeeded, Failed), it never started (NotExecuted), or it started and its outcome cannot be determined (Unknown). A
// tool that ran to its end but whose output is lost has Failed with v1alpha1.ToolCallReasonOutputLost.
package tool
