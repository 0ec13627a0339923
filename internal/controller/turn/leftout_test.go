package turn

import (
	"context"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// leavesOut makes the manager read through a cache that has no long texts, and counts what it reads live.
func (m *manager) leavesOut() map[string]int {
	live := map[string]int{}
	cached := m.w.client.(client.WithWatch)
	m.Client = interceptor.NewClient(cached, interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption,
		) error {
			err := c.Get(ctx, key, o, options...)
			if turn, ok := o.(*v1alpha1.Turn); ok {
				turnstate.LeaveOutMessage(turn)
			}
			return err
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			err := c.List(ctx, list, options...)
			switch l := list.(type) {
			case *v1alpha1.TurnList:
				for i := range l.Items {
					turnstate.LeaveOutMessage(&l.Items[i])
				}
			case *v1alpha1.ToolResultList:
				for i := range l.Items {
					turnstate.LeaveOutResult(&l.Items[i])
				}
			}
			return err
		},
	})
	m.Live = interceptor.NewClient(cached, interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption,
		) error {
			switch o.(type) {
			case *v1alpha1.Turn:
				live["Turn"]++
			case *v1alpha1.ToolResult:
				live["ToolResult"]++
			}
			return c.Get(ctx, key, o, options...)
		},
	})
	return live
}

func TestLongTextsAreReadOnceWhenTheyAreNeeded(t *testing.T) {
	w := newWorld(t).begin(builder.ClientTool("ask").Obj())
	long := strings.Repeat("Hello, world. ", 4<<10)
	turn := w.turn()
	w.change(turn, func() { turn.Spec.Input = long })
	m := w.manager(0)
	live := m.leavesOut()
	m.until("the client is waited for", w.shows("ask", v1alpha1.ToolCallStateWaiting))
	w.answer("ask", long[:40<<10])
	m.until("the end of the Turn", w.finished)

	if got := w.asked[0].Messages[0].PlainText(); got != long {
		t.Errorf("the model reads %d bytes of the message, want %d", len(got), len(long))
	}
	if got := w.transcript()[0].PlainText(); got != long {
		t.Errorf("the journal has %d bytes of the message, want %d", len(got), len(long))
	}
	if got := w.resultText("ask"); got != long[:40<<10] {
		t.Errorf("the journal has %d bytes of the result, want %d", len(got), 40<<10)
	}
	if live["Turn"] != 1 || live["ToolResult"] != 1 {
		t.Errorf("read live: %v, want each once", live)
	}
}

func TestALongTextOfADeletedToolResultIsNotUsed(t *testing.T) {
	w := newWorld(t).begin(builder.ClientTool("ask").Obj())
	m := w.manager(0)
	m.leavesOut()
	m.until("the client is waited for", w.shows("ask", v1alpha1.ToolCallStateWaiting))
	result := w.answer("ask", strings.Repeat("x", 40<<10))
	stored := w.client
	m.Live = interceptor.NewClient(stored.(client.WithWatch), interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption,
		) error {
			if _, is := o.(*v1alpha1.ToolResult); is {
				key.Name = "gone"
			}
			return c.Get(ctx, key, o, options...)
		},
	})
	for range 3 {
		if _, err := m.pass(); err != nil {
			t.Fatal(err)
		}
	}
	if call := w.call("ask"); call.State != v1alpha1.ToolCallStateWaiting {
		t.Errorf("the call is %s although ToolResult %s was deleted", call.State, result.Name)
	}
}
