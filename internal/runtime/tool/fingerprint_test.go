package tool

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/memory"
)

// Rules: DUR-06.
func TestAFingerprintIsTheSameForTheSameMeaning(t *testing.T) {
	for name, pair := range map[string][2]string{
		"white space":         {`{"a":1,"b":[true,null]}`, "\n{ \"a\" : 1,\t\"b\": [ true, null ] }\n"},
		"the order of keys":   {`{"a":1,"b":{"c":1,"d":2}}`, `{"b":{"d":2,"c":1},"a":1}`},
		"the intent":          {`{"a":1}`, `{"a":1,"human_intent":"to see what happens"}`},
		"another intent":      {`{"a":1,"human_intent":"x"}`, `{"a":1,"human_intent":"y"}`},
		"escapes":             {`{"a":"\u0041/"}`, `{"a":"A\/"}`},
		"blank and no object": {"", " {} "},
		"only the intent":     {`{"human_intent":"x"}`, `{}`},
	} {
		if one, two := Fingerprint("tool", pair[0]), Fingerprint("tool", pair[1]); one != two {
			t.Errorf("%s: %s and %s", name, one, two)
		}
	}
}

// Rules: DUR-06.
func TestAFingerprintDiffersForAnotherMeaning(t *testing.T) {
	seen := map[string]string{}
	for _, arguments := range []string{
		`{}`, `{"a":1}`, `{"a":2}`, `{"a":"1"}`, `{"a":1.0}`, `{"b":1}`, `{"a":[1,2]}`, `{"a":[2,1]}`,
		`{"a":{"human_intent":"x"}}`,
		`{"a":{"human_intent":"y"}}`, `[]`, `null`, `"x"`, `{"a":1`, `{"a":1}x`, `{"a":1} {}`, `not json`, `not  json`,
	} {
		fingerprint := Fingerprint("tool", arguments)
		if other, ok := seen[fingerprint]; ok {
			t.Errorf("%q and %q have the same fingerprint", arguments, other)
		}
		if len(fingerprint) != 64 {
			t.Errorf("%q has the fingerprint %q", arguments, fingerprint)
		}
		seen[fingerprint] = arguments
	}
	if Fingerprint("one", "{}") == Fingerprint("two", "{}") {
		t.Error("two tools have the same fingerprint")
	}
	if Fingerprint("a\x00text", "x") == Fingerprint("a", "text\x00x") {
		t.Error("parts can be moved between name and arguments")
	}
}

func TestAFingerprintNeverChanges(t *testing.T) {
	// It is compared with that of Jobs that an older manager made.
	const want = "37855b63ae26bd31e0a4aa7a9f7b94e63d2e436f0ceffda4366b74f06583bca0"
	if got := Fingerprint("word-count", `{"text": "four words in it"}`); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestTheIdempotencyKeyBelongsToTheCall(t *testing.T) {
	key := IdempotencyKey("turn-1", "1-0")
	if len(key) != 64 || key != IdempotencyKey("turn-1", "1-0") {
		t.Errorf("the key is %q", key)
	}
	for _, other := range []struct {
		turn types.UID
		call string
	}{{"turn-2", "1-0"}, {"turn-1", "1-1"}, {"turn-1", "2-0"}} {
		if IdempotencyKey(other.turn, other.call) == key {
			t.Errorf("%v has the same key", other)
		}
	}
}

// Rules: DUR-06.
func FuzzFingerprint(f *testing.F) {
	f.Add("tool", `{"a": 1, "human_intent": "x"}`)
	f.Add("", `[1e400, "\ud800"]`)
	f.Fuzz(func(t *testing.T, name, arguments string) {
		one := Fingerprint(name, arguments)
		if len(one) != 64 || one != Fingerprint(name, arguments) {
			t.Fatalf("the fingerprint is %q", one)
		}
		if !json.Valid([]byte(arguments)) {
			return
		}
		if two := Fingerprint(name, " "+arguments+"\n"); one != two {
			t.Errorf("white space makes %s of %s", two, one)
		}
	})
}

func TestAFingerprintOfLargeArgumentsCostsLittle(t *testing.T) {
	large := map[string]string{
		"objects with members": `{"a":[` + strings.TrimSuffix(strings.Repeat(`{"":0},`, 2<<20), ",") + `]}`,
		"objects":              `{"a":[` + strings.TrimSuffix(strings.Repeat(`{},`, 4<<20), ",") + `]}`,
		"a chain": strings.Repeat(
			`{"a":`,
			9000,
		) + "1" + strings.Repeat(
			"}",
			9000,
		) + strings.Repeat(
			" ",
			MaxArgumentsBytes,
		),
	}
	for name, arguments := range large {
		var one, two string
		used := memory.Allocated(func() { one, two = Fingerprint("tool", arguments), Fingerprint("tool", arguments+" ") })
		if used > 64<<20 {
			t.Errorf("%s: %d MiB were allocated for %d MiB", name, used>>20, len(arguments)>>20)
		}
		if one == two || len(one) != 64 {
			t.Errorf("%s: the fingerprints are %s and %s", name, one, two)
		}
	}
}

func TestTheDigestOfACallNeverChanges(t *testing.T) {
	call := v1alpha1.ToolCall{ID: "1-0", ToolUID: "tool-uid", ToolDigest: "d"}
	const ofCall = "626a204bc3b92dce8b131f94ec70c81c812bbcd3618bd660ce74c74706449443"
	if got := CallDigest("turn-uid", 2, call, `{"euros": 40}`); got != ofCall {
		t.Errorf("the digest of a call is %s, and was %s: approvals would be refused with an upgrade", got, ofCall)
	}
}

func TestACallDigestIsOfEverythingThatAnApprovalIsAbout(t *testing.T) {
	call := v1alpha1.ToolCall{ID: "1-0", ToolUID: "tool-uid", ToolDigest: "digest"}
	other := func(change func(*v1alpha1.ToolCall)) v1alpha1.ToolCall {
		changed := call
		change(&changed)
		return changed
	}
	digests := map[string]string{}
	for name, digest := range map[string]string{
		"the call":     CallDigest("turn", 2, call, `{"euros": 40}`),
		"another Turn": CallDigest("turn-2", 2, call, `{"euros": 40}`),
		"another step": CallDigest("turn", 4, call, `{"euros": 40}`),
		"another call": CallDigest("turn", 2, other(func(c *v1alpha1.ToolCall) { c.ID = "1-1" }), `{"euros": 40}`),
		"another Tool": CallDigest("turn", 2, other(func(c *v1alpha1.ToolCall) { c.ToolUID = "uid-2" }), `{"euros": 40}`),
		"another image": CallDigest(
			"turn", 2, other(func(c *v1alpha1.ToolCall) { c.ToolDigest = "digest-2" }), `{"euros": 40}`,
		),
		"another amount": CallDigest("turn", 2, call, `{"euros": 4000}`),
		"other bytes":    CallDigest("turn", 2, call, `{"euros":40}`),
		"moved bytes": CallDigest(
			"turn", 2, other(func(c *v1alpha1.ToolCall) { c.ToolUID, c.ToolDigest = "tool-uidd", "igest" }), `{"euros": 40}`,
		),
		"no arguments": CallDigest("turn", 2, call, ""),
	} {
		if before, taken := digests[digest]; taken || len(digest) != 64 {
			t.Errorf("%s has the digest %q, which is also that of %s", name, digest, before)
		}
		digests[digest] = name
	}
	if CallDigest("turn", 2, call, " ") != CallDigest("turn", 2, call, "{}") {
		t.Error("blank arguments stand for an empty object, which the tool receives")
	}
}
