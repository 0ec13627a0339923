// Package result is the wire format between the launcher, which runs a tool inside its container, and the manager,
// which reads its outcome. It imports only the standard library, so that the launcher stays small.
//
// The launcher reports in the container's termination message, which arrives with the pod's status: one line of JSON,
// the header, and then the body. The body is the result of a tool that succeeded, or the end of stderr of one that did
// not. A result that does not fit, or that a kubelet might shorten, is written to the container's log as well, as a
// frame: a line that has the header's nonce and the length, and then the bytes. The nonce is drawn after every process
// of the tool has ended, so that no output of the tool in the log can pass for a frame; the header's digest covers the
// bytes.
package result
