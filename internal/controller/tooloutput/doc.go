// Package tooloutput follows the logs of running tool containers while a Session has subscribers, and passes on what
// the tools write to stderr. Nothing is written, and no log is followed without a subscriber.
//
// All is bounded: the logs that are followed at once, in total, for a namespace and for a Session; the bytes of a call,
// of a piece, and per second. Places and bytes are divided between namespaces. A tool that writes faster than it is
// passed on is not held up: its log is kept by its node.
package tooloutput
