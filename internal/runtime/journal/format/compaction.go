package format

import "github.com/capstan-dev/capstan/internal/runtime/event"

// compaction is a Compaction as format 2 stores it. The summary is a message as it is in events.
type compaction struct {
	KeptFrom     string         `json:"keptFrom,omitempty"`
	Pinned       string         `json:"pinned,omitempty"`
	MaskedBefore string         `json:"maskedBefore,omitempty"`
	Summary      *event.Message `json:"summary,omitempty"`
}
