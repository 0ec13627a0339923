package turn

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

func TestATurnIsOrphanedOnlyByTheSessionThatAdmittedIt(t *testing.T) {
	session := func(uid types.UID, going bool) *v1alpha1.Session {
		s := &v1alpha1.Session{}
		s.UID = uid
		s.CreationTimestamp = metav1.NewTime(time.Unix(1000, 0))
		if going {
			s.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		}
		return s
	}
	admitted := &v1alpha1.Turn{Status: v1alpha1.TurnStatus{SessionUID: "s-1"}}
	queued := &v1alpha1.Turn{}
	earlier := &v1alpha1.Turn{}
	earlier.Status.Plan = &v1alpha1.TurnPlan{Step: 3}
	cancelledInTheQueue := &v1alpha1.Turn{}
	cancelledInTheQueue.Status.Plan = &v1alpha1.TurnPlan{Phase: v1alpha1.PlanPhaseComplete}
	ended := func(created int64) *v1alpha1.Turn {
		turn := admitted.DeepCopy()
		turn.CreationTimestamp = metav1.NewTime(time.Unix(created, 0))
		turn.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionFinished, Status: metav1.ConditionTrue}}
		return turn
	}
	for name, c := range map[string]struct {
		turn    *v1alpha1.Turn
		session *v1alpha1.Session
		want    bool
	}{
		"its Session is there":                     {admitted, session("s-1", false), false},
		"its Session was deleted":                  {admitted, nil, true},
		"its Session goes":                         {admitted, session("s-1", true), true},
		"another Session has the name":             {admitted, session("s-2", false), true},
		"it has ended, its Session was replaced":   {ended(999), session("s-2", false), true},
		"it was restored after its Session":        {ended(1000), session("s-2", false), false},
		"it was restored without its Session":      {ended(1000), nil, true},
		"it waits for a Session":                   {queued, nil, false},
		"it waits while a Session goes":            {queued, session("s-1", true), false},
		"admitted by an earlier build":             {earlier, session("s-2", false), false},
		"admitted by an earlier build, and gone":   {earlier, nil, true},
		"cancelled in the queue without a Session": {cancelledInTheQueue, nil, false},
	} {
		if got := orphaned(c.turn, c.session); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Rules: VEC-06.
func TestTheSessionOfAnOrphanGivesItsPlaceBack(t *testing.T) {
	w := newWorld(t).begin(builder.ClientTool("ask").Obj())
	m := w.manager(0)
	m.until("the client is waited for", w.shows("ask", v1alpha1.ToolCallStateWaiting))
	m.Turns.Adopt(fairshare.Begun{Session: w.session().UID, Namespace: testNamespace})
	if err := w.client.Delete(t.Context(), w.session()); err != nil {
		t.Fatal(err)
	}
	if _, err := m.pass(); err != nil {
		t.Fatal(err)
	}
	if n := m.Turns.Active(); n != 0 {
		t.Errorf("%d places are held for a Session that was deleted", n)
	}
	if len(w.asked) != 1 {
		t.Errorf("the Turn goes on without its Session: %d model calls", len(w.asked))
	}
}
