package inprocess

import (
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/record/memory"
)

// RecordStore stores the files of Sessions. NewMemoryRecords returns one.
type RecordStore = record.Objects

// NewMemoryRecords is an empty RecordStore that is lost with the process. Several Runtimes may share it, one after
// another or at once, as they share a Store.
func NewMemoryRecords() RecordStore {
	return memory.New()
}
