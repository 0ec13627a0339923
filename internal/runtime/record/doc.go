// Package record stores the data of the services of a Session: its files, for example. A store belongs to a scope, a
// Session, and has a name. It has keys with values, and changes only by operations, each of which is atomic.
//
// # Index and blobs
//
// A store is one index and a number of blobs. The index has the keys with their revisions and sizes, and small values
// themselves; a larger value is a blob, which never changes. Every operation is one compare-and-set of the index. Blobs
// are written before it and deleted after it, so that an index never refers to a blob that is missing: a reader that
// finds one missing has an old index. So listing and searching keys reads one object, and blobs are never listed.
//
// The name of the blob of a value is a hash of its key and its content, and of the cause of the operation that wrote
// it. By its content alone, an operation could write a value again that another one is about to delete. A process that
// dies between a blob and the index leaves the blob behind; the same operation, when it is repeated, uses it. Otherwise
// it goes with the Session.
//
// An index of more keys than one object holds has pages: blobs with the items of the keys whose hash they are for, and
// an index that names them. An operation writes the pages of the keys that it changes before the index, which is still
// the one object that decides, and deletes those that it replaces. The index names these too, until it is known that
// they are deleted, so that a process that ends in between leaves them to the next operation. Each page has a random
// name, so that no process deletes a page that another one has committed for the same operation.
//
// An operation deletes the pages that its tries have written in vain, once no write of them can take effect any more.
// Those of a process that ends before, or that cannot find out, go with the Session.
//
// An index gets pages when it has no room in one object, and keeps them until it has 512 keys or fewer and room again,
// so that a few operations do not split and join it in turns. Without pages it has the form that it always had.
//
// # Causes
//
// An operation names its cause, and the index keeps its outcome: a repeated operation changes nothing and gets the
// first outcome. So an operation whose outcome is lost, with its response or with its process, can be repeated. The
// outcomes of a step are kept until an operation of a later step. An operation of an earlier step is then refused: it
// is that of a process that has been overtaken. An operation that belongs to no step happens once in the life of the
// store.
//
// # Bounds
//
// Keys, values, their number and the size of a store are bounded, and an object is bounded before it is decoded. The
// bytes that are written per second are divided between namespaces, because etcd keeps every version for minutes.
//
// A namespace bounds all of its stores together. The index of a store with pages has the size of all values, so that a
// store is counted by one object. One that this build cannot read counts as the largest store, and stops no other one.
package record
