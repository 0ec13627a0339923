package invocation

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/live"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
	"github.com/capstan-dev/capstan/internal/testing/site"
)

// A call is the same whether its progress is received or not.
// Rules: CTX-03, VEC-29.
func TestTheProgressOfACallNeedsNoReceiver(t *testing.T) {
	for name, test := range map[string]struct {
		// bus passes events on to receiver; nil for none.
		bus      *live.Bus
		receiver string
		want     int
	}{
		"without a sink":                       {},
		"without a subscriber":                 {bus: &live.Bus{}},
		"with a subscriber of another Session": {bus: &live.Bus{}, receiver: "other-uid"},
		"with a subscriber of the Session":     {bus: &live.Bus{}, receiver: string(session.UID), want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			echo := site.Echo("echo")
			echo.Reports = []sdk.ProgressNotificationParams{{Progress: 1, Total: 2, Message: "half"}}
			// A report may be lost that comes right before the result.
			var events <-chan live.Event
			var received atomic.Int32
			result := echo.Run
			echo.Run = func(ctx context.Context, arguments json.RawMessage) *sdk.CallToolResult {
				for range test.want {
					select {
					case <-events:
						received.Add(1)
					case <-ctx.Done():
					}
				}
				return result(ctx, arguments)
			}
			s := site.NewMCP(t, site.Stateless, echo)
			b := newBench(t).reaching(s)
			if test.bus != nil {
				b.Live = test.bus
			}
			if test.receiver != "" {
				subscribed, end := test.bus.Subscribe(types.UID(test.receiver))
				defer end()
				events = subscribed
			}
			turn, call := acting(v1alpha1.ToolExecutorMCP, v1alpha1.SideEffectIdempotent)
			call.Name = "mcp_search__echo"
			d := definition.OfServer(offering(s, v1alpha1.SideEffectIdempotent)).Find(call.Name)
			d.Pin(&call)
			ended, err := b.CarryOut(t.Context(), turn, Call{Call: call, Definition: d, Attempt: NewAttempt(&Line{})})
			if err != nil || ended.Outcome.State != v1alpha1.ToolCallStateSucceeded {
				t.Errorf("it ends with %+v, %v", ended, err)
			}
			if got := int(received.Load()) + len(events); got != test.want {
				t.Errorf("%d events are received, want %d", got, test.want)
			}
		})
	}
}
