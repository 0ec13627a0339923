package fairshare

import (
	"math"
	"testing"
)

func TestTheLargestConversationIsTheLastThatFits(t *testing.T) {
	for _, total := range []int64{16 << 20, 100 << 20, 1 << 30} {
		p := NewPool(Options{Total: Amount{Places: 256, Bytes: total}})
		largest := LargestConversation(p.Ceiling().Bytes)
		if largest <= 0 || ConversationBytes(largest) > p.Ceiling().Bytes ||
			ConversationBytes(largest+1) <= p.Ceiling().Bytes {
			t.Errorf("of %d bytes, %d fit", total, largest)
		}
	}
	if LargestConversation(1) != 0 || ConversationBytes(-1) != ConversationBytes(0) ||
		ConversationBytes(math.MaxInt64) < 1<<59 {
		t.Error("the extremes")
	}
}
