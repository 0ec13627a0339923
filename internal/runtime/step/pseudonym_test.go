package step

import (
	"regexp"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/journal"
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
		t.Errorf("the provider is told %q and %q", first, second)
	}
	same := journal.Session{Namespace: "other", Name: "renamed", UID: session.UID}
	other := journal.Session{Namespace: session.Namespace, Name: session.Name, UID: "other-uid"}
	if pseudonym(same) != first || pseudonym(other) == first {
		t.Errorf("the pseudonyms are %s, %s and %s", first, pseudonym(same), pseudonym(other))
	}
}
