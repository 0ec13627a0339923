// Package hook decides what the hooks of a Session do: which of them run at an event, what they receive, what their
// outcomes mean, and what several outcomes together make of a message, a tool call or its result. It is pure but for
// the executors that it calls: the packages cel, webhook and bash.
//
// A tenant writes hooks, so everything about them is bounded before it is decoded or compiled.
package hook
