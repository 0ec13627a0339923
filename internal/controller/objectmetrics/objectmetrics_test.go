package objectmetrics

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

func TestEveryPhaseIsCounted(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	objects := []client.Object{
		&v1alpha1.Turn{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "new"}},
		&v1alpha1.Session{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "new"}},
	}
	for i, phase := range turnPhases {
		for j := range i + 1 {
			turn := &v1alpha1.Turn{
				ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: strings.ToLower(string(phase)) + strings.Repeat("x", j)},
			}
			turn.Status.Phase = phase
			objects = append(objects, turn)
		}
	}
	for i, phase := range sessionPhases {
		session := &v1alpha1.Session{ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: strings.ToLower(string(phase))}}
		session.Status.Phase, session.Status.Journal.Bytes = phase, int64(i)
		objects = append(objects, session)
	}
	c := &Collector{
		Cache: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(),
		Held:  func() int { return 3 }, Waiting: func() int { return 4 }, Activities: func() int { return 5 },
	}
	want := `
# HELP capstan_activities Model calls, requests of HTTP tools and reads of pod logs in progress, or with an unread result.
# TYPE capstan_activities gauge
capstan_activities 5
# HELP capstan_journal_bytes Size of the journals of all Sessions in bytes, as of the end of their last Turns.
# TYPE capstan_journal_bytes gauge
capstan_journal_bytes 10
# HELP capstan_sessions Number of Sessions, by phase.
# TYPE capstan_sessions gauge
capstan_sessions{phase="Active"} 1
capstan_sessions{phase="Idle"} 1
capstan_sessions{phase="Pending"} 2
capstan_sessions{phase="Started"} 1
capstan_sessions{phase="WaitingForToolResults"} 1
# HELP capstan_turn_slots_held Active Turns.
# TYPE capstan_turn_slots_held gauge
capstan_turn_slots_held 3
# HELP capstan_turn_slots_waiting Sessions waiting for a slot for their Turn.
# TYPE capstan_turn_slots_waiting gauge
capstan_turn_slots_waiting 4
# HELP capstan_turns Number of Turns, by phase.
# TYPE capstan_turns gauge
capstan_turns{phase="Act"} 3
capstan_turns{phase="Cancelled"} 7
capstan_turns{phase="Failed"} 6
capstan_turns{phase="Queued"} 2
capstan_turns{phase="Reason"} 2
capstan_turns{phase="Succeeded"} 5
capstan_turns{phase="Waiting"} 8
capstan_turns{phase="WaitingForToolResults"} 4
`
	if err := testutil.CollectAndCompare(c, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	c.Cache = unreadable{}
	if n := testutil.CollectAndCount(c); n != 3 {
		t.Errorf("%d metrics without a cache, want those that need none", n)
	}
}

type unreadable struct{ client.Reader }

func (unreadable) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("not started")
}
