// Package memory measures memory in tests.
package memory

import "runtime"

// Allocated returns how many bytes a function allocates, whether they are freed or not. Other goroutines count as well.
func Allocated(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}
