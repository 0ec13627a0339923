// Package memory has what a model remembers (SVC-03): short texts with a kind and tags, on a store of package record.
//
// # Parts
//
// A store has 64 parts. A memory belongs to the part that its id hashes to, and a part is one value of the store, so
// that a change reads and writes one part, and a recall reads as many values as there are parts and not as there are
// memories. Each item of the index counts the active memories of its part, so that counting reads the index alone.
//
// # Exactly once
//
// A change carries the cause of its call, by which the store of records carries it out once and returns the first
// result to a repeated call. A memory is named by a hash of that cause.
package memory
