package platform

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// Rules: SVC-04.
func TestAPageThatIsTooLargeIsReadInParts(t *testing.T) {
	c := newCluster(t)
	c.put("sessions/other", nil)
	large := strings.Repeat("x", 300<<10)
	for i := range 60 {
		name := fmt.Sprintf("turns/large-%02d", i)
		c.put(name, map[string]any{"input": "x", "sessionRef": map[string]any{"name": "third"}},
			map[string]any{"phase": "Failed"})
		c.annotate(name, "example.org/large", large)
		c.put(fmt.Sprintf("agents/large-%02d", i), nil)
		c.annotate(fmt.Sprintf("agents/large-%02d", i), "example.org/large", large)
	}
	c.put("turns/wanted", map[string]any{"input": "Found.", "sessionRef": map[string]any{"name": "other"}})
	if got := c.call(t, RecentTool, `{"session":"other"}`); !strings.Contains(got, "Found.") {
		t.Errorf("the messages are %.200s", got)
	}
	got := c.call(t, ListTool, `{"kind":"agent"}`)
	if n := strings.Count(got, `"Name":"large-`); n != 25 || !strings.Contains(got, `"continue":"agents/large-24"`) {
		t.Errorf("the page has %d agents: %.200s", n, got)
	}
}

// Rules: SVC-04.
func TestAResultIsBoundedAsItIsEncoded(t *testing.T) {
	escapes := strings.Repeat("\x01\u2028\"", 20_000)
	for _, text := range []string{"", "plain", escapes, strings.Repeat("é\n", 9_000), "\xff" + escapes, "\b\f\x7f<&>"} {
		for _, most := range []int{3, 64, maxMessageBytes} {
			cut := encodedHead(text, most)
			raw, err := encode(cut)
			if err != nil || len(raw)-2 > most || len(raw)-2 != encodedBytes(cut) {
				t.Errorf("%.10q: %d bytes of %d, counted as %d", text, len(raw)-2, most, encodedBytes(cut))
			}
			if whole, _ := encode(text); len(whole)-2 <= most && cut != text {
				t.Errorf("%q is cut to %q", text, cut)
			}
		}
	}

	c := newCluster(t)
	c.put("sessions/other", nil)
	for i := range 20 {
		c.put(fmt.Sprintf("turns/t-%d", i), map[string]any{
			"input": escapes, "sessionRef": map[string]any{"name": "other"},
		}, map[string]any{"phase": "Failed"})
	}
	if got := c.call(t, RecentTool, `{"session":"other","limit":50}`); len(got) > maxMessagesBytes+4096 {
		t.Errorf("the messages have %d bytes", len(got))
	}
	short := make([]any, 4_000)
	for i := range short {
		short[i] = map[string]any{"name": strings.Repeat("\x01", 60)}
	}
	c.put("agents/wide", map[string]any{"tools": short})
	got := c.call(t, GetTool, `{"kind":"agent","name":"wide"}`)
	if len(got) > maxObjectBytes || !strings.Contains(got, `"name":"wide"`) {
		t.Errorf("the object has %d bytes", len(got))
	}
}

// Rules: SVC-04.
func TestAWaitKnowsAllSuspendedTurns(t *testing.T) {
	c := newCluster(t)
	c.put("sessions/other", nil, map[string]any{"phase": "Idle"})
	queue := func(name string, suspended bool) {
		c.put("turns/"+name, map[string]any{"sessionRef": map[string]any{"name": "other"}, "suspend": suspended},
			map[string]any{"phase": "Queued"})
	}
	for i := range maxQueued + 5 {
		queue(fmt.Sprintf("held-%02d", i), true)
	}
	const waits = `{"session":"other","timeout_seconds":1}`
	if got := c.call(t, WaitTool, waits); got != `{"session":"other","status":"Idle","timed_out":false}` {
		t.Errorf("with suspended Turns: %s", got)
	}
	for i := range maxQueued + 5 {
		queue(fmt.Sprintf("queued-%02d", i), false)
	}
	queued := fmt.Sprintf(`"timed_out":true,"queued_turns":%d`, maxQueued)
	if got := c.call(t, WaitTool, waits); !strings.Contains(got, queued) {
		t.Errorf("with queued Turns: %s", got)
	}
	for i := range maxSuspended {
		queue(fmt.Sprintf("a-%03d", i), true)
	}
	gets := 0
	c.intercept = func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/turns/") {
			gets++
		}
		return false
	}
	if got := c.call(t, WaitTool, waits); !strings.Contains(got, "suspended Turns") || gets > maxSuspended+maxQueued {
		t.Errorf("with too many suspended Turns: %d reads, %s", gets, got)
	}
}
