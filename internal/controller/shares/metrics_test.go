package shares

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
)

func TestHeldSharesAreCounted(t *testing.T) {
	c := &Collector{
		Models: fairshare.NewPool(fairshare.Options{Total: fairshare.Amount{Places: 1, Bytes: 64}}),
		Tools:  fairshare.NewPool(fairshare.Options{Total: fairshare.Amount{Places: 8}}),
		Scripts: fairshare.NewPool(fairshare.Options{
			Total: fairshare.Amount{Places: 2}, PerNamespace: fairshare.Amount{Places: 1},
		}),
		SQLCalls:          fairshare.NewPool(fairshare.Options{Total: fairshare.Amount{Places: 2}}),
		Connections:       fairshare.NewPool(fairshare.Options{Total: fairshare.Amount{Places: 2}}),
		ReaderConnections: fairshare.NewPool(fairshare.Options{Total: fairshare.Amount{Places: 2}}),
	}
	for range 2 {
		if _, err := c.Models.Request(
			fairshare.Request{Namespace: "a", Amount: fairshare.Amount{Places: 1, Bytes: 5}},
		); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if _, err := c.Scripts.Request(fairshare.Request{Namespace: "a", Amount: fairshare.Amount{Places: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	want := `
# HELP capstan_conversation_bytes Memory reserved for model calls in progress and for responses that are not in the journal yet.
# TYPE capstan_conversation_bytes gauge
capstan_conversation_bytes 5
# HELP capstan_share_held Places in use, by resource.
# TYPE capstan_share_held gauge
capstan_share_held{resource="database_connections"} 0
capstan_share_held{resource="database_reader_connections"} 0
capstan_share_held{resource="model_calls"} 1
capstan_share_held{resource="scripts"} 1
capstan_share_held{resource="sql_calls"} 0
capstan_share_held{resource="tool_requests"} 0
# HELP capstan_share_waiting Requests waiting for a place, by resource.
# TYPE capstan_share_waiting gauge
capstan_share_waiting{resource="database_connections"} 0
capstan_share_waiting{resource="database_reader_connections"} 0
capstan_share_waiting{resource="model_calls"} 1
capstan_share_waiting{resource="scripts"} 2
capstan_share_waiting{resource="sql_calls"} 0
capstan_share_waiting{resource="tool_requests"} 0
`
	if err := testutil.CollectAndCompare(c, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
