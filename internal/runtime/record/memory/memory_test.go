package memory_test

import (
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/memory/memorytest"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/record/memory"
	"github.com/capstan-dev/capstan/internal/runtime/record/recordtest"
	"github.com/capstan-dev/capstan/internal/runtime/sessionimage/imagetest"
)

func TestMemoryIsAStore(t *testing.T) {
	recordtest.Run(t, func(*testing.T) record.Objects { return memory.New() })
}

// Rules: SVC-03.
func TestMemoryKeepsMemories(t *testing.T) {
	memorytest.Run(t, func(*testing.T) record.Objects { return memory.New() })
}

// Rules: IMG-01.
func TestMemoryKeepsImages(t *testing.T) {
	imagetest.Run(t, func(*testing.T) record.Objects { return memory.New() })
}
