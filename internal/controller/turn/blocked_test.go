package turn

import (
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// A blocked Turn starts no tool: its Job may exist, but the gate of a pod that is not recorded stays closed.
func TestABlockedTurnOpensNoGate(t *testing.T) {
	for name, test := range map[string]struct {
		others []*v1alpha1.Tool
		// recorded blocks the Turn only after the pod was recorded.
		recorded bool
		starts   int
	}{
		"it alone":                   {},
		"beside a Job that runs":     {others: []*v1alpha1.Tool{builder.JobTool("read", v1alpha1.SideEffectPure).Obj()}},
		"its pod is recorded before": {recorded: true, starts: 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.begin(append([]*v1alpha1.Tool{builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj()}, test.others...)...)
			m := w.manager(0)
			if test.recorded {
				m.until("the pod", func() bool { return w.call("pay").PodUID != "" })
			} else {
				m.withoutCluster("the Jobs", func() bool { return len(w.jobs()) == 1+len(test.others) })
			}
			w.archive()
			m.until("the end", func() bool {
				w.collect()
				return w.finished()
			})
			if phase := w.turn().Status.Phase; phase != v1alpha1.TurnPhaseFailed {
				t.Errorf("the Turn is %s", phase)
			}
			if got := w.starts("pay"); got != test.starts {
				t.Errorf("it was started %d times, want %d; the model received %q", got, test.starts, w.resultText("pay"))
			}
			for _, other := range test.others {
				if got := w.starts(other.Name); got != 1 {
					t.Errorf("%s was started %d times", other.Name, got)
				}
			}
		})
	}
}
