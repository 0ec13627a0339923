package queue

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

func TestOnlyTheNextTurnReportsWhyItsSessionCannotRun(t *testing.T) {
	session := func(status metav1.ConditionStatus, active string) *v1alpha1.Session {
		s := &v1alpha1.Session{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}
		condition.Set(
			&s.Status.Conditions,
			1,
			now,
			v1alpha1.ConditionReady,
			status,
			v1alpha1.ReasonModelNotFound,
			`Model "m" does not exist.`,
		)
		if active != "" {
			s.Status.ActiveTurn = &v1alpha1.ActiveTurn{Name: active}
		}
		return s
	}
	stating := func(reason, message string) func(*v1alpha1.Turn) {
		return func(turn *v1alpha1.Turn) { turnstate.Queue(&turn.Status, 1, now, reason, message) }
	}
	const missing = `Session "demo" cannot run the Turn (ModelNotFound). Model "m" does not exist.`
	queued, waits := stating(v1alpha1.ReasonQueued, behindMessage), stating(v1alpha1.ReasonQueued, slotMessage)
	notReady := stating(v1alpha1.ReasonSessionNotReady, missing)
	noSession := stating(v1alpha1.ReasonSessionNotFound, `Session "demo" does not exist.`)
	for name, test := range map[string]struct {
		session *v1alpha1.Session
		turns   []*v1alpha1.Turn
		want    string
	}{
		"nothing is missing": {
			session(metav1.ConditionTrue, ""), []*v1alpha1.Turn{turnWith("1", waits), turnWith("2")}, "",
		},
		"the next one has to state it": {
			session(metav1.ConditionFalse, ""), []*v1alpha1.Turn{turnWith("1", queued), turnWith("2", queued)}, "1",
		},
		"the next one states it": {
			session(metav1.ConditionFalse, ""), []*v1alpha1.Turn{turnWith("1", notReady), turnWith("2", queued)}, "",
		},
		"the one before is suspended": {
			session(metav1.ConditionFalse, ""), []*v1alpha1.Turn{turnWith("1", isSuspended), turnWith("2", queued)}, "2",
		},
		"the one before was deleted": {
			session(metav1.ConditionFalse, ""), []*v1alpha1.Turn{turnWith("1", isGoing), turnWith("2", queued)}, "2",
		},
		"the missing object exists": {
			session(metav1.ConditionTrue, ""), []*v1alpha1.Turn{turnWith("1", notReady), turnWith("2", queued)}, "1",
		},
		"a Turn runs": {
			session(metav1.ConditionFalse, "x"), []*v1alpha1.Turn{turnWith("1", queued)}, "",
		},
		"the Session came after its Turns": {
			session(metav1.ConditionTrue, ""), []*v1alpha1.Turn{turnWith("1", noSession), turnWith("2", noSession)}, "1 2",
		},
		"it came and lacks something": {
			session(metav1.ConditionFalse, ""), []*v1alpha1.Turn{turnWith("1", noSession), turnWith("2", noSession)}, "1 2",
		},
		"a Turn without conditions has to state the reason": {
			session(metav1.ConditionFalse, ""), []*v1alpha1.Turn{turnWith("1")}, "1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var names []string
			for _, turn := range Outdated(test.session, test.turns, 0) {
				names = append(names, turn.Name)
			}
			if got := strings.Join(names, " "); got != test.want {
				t.Errorf("outdated are %q, want %q", got, test.want)
			}
		})
	}
	for name, of := range map[string]*v1alpha1.Session{
		"no Session": nil, "a Session": session(metav1.ConditionFalse, ""),
	} {
		turn := turnWith("1", isSuspended)
		if reason, _ := Reason(of, turn, turn, 0); reason != v1alpha1.ReasonSuspended {
			t.Errorf("with %s a suspended Turn reports %s", name, reason)
		}
	}
	if _, message := Reason(session(metav1.ConditionFalse, ""), turnWith("1"), turnWith("1"), 0); message != missing {
		t.Errorf("the next Turn reports %q", message)
	}
}

func TestAQueuedTurnReportsWhetherTurnsAreBeforeItOrItWaitsForASlot(t *testing.T) {
	idle := &v1alpha1.Session{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}
	busy := idle.DeepCopy()
	busy.Status.ActiveTurn = &v1alpha1.ActiveTurn{Name: "0", UID: "0"}
	first, second := turnWith("1"), turnWith("2")
	for name, test := range map[string]struct {
		session    *v1alpha1.Session
		turn, next *v1alpha1.Turn
		want       string
	}{
		"another Turn runs":            {busy, first, first, behindMessage},
		"another Turn runs, and waits": {busy, second, first, behindMessage},
		"another Turn is next":         {idle, second, first, behindMessage},
		"it is next":                   {idle, first, first, slotMessage},
	} {
		if reason, message := Reason(
			test.session,
			test.turn,
			test.next,
			0,
		); reason != v1alpha1.ReasonQueued ||
			message != test.want {
			t.Errorf("%s: it reports %s, %q", name, reason, message)
		}
	}
	stated := func(message string) func(*v1alpha1.Turn) {
		return func(turn *v1alpha1.Turn) { turnstate.Queue(&turn.Status, 1, now, v1alpha1.ReasonQueued, message) }
	}
	first, second = turnWith("1", stated(behindMessage)), turnWith("2", stated(behindMessage))
	if outdated := Outdated(busy, []*v1alpha1.Turn{first, second}, 0); len(outdated) != 0 {
		t.Errorf("%d Turns are outdated while another one runs", len(outdated))
	}
	if outdated := Outdated(idle, []*v1alpha1.Turn{first, second}, 0); len(outdated) != 1 || outdated[0] != first {
		t.Errorf("%d Turns are outdated when the first one waits for a slot, want that one", len(outdated))
	}
	if outdated := Outdated(idle, []*v1alpha1.Turn{turnWith("1"), turnWith("2")}, 0); len(outdated) != 0 {
		t.Errorf("%d Turns without conditions have to be written", len(outdated))
	}
}

func TestOnlyTheNextTurnReportsThatItsNamespaceHasTooMany(t *testing.T) {
	session := func(active string) *v1alpha1.Session {
		s := &v1alpha1.Session{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo"}}
		if active != "" {
			s.Status.ActiveTurn = &v1alpha1.ActiveTurn{Name: active}
		}
		return s
	}
	turns := []*v1alpha1.Turn{turnWith("1"), turnWith("2")}
	for name, test := range map[string]struct {
		active string
		limit  int64
		want   []string
	}{
		"there is room":       {"", 0, []string{v1alpha1.ReasonQueued, v1alpha1.ReasonQueued}},
		"there is none":       {"", 5, []string{v1alpha1.ReasonTurnLimit, v1alpha1.ReasonQueued}},
		"a Turn runs already": {"0", 5, []string{v1alpha1.ReasonQueued, v1alpha1.ReasonQueued}},
	} {
		for i, turn := range turns {
			if reason, message := Reason(
				session(test.active),
				turn,
				turns[0],
				test.limit,
			); reason != test.want[i] ||
				message == "" {
				t.Errorf("%s: Turn %s reports %s: %s", name, turn.Name, reason, message)
			}
		}
	}
	if outdated := Outdated(session(""), turns, 5); len(outdated) != 1 || outdated[0].Name != "1" {
		t.Errorf("%d Turns have to state another reason", len(outdated))
	}
}
