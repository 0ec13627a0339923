//go:build !cgo

package runner

// libraryThreads is 0: the runtime takes the stacks of its threads from its heap.
const libraryThreads = 0
