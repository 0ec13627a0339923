package notice

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// sink collects the recorded Events.
type sink struct{ notes []string }

func (s *sink) Eventf(_, _ runtime.Object, kind, reason, action, note string, args ...any) {
	s.notes = append(s.notes, kind+" "+reason+" "+action+": "+fmt.Sprintf(note, args...))
}

func turn(namespace, uid string) *v1alpha1.Turn {
	return &v1alpha1.Turn{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "demo-1", UID: types.UID(uid)}}
}

func recorder() (*Recorder, *sink, *time.Time) {
	now, s := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), &sink{}
	return NewRecorder(s, func() time.Time { return now }), s, &now
}

func TestThereIsOneEventForAnObjectAndReasonInTenMinutes(t *testing.T) {
	r, s, now := recorder()
	was := testutil.ToFloat64(dropped.WithLabelValues(limitNamespace))
	record := func(uid, reason string) {
		r.Record(turn("ns", uid), Notice{Reason: reason, Action: "Wait", Message: "100% sure."})
	}
	record("u1", "Approval")
	record("u1", "Approval")
	record("u1", "ClientTools")
	record("u2", "Approval")
	*now = now.Add(interval - time.Second)
	record("u1", "Approval")
	if got := len(s.notes); got != 3 {
		t.Fatalf("%d Events: %q", got, s.notes)
	}
	if s.notes[0] != "Normal Approval Wait: 100% sure." {
		t.Errorf("its message is %q", s.notes[0])
	}
	*now = now.Add(time.Second)
	record("u1", "Approval")
	if got := len(s.notes); got != 4 {
		t.Errorf("%d Events after ten minutes, want 4", got)
	}
	if got := testutil.ToFloat64(dropped.WithLabelValues(limitNamespace)); got != was {
		t.Errorf("%v Events are counted as dropped, which others stand for", got-was)
	}
}

func TestANamespaceCannotFlood(t *testing.T) {
	r, s, now := recorder()
	ofNamespace, ofManager := dropped.WithLabelValues(limitNamespace), dropped.WithLabelValues(limitManager)
	was := testutil.ToFloat64(ofNamespace) + testutil.ToFloat64(ofManager)
	wasManager := testutil.ToFloat64(ofManager)
	tried := 0
	flood := func(namespace string) int {
		before := len(s.notes)
		tried += 10 * burst
		for i := range 10 * burst {
			r.Record(
				turn(namespace, fmt.Sprintf("%s-%d-%d", namespace, len(s.notes), i)),
				Notice{Warning: true, Reason: "Failed"},
			)
		}
		return len(s.notes) - before
	}
	if got := flood("a"); got != burst {
		t.Errorf("%d Events at once, want %d", got, burst)
	}
	if got := flood("b"); got != burst {
		t.Errorf("%d Events of another namespace, want %d", got, burst)
	}
	*now = now.Add(3 * pause)
	if got := flood("a"); got != 3 {
		t.Errorf("%d Events later, want 3", got)
	}
	for i := range 100 {
		flood(fmt.Sprintf("n-%d", i))
	}
	if got := len(s.notes); got > 2*burst+3+allBurst {
		t.Errorf("%d Events in all", got)
	}
	counted := testutil.ToFloat64(ofNamespace) + testutil.ToFloat64(ofManager) - was
	if missing := tried - len(s.notes); counted != float64(missing) || testutil.ToFloat64(ofManager) <= wasManager {
		t.Errorf(
			"%v Events are counted as dropped, want %d; by the manager's limit %v",
			counted,
			missing,
			testutil.ToFloat64(ofManager)-wasManager,
		)
	}
}

func TestWhatIsBeingDeletedHasNoEvents(t *testing.T) {
	r, s, now := recorder()
	going := turn("ns", "u1")
	going.DeletionTimestamp = &metav1.Time{Time: *now}
	r.Record(going, Notice{Reason: "Failed"})
	if len(s.notes) != 0 {
		t.Errorf("recorded: %q", s.notes)
	}
	(*Recorder)(nil).Record(turn("ns", "u1"), Notice{Reason: "Failed"})
}

func TestAnEventIsBounded(t *testing.T) {
	r, s, _ := recorder()
	r.Record(turn("ns", "u1"), Notice{Reason: "Failed", Action: "End", Message: strings.Repeat("x", 5000)})
	if got := len(s.notes[0]); got > 1024+len("Normal Failed End: ") {
		t.Errorf("%d bytes", got)
	}
}
