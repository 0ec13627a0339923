// Package result is the wire format between the launcher, which runs a tool inside its container, and the manager,
// which reads what became of it. It imports the standard library only, so that the launcher stays small.
//
// The launcher reports in the container's termination message, which arrives with the pod's status: one line of JSON,
// the header, and then the body. The body is the result of a tool that succeeded, or the end of stderr of one that did
// not. A result that does not fit, or that a kubelet might shorten, is written to the container's log as well, as a
// frame: a line that carries the header's nonce and the length, and then the bytes. The nonce is drawn after every
// process of the tool has ended, so nothing that the tool wrote to the log can pass for a frame; the header's digest
// covers the bytes.
package result
