package turnstate

import (
	"runtime"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

func TestHintsOfAnySizeCostNothing(t *testing.T) {
	huge := v1alpha1.JSON{Raw: []byte("[" + strings.TrimSuffix(strings.Repeat(`{"":0},`, 200_000), ",") + "]")}
	turn := Turn{}
	for name, test := range map[string]struct {
		hints map[string]v1alpha1.JSON
		want  bool
	}{
		"read":           {map[string]v1alpha1.JSON{"setup_connection": {Raw: []byte("true")}, "other": huge}, true},
		"false":          {map[string]v1alpha1.JSON{"setup_connection": {Raw: []byte("false")}}, false},
		"too large":      {map[string]v1alpha1.JSON{"setup_connection": huge}, false},
		"not JSON":       {map[string]v1alpha1.JSON{"setup_connection": {Raw: []byte("yes")}}, false},
		"of other names": {map[string]v1alpha1.JSON{"other": huge}, false},
	} {
		turn.ClientTools, turn.Hints = v1alpha1.ClientToolsPolicyFollowHints, test.hints
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got := Waits(turn)
		runtime.ReadMemStats(&after)
		if got != test.want {
			t.Errorf("%s: waits %t", name, got)
		}
		if spent := after.TotalAlloc - before.TotalAlloc; spent > 64<<10 {
			t.Errorf("%s: %d bytes were allocated", name, spent)
		}
	}
}
