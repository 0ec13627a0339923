// Package fairshare divides the resources that all namespaces share: places for active Turns, for model calls and for
// tool requests, the memory of conversations in use, passes of the reconcilers, and requests to the API server.
//
// Free slots go to the namespace that would hold the least of the Pool with them (max-min); within a namespace, to
// Turns that continue before Turns that begin, and then in the order of arrival. A single namespace may hold all of a
// Pool but an eighth, so that another one that comes finds free slots at once; if an eighth is less than one, nothing
// is reserved.
//
// A request takes all that it needs in one step, or waits and holds nothing. The holder of a Share never waits for more
// of the same Pool: it gives the Share back first. So no two requests can wait for each other.
package fairshare
