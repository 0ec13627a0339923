package step

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/config"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// steeredBy is the Turn with messages that wait for it.
func steeredBy(turn turnstate.Turn, messages ...turnstate.Steer) turnstate.Turn {
	turn.Steers = func(context.Context) ([]turnstate.Steer, error) { return messages, nil }
	return turn
}

func message(name, text string) turnstate.Steer {
	return turnstate.Steer{Ref: v1alpha1.JournalTurn{Name: name, UID: types.UID(name + "-uid")}, Input: text}
}

// users are the texts of the user's messages in the journal.
func (b *bench) users() []string {
	b.t.Helper()
	var texts []string
	for _, m := range b.transcript() {
		if m.Role == event.RoleUser {
			texts = append(texts, m.PlainText())
		}
	}
	return texts
}

// Rules: STEER-01, VEC-04.
func TestAMessageThatWaitsLeadsToAnotherModelCall(t *testing.T) {
	b := newBench(t)
	turn, closed := b.reason(
		steeredBy(newTurn("demo-1"), message("demo-2", "And Bob?"), message("demo-3", "And Eve?")),
		with(),
	)
	b.expectTypes(closed.Events, openingTypes, reasonTypes, "input.message input.message")
	if p := turn.Progress; p.Phase != v1alpha1.TurnPhaseReason || p.Iteration != 2 || p.Plan.Step != 2 {
		t.Errorf("progress %+v, plan %+v", p, p.Plan)
	}
	if len(closed.Steered) != 2 || closed.Steered[0].Name != "demo-2" ||
		closed.Steered[0].Digest != (turnstate.Turn{Input: "And Bob?"}).Digest() {
		t.Errorf("taken in: %+v", closed.Steered)
	}
	turn, closed = b.reason(turn, with())
	prompt := b.asked[1].Messages
	if got := prompt[len(prompt)-1]; got.PlainText() != "And Eve?" || got.ID != "demo-3-uid" {
		t.Errorf("the prompt ends with %+v", got)
	}
	if len(closed.Steered) != 0 || turn.Progress.Phase != v1alpha1.TurnPhaseSucceeded {
		t.Errorf("a message went in twice: %+v, phase %s", closed.Steered, turn.Progress.Phase)
	}
	if got := b.users(); !slices.Equal(got, []string{"How are you?", "And Bob?", "And Eve?"}) {
		t.Errorf("the user's messages are %q", got)
	}
}

// Rules: STEER-01.
func TestToolCallsComeBeforeTheMessageThatWaits(t *testing.T) {
	b := newBench(t)
	b.responds("", calls(1, "work")...)
	turn, closed := b.reason(steeredBy(newTurn("demo-1"), message("demo-2", "Stop.")), with(jobTool("work")))
	if turn.Progress.Phase != v1alpha1.TurnPhaseAct || len(closed.Steered) != 0 {
		t.Fatalf("phase %s, taken in: %+v", turn.Progress.Phase, closed.Steered)
	}
	text := "done"
	closed, err := b.Act(t.Context(), turn, facts{
		Outcomes: map[string]tool.Outcome{
			"1-0": {State: v1alpha1.ToolCallStateSucceeded, Result: &text},
		},
		Planned: planned(closed),
	}.step())
	if err != nil || len(closed.Steered) != 1 {
		t.Fatalf("taken in: %+v, %v", closed, err)
	}
	roles := []event.Role{}
	for _, m := range b.transcript() {
		roles = append(roles, m.Role)
	}
	if !slices.Equal(roles, []event.Role{event.RoleUser, event.RoleAssistant, event.RoleToolResult, event.RoleUser}) {
		t.Errorf("the transcript is %v", roles)
	}
}

// Rules: STEER-03.
func TestATurnThatEndsTakesNothingIn(t *testing.T) {
	waits := message("demo-2", "And Bob?")
	for name, run := range map[string]func(*bench) (*journal.Closed, error){
		"the model fails": func(b *bench) (*journal.Closed, error) {
			b.fails("broken")
			return b.Reason(t.Context(), steeredBy(newTurn("demo-1"), waits), with())
		},
		"its last model call": func(b *bench) (*journal.Closed, error) {
			c := with()
			c.Effective.MaxIterations = 1
			return b.Reason(t.Context(), steeredBy(newTurn("demo-1"), waits), c)
		},
		"it is cancelled": func(b *bench) (*journal.Closed, error) {
			return b.Cancel(t.Context(), steeredBy(newTurn("demo-1"), waits), nil)
		},
		"messages cannot be looked for": func(b *bench) (*journal.Closed, error) {
			turn := newTurn("demo-1")
			turn.Steers = func(context.Context) ([]turnstate.Steer, error) { return nil, errors.New("no connection") }
			return b.Reason(t.Context(), turn, with())
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			closed, err := run(b)
			if err != nil || len(closed.Steered) != 0 || closed.Transition.Plan.Phase != v1alpha1.PlanPhaseComplete {
				t.Fatalf("closed %+v, %v", closed, err)
			}
			if got := b.users(); !slices.Equal(got, []string{"How are you?"}) {
				t.Errorf("the user's messages are %q", got)
			}
		})
	}
}

func TestAMessageUnderANameThatTheLogKnowsGoesIntoNoTurn(t *testing.T) {
	b := newBench(t)
	first := newTurn("demo-0")
	first.Ref.UID = "first-uid"
	_, closed := b.reason(first, with())
	turn := newTurn("demo-1")
	turn.Progress.Plan.OpenedAtOrdinal = closed.Ordinal + 1
	_, closed = b.reason(steeredBy(turn, message("demo-0", "Hello again."), message("demo-2", "New.")), with())
	if len(closed.Steered) != 1 || closed.Steered[0].Name != "demo-2" {
		t.Errorf("taken in: %+v", closed.Steered)
	}
}

// A message that waits although the journal has it as part of this Turn shows that another process has closed the step.
// A name alone does not show it: its Turn may have been deleted, and created again with another message.
func TestWhetherAWaitingMessageIsPartOfTheTurnAlready(t *testing.T) {
	taken := message("demo-2", "And Bob?")
	again := message("demo-2", "And Carol?")
	again.Ref.UID = "created-again"
	for name, test := range map[string]struct {
		offered, pending []turnstate.Steer
		taken            bool
	}{
		"the message that was taken":  {offered: []turnstate.Steer{taken}, taken: true},
		"another one, under its name": {offered: []turnstate.Steer{again}},
		"another one, beside it": {
			offered: []turnstate.Steer{
				taken, message("demo-3", "New."),
			}, pending: []turnstate.Steer{message("demo-3", "New.")}, taken: true,
		},
		"a new one": {
			offered: []turnstate.Steer{message("demo-3", "New.")}, pending: []turnstate.Steer{message("demo-3", "New.")},
		},
		"none": {},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			turn, _ := b.reason(steeredBy(newTurn("demo-1"), taken), with())
			pending, found, err := b.Pending(t.Context(), steeredBy(turn, test.offered...))
			if err != nil || found != test.taken || !slices.EqualFunc(pending, test.pending, sameMessage) {
				t.Errorf("pending %+v, taken %v, %v", pending, found, err)
			}
		})
	}
	// Of a Turn that is another one, nothing is part.
	b := newBench(t)
	b.reason(steeredBy(newTurn("demo-1"), taken), with())
	other := newTurn("demo-4")
	other.Ref.UID = "other-uid"
	if _, found, err := b.Pending(t.Context(), steeredBy(other, taken)); found || err != nil {
		t.Errorf("taken %v by a Turn that has not taken it, %v", found, err)
	}
}

func sameMessage(a, b turnstate.Steer) bool {
	return a.Ref.Name == b.Ref.Name && a.Ref.UID == b.Ref.UID && a.Input == b.Input
}

func TestNoMoreMessagesThanFitGoIntoATurnAtOnce(t *testing.T) {
	b := newBench(t)
	var waiting []turnstate.Steer
	for i := range turnstate.MaxSteers + 3 {
		waiting = append(waiting, message(fmt.Sprintf("steer-%d", i), "Hello."))
	}
	turn, closed := b.reason(steeredBy(newTurn("demo-1"), waiting...), with())
	if len(closed.Steered) != turnstate.MaxSteers {
		t.Fatalf("%d messages went in at once", len(closed.Steered))
	}
	_, closed = b.reason(steeredBy(turn, waiting...), with())
	if len(closed.Steered) != 3 {
		t.Errorf("%d messages followed", len(closed.Steered))
	}
}

// Rules: CFG-09.
func TestTheControlsOfTheLastMessageCount(t *testing.T) {
	other := message("demo-2", "Use the other one.")
	other.Controls = &v1alpha1.TurnControls{
		ModelRef: &v1alpha1.LocalReference{Name: "other"}, ReasoningEffort: v1alpha1.ReasoningEffortHigh,
	}
	b := newBench(t)
	turn, _ := b.reason(steeredBy(newTurn("demo-1"), message("demo-3", "No matter."), other), with())
	if c := turn.Progress.Controls; c == nil || c.ModelRef == nil || c.ModelRef.Name != "other" ||
		c.ReasoningEffort != v1alpha1.ReasoningEffortHigh {
		t.Fatalf("controls %+v", c)
	}
	resolved := &config.Resolved{Models: []v1alpha1.Model{*named("m"), *named("other"), *named("third")}}
	resolved.Models[1].Spec.Fallbacks = []v1alpha1.LocalReference{{Name: "third"}}
	resolved.Models[2].Status.Conditions = []metav1.Condition{
		{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue},
	}
	object := &v1alpha1.Turn{Status: v1alpha1.TurnStatus{TurnProgress: turn.Progress}}
	c := turnstate.ConfigOf(resolved, turnstate.ControlsOf(object))
	if c.Model.Name != "other" || len(c.Fallbacks) != 1 {
		t.Fatalf("the Model is %s, its fallbacks are %+v", c.Model.Name, c.Fallbacks)
	}
	for _, m := range []*v1alpha1.Model{c.Model, c.Fallbacks[0]} {
		if p := m.Spec.Parameters; p == nil || p.ReasoningEffort != v1alpha1.ReasoningEffortHigh {
			t.Errorf("Model %s is called with %+v", m.Name, p)
		}
	}
	turn, _ = b.reason(steeredBy(turn, message("demo-4", "Use any.")), with())
	if c := turn.Progress.Controls; c == nil || c.ModelRef != nil {
		t.Errorf("controls %+v after a message without any", c)
	}
}

// Rules: CONN-01.
func TestATurnWithMessagesOfSeveralUsersHasNoUser(t *testing.T) {
	for name, test := range map[string]struct {
		own, other string
		task       bool
		want       string
	}{
		"the same user":         {own: "ann", other: "ann", want: "ann"},
		"another user":          {own: "ann", other: "bob"},
		"an unknown user":       {own: "ann"},
		"a Turn without a user": {other: "bob"},
		"a task of the user":    {own: "ann", other: "ann", task: true, want: "ann"},
		"a task of another":     {own: "ann", other: "bob", task: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			first := newTurn("demo-1")
			first.SubmittedBy = test.own
			steer := message("demo-2", "Use that account.")
			steer.SubmittedBy, steer.Task = test.other, test.task
			turn, closed := b.reason(steeredBy(first, steer), with())
			if len(closed.Steered) != 1 || turn.User() != test.want {
				t.Fatalf("the user is %q", turn.User())
			}
			var others []string
			if test.own != test.other {
				others = []string{test.other}
			}
			if !slices.Equal(turn.Progress.SteeredBy, others) {
				t.Errorf("it is steered by %q, want %q", turn.Progress.SteeredBy, others)
			}
			back := message("demo-3", "And again.")
			back.SubmittedBy = test.own
			if turn, _ = b.reason(steeredBy(turn, back), with()); turn.User() != test.want {
				t.Errorf("after another message of its own user it is %q", turn.User())
			}
		})
	}
}

func TestTheUsersWhoSteerATurnAreBounded(t *testing.T) {
	var users []string
	for n := range v1alpha1.MaxSteeringUsers {
		users = withUser(users, fmt.Sprintf("user-%d", n))
	}
	users = withUser(users, "user-0")
	if len(users) != v1alpha1.MaxSteeringUsers || slices.Contains(users, "") {
		t.Fatalf("it is steered by %q", users)
	}
	before := slices.Clone(users)
	more := withUser(withUser(users, "one-more"), "and-another")
	if len(more) != v1alpha1.MaxSteeringUsers+1 || !slices.Contains(more, "") || !slices.Contains(more, "user-3") {
		t.Errorf("it is steered by %q", more)
	}
	if !slices.Equal(users, before) {
		t.Errorf("the list was changed: %q", users)
	}
	if got := withUser([]string{""}, ""); len(got) != 1 {
		t.Errorf("unknown users are %q", got)
	}
}

func TestATurnLearnsThatItsMessageWentIntoAnother(t *testing.T) {
	b := newBench(t)
	waits := message("demo-2", "And Bob?")
	b.reason(steeredBy(newTurn("demo-1"), waits), with())
	sent := turnstate.Turn{Session: session, Ref: waits.Ref, Input: waits.Input}
	progress, into, err := b.Steered(t.Context(), sent, 0)
	if err != nil || progress == nil || progress.Phase != v1alpha1.TurnPhaseSucceeded ||
		progress.Plan.StopReason != v1alpha1.StopReasonSteered ||
		into.Name != "demo-1" {
		t.Fatalf("progress %+v into %+v, %v", progress, into, err)
	}
	if progress, _, err := b.Steered(t.Context(), newTurn("demo-1"), 0); progress != nil || err != nil {
		t.Errorf("the Turn that ran itself: %+v, %v", progress, err)
	}

	again := sent
	again.Ref.UID = "created-again-uid"
	if progress, _, err := b.Steered(t.Context(), again, 0); progress != nil || err != nil {
		t.Errorf("another Turn of the name: %+v, %v", progress, err)
	}
	recalled, err := b.Recall(t.Context(), again, 0)
	if err != nil || recalled == nil || !recalled.SameMessage || recalled.SteeredInto == nil ||
		recalled.SteeredInto.Name != "demo-1" {
		t.Fatalf("created again: %+v, %v", recalled, err)
	}
	again.Input = "Something else."
	if recalled, err = b.Recall(t.Context(), again, 0); err != nil || recalled == nil || recalled.SameMessage {
		t.Errorf("another message under the name: %+v, %v", recalled, err)
	}
}
