package provider

import (
	"strings"
	"testing"
)

func FuzzCallID(f *testing.F) {
	f.Add("toolu_01ABC", "call_1", 40)
	f.Add("", "é", 64)
	f.Add("functions.look:0", "functions.look:1", 9)
	f.Add(strings.Repeat("x", 100), strings.Repeat("x", 101), 40)
	f.Add("\xff", "\xfe", 40)
	f.Fuzz(func(t *testing.T, one, other string, longest int) {
		if longest < 9 || longest > 1000 {
			return // There is no provider whose ids are that short or long.
		}
		a, b := CallID(one, longest, Plain), CallID(other, longest, Plain)
		for _, id := range []string{a, b} {
			if id == "" || len(id) > longest || strings.ContainsFunc(id, func(r rune) bool { return !Plain(r) }) {
				t.Fatalf("%q and %q become %q and %q", one, other, a, b)
			}
		}
		if CallID(one, longest, Plain) != a || CallID(a, longest, Plain) != a {
			t.Fatalf("%q becomes %q, and then another", one, a)
		}
		if one != other && a == b && longest >= 40 && a != one && a != other {
			t.Fatalf("%q and %q both become %q", one, other, a)
		}
	})
}

func TestAValidCallIDStaysWhatItIs(t *testing.T) {
	for id, want := range map[string]bool{
		"call_1-A": true, strings.Repeat(
			"x", 40,
		): true, strings.Repeat("x", 41): false, "": false, "a b": false, "a.b": false, "é": false, "\xff": false,
	} {
		if got := CallID(id, 40, Plain) == id; got != want {
			t.Errorf("%q becomes %q", id, CallID(id, 40, Plain))
		}
	}
	anything := func(rune) bool { return true }
	if got := CallID("\xff", 40, anything); got == "\xff" {
		t.Error("an id that is not text is unchanged")
	}
}
