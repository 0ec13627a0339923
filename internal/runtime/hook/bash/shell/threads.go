//go:build !cgo

package shell

// libraryThreads is 0: the runtime takes the stacks of its threads from its heap.
const libraryThreads = 0
