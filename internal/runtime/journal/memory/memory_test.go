package memory_test

import (
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/journaltest"
	"github.com/capstan-dev/capstan/internal/runtime/journal/memory"
)

func TestMemoryIsALog(t *testing.T) {
	journaltest.Run(t, func(*testing.T) journal.Store { return memory.New() })
}
