package step

import (
	"regexp"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/plan"
)

// TestAProviderKnowsASessionByAPseudonym: the same for all its Turns, another for another Session, and a hash alone.
// Rules: LLM-10.
func TestAProviderKnowsASessionByAPseudonym(t *testing.T) {
	b := newBench(t)
	_, closed := b.reason(newTurn("demo-1"), with())
	next := newTurn("demo-2")
	next.Ref.UID, next.Progress = "uid-2", plan.Begin(closed.Ordinal+1, b.micro())
	b.reason(next, with())
	first, second := b.asked[0].User, b.asked[1].User
	if first != second || !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(first) {
		t.Errorf("the provider gets %q and %q", first, second)
	}
	other := newTurn("demo-1")
	other.Session.UID, other.Ref.UID = "other-uid", "uid-3"
	b.reason(other, with())
	renamed := newTurn("demo-3")
	renamed.Session.Namespace, renamed.Session.Name = "other", "renamed"
	renamed.Ref.UID, renamed.Progress = "uid-4", plan.Begin(closed.Ordinal+2, b.micro())
	b.reason(renamed, with())
	if third, fourth := b.asked[2].User, b.asked[3].User; third == first || fourth != first {
		t.Errorf("the pseudonyms are %s, of another Session %s, under another name %s", first, third, fourth)
	}
}
