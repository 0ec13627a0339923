package turn

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

func TestStatusNamesThePodOfACall(t *testing.T) {
	for _, class := range []v1alpha1.SideEffect{v1alpha1.SideEffectPure, v1alpha1.SideEffectAtMostOnce} {
		t.Run(string(class), func(t *testing.T) {
			w := newWorld(t)
			w.begin(builder.JobTool("work", class).Obj())
			m := w.manager(0)
			m.until("the end of the call", w.shows("work", v1alpha1.ToolCallStateSucceeded))
			if got, want := w.call("work").PodName, w.jobOf("work").Name+"-x"; got != want {
				t.Errorf("podName is %q, want %q", got, want)
			}
		})
	}
}

// A new pod without any other change is no reason to write.
func TestANewPodAloneIsNotWritten(t *testing.T) {
	w := newWorld(t)
	w.begin(builder.JobTool("work", v1alpha1.SideEffectPure).Obj())
	m := w.manager(0)
	m.withoutCluster("the Job", func() bool { return len(w.jobs()) == 1 })
	w.makePod(w.jobOf("work"))
	m.withoutCluster("the pod", func() bool { return w.call("work").PodName != "" })
	// As left by a version of the manager that records no pod names.
	before := w.turn()
	before.Status.ToolCalls[0].PodName = ""
	w.updateStatus(before)
	for range 3 {
		w.sleep(2 * progressInterval)
		if _, err := m.pass(); err != nil {
			t.Fatal(err)
		}
	}
	if after := w.turn(); after.ResourceVersion != before.ResourceVersion || w.call("work").PodName != "" {
		t.Errorf("version %s, then %s with %+v", before.ResourceVersion, after.ResourceVersion, w.call("work"))
	}
}

func TestTheNameOfAPodIsBounded(t *testing.T) {
	for name, want := range map[string]string{
		"tool-1-x": "tool-1-x", strings.Repeat("p", 32): strings.Repeat("p", 32), strings.Repeat("p", 33): "",
	} {
		if got := podName(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}); got != want {
			t.Errorf("of %q: %q, want %q", name, got, want)
		}
	}
	if got := podName(nil); got != "" {
		t.Errorf("of none: %q", got)
	}
}
