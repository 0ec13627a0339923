package live

import (
	"fmt"
	"testing"
)

// seen collects what a watcher receives.
type seen []string

func (s *seen) receive(at Snapshot) {
	*s = append(*s, fmt.Sprintf("%s %d %q %t", at.Message, at.Attempt, at.Text, at.Ended))
}

func (s *seen) expect(t *testing.T, want ...string) {
	t.Helper()
	if fmt.Sprint(*s) != fmt.Sprint(want) {
		t.Errorf("received\n%s\nnot\n%s", *s, want)
	}
}

// Rules: LLM-04.
func TestOneThatJoinsGetsTheTextSoFar(t *testing.T) {
	b, first, late := &Bus{}, seen{}, seen{}
	end := b.Watch("a", first.receive)
	r := b.Respond(Response{UID: "a", Message: "m"})
	r.Write("one")
	r.Write("one")
	endLate := b.Watch("a", late.receive)
	r.Write("one two")
	r.Replace()
	end()
	r.Write("three")
	r.End()
	r.Write("four")
	first.expect(t, `m 1 "one" false`, `m 1 "one two" false`, `m 2 "" false`)
	late.expect(t, `m 1 "one" false`, `m 1 "one two" false`, `m 2 "" false`, `m 2 "three" false`, `m 2 "three" true`)
	endLate()
	if len(b.texts.of)+len(b.texts.watchers) != 0 {
		t.Errorf("the Bus keeps %v and %v", b.texts.of, b.texts.watchers)
	}
}

// Rules: LLM-04.
func TestAResponseThatWasFollowedByAnotherChangesNothing(t *testing.T) {
	b, all := &Bus{}, seen{}
	end := b.Watch("a", all.receive)
	defer end()
	old := b.Respond(Response{UID: "a", Message: "old"})
	young := b.Respond(Response{UID: "a", Message: "young"})
	young.Write("new")
	old.Write("old")
	old.End()
	all.expect(t, `young 2 "new" false`)
}
