// Package sessiondb has the SQL databases of Sessions (SVC-05). A Session has named databases; each is a SQLite file,
// in parts that are the values of a store of records.
//
// A call runs in a process of its own, outside of any operation on the store: it reads the parts that it needs of the
// file as an index of the store names it, and what it has changed is committed in one operation, which expects the
// revision that the call has read. So a call that fails, or whose process dies, changes nothing. If another call has
// committed meanwhile, this one runs again on the new file. The operation carries the cause of the call, so that a call
// that is repeated after a crash returns the first result and changes nothing again.
package sessiondb
