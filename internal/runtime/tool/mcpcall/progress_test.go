package mcpcall

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/mcp"
)

// Rules: CTX-03.
func TestReportsOfProgressAreBoundedAndIncrease(t *testing.T) {
	now := time.Unix(0, 0)
	var shown []mcp.Progress
	report := Progress(http.Header{"Authorization": {"Bearer s3cr3t"}}, func() time.Time { return now },
		func(p mcp.Progress) { shown = append(shown, p) })
	for _, r := range []struct {
		after time.Duration
		mcp.Progress
	}{
		{0, mcp.Progress{Done: 1, Total: 10, Message: "one"}},
		{0, mcp.Progress{Done: 2, Total: 10, Message: "too soon"}},
		{time.Second, mcp.Progress{Done: 1, Message: "not farther"}},
		{time.Second, mcp.Progress{Done: 0.5, Message: "backwards"}},
		{time.Second, mcp.Progress{Done: 3, Total: -1, Message: "s3cr3t\x1b[31m\u202e three"}},
		{time.Second, mcp.Progress{Done: 4, Message: strings.Repeat("x", 10_000)}},
	} {
		now = now.Add(r.after)
		report(r.Progress)
	}
	if len(shown) != 3 || len(shown[2].Message) > maxProgressMessage+len("…") {
		t.Fatalf("%d reports are shown: %+v", len(shown), shown)
	}
	want := []mcp.Progress{{Done: 1, Total: 10, Message: "one"}, {Done: 3, Message: "[redacted][31m three"}}
	if !reflect.DeepEqual(shown[:2], want) {
		t.Errorf("the reports are %+v, want %+v", shown[:2], want)
	}
}
