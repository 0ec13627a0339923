// Package jobstatus reads the state of a tool call from its Job and the Job's pod, and its result from the log of the
// pod's container. It has no client and no clock.
package jobstatus
