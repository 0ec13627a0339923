//go:build cgo

package runner

// libraryThreads is how many threads the process starts before its memory is limited. The C library takes a stack of
// 8 MiB for each, which counts as data although hardly any of it is used: a busy machine, on which the runtime starts
// further threads, must not leave a script less memory.
const libraryThreads = 8
