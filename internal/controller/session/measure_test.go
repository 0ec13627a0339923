package session

import (
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

// Rules: IMG-03. A conversation with stored images is larger than its journal, and one behind a compaction smaller.
func TestTheSizeOfAConversationIsRecorded(t *testing.T) {
	for conversation, want := range map[int64]int64{100: 0, 20: 20, 5 << 20: 5 << 20} {
		got := measured(&journal.View{Head: 7, Bytes: 100, Conversation: conversation})
		if got != (v1alpha1.JournalStatus{Head: 7, Bytes: 100, ConversationBytes: want}) {
			t.Errorf("a conversation of %d bytes is recorded as %+v", conversation, got)
		}
	}
}
