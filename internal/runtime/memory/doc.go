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
// A memory is named by a hash of its cause, and one that is forgotten has that of the cause which forgot it. So a
// change that is repeated finds what it has done before, also in a store that several Sessions share, whose steps have
// no common order. A forgotten memory stays for at least an hour, longer than a call can be repeated.
package memory
