// Package invocation carries out tool calls in the process that runs their Turn: those of the executors in its
// packages, and Jobs that a function replaces. A call that must not start twice is claimed in the journal before it
// starts, and its outcome is appended when it ends. What follows from the outcome is decided in package act.
package invocation
