package mcp

import (
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Rules: CTX-03, VEC-29.
func TestAReportThatIsAboutNoCallInProgressIsDropped(t *testing.T) {
	var r receiver
	got := 0
	report := func(token any) {
		p := &sdk.ProgressNotificationParams{Progress: 1}
		p.ProgressToken = token
		r.receive(p)
	}
	for _, token := range []any{nil, "", "guessed"} {
		report(token)
	}
	earlier := r.begin(func(Progress) { t.Error("a report of the later call is passed on as one of the earlier") })
	r.end()
	token := r.begin(func(Progress) { got++ })
	for _, other := range []any{nil, "", 1, earlier} {
		report(other)
	}
	report(token)
	r.end()
	if got != 1 {
		t.Errorf("%d reports are passed on", got)
	}
	report(token)
	if got != 1 {
		t.Error("a report is passed on after the end of its call")
	}
}
