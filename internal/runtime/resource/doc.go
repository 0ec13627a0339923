// Package resource has the registry of the resources of a Session (RES-01), such as sandboxes, browsers or virtual
// machines, on a store of package record.
//
// The registry describes resources. It starts and deletes none of them, and has none of their secrets. A change carries
// a cause, by which it happens once, whatever fails: a repeated change returns the first result. The entries, their
// metadata and their number are bounded for each Session.
package resource
