// Package sessionfs is the filesystem of a Session (FS-01 to FS-07), on a store of package record. It has files and
// directories by absolute paths with slashes, and nothing of the host.
//
// A change carries a cause, by which it happens once, whatever fails: a repeated change returns the first result. The
// directories above a file are created with it. A file may be read-only; then it cannot be written or deleted.
//
// A file is known by its path. It has no other identifier (FS-07). A host does not select the filesystem (FS-06), but
// the store.
package sessionfs
