// Package sqlite runs SQL on the file of one database in memory. It is the only package that has the engine: SQLite,
// translated from WebAssembly to Go, so that a defect of the engine stays within its own bounded memory.
//
// Three things hold SQL back, each of them alone. The authorizer permits what this package lists; the engine has no
// file system but the one file, no extensions and fixed limits; and the process that runs it is confined by package
// runner.
package sqlite
