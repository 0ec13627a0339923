// Package executor has the interface of the executors whose calls the process of a Turn carries out. Each is a package
// beside this one: it prepares calls, and leaves claims, outcomes in the journal and repetitions to package invocation.
package executor
