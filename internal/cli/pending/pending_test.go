package pending_test

import (
	"reflect"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/cli/pending"
)

const schema = `{"type":"object","required":["city"],"properties":{
	"city":{"type":"string","description":"Where"},"days":{"type":"integer"},"price":{"type":"number"},
	"late":{"type":"boolean"},"tags":{"type":"array"}}}`

func turnWith(calls ...v1alpha1.ToolCall) *v1alpha1.Turn {
	turn := &v1alpha1.Turn{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "demo-1", UID: "u-1"}}
	turn.Spec.SessionRef.Name, turn.Spec.SubmittedBy = "demo", "bob"
	turn.Status.Phase = v1alpha1.TurnPhaseWaitingForToolResults
	turn.Status.ToolCalls = calls
	return turn
}

func waits(id, reason string, change ...func(*v1alpha1.ToolCall)) v1alpha1.ToolCall {
	call := v1alpha1.ToolCall{
		ID: id, Name: "pay", State: v1alpha1.ToolCallStateWaiting, Reason: reason, Executor: v1alpha1.ToolExecutorJob,
		Arguments: `{"euros":40}`, CallDigest: strings.Repeat("a", 64),
	}
	for _, apply := range change {
		apply(&call)
	}
	return call
}

func asks(mode v1alpha1.ToolInputMode, id string) func(*v1alpha1.ToolCall) {
	return func(c *v1alpha1.ToolCall) {
		q := v1alpha1.ToolInputRequest{ID: id, Mode: mode, Message: "Tell me"}
		if mode == v1alpha1.ToolInputModeForm {
			q.RequestedSchema = &v1alpha1.JSON{Raw: []byte(schema)}
		}
		c.Input = &v1alpha1.ToolInput{Round: 1, Requests: []v1alpha1.ToolInputRequest{q}}
	}
}

func TestSelect(t *testing.T) {
	calls := pending.Of(turnWith(waits("1-0", "Approval"), waits("1-1", ""), waits("1-2", "Approval"),
		v1alpha1.ToolCall{ID: "1-3", State: v1alpha1.ToolCallStateRunning}))
	for name, test := range map[string]struct {
		ids   []string
		kinds []pending.Kind
		want  string
		err   string
	}{
		"the only one":   {kinds: []pending.Kind{pending.Client}, want: "1-1"},
		"one of several": {ids: []string{"1-2"}, kinds: []pending.Kind{pending.Approval}, want: "1-2"},
		"once":           {ids: []string{"1-2", "1-2"}, kinds: []pending.Kind{pending.Approval}, want: "1-2"},
		"several, none":  {kinds: []pending.Kind{pending.Approval}, err: "name one of 1-0 (pay), 1-2 (pay)"},
		"one of other kind": {
			ids: []string{"1-1"}, kinds: []pending.Kind{pending.Approval}, err: "does not wait for approval",
		},
		"none of the kind": {
			kinds: []pending.Kind{pending.Input}, err: "1-1 pay waits for a result from a client",
		},
	} {
		t.Run(name, func(t *testing.T) {
			chosen, err := pending.Select("demo-1", calls, test.ids, test.kinds...)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("got %v, want %q", err, test.err)
				}
				return
			}
			if err != nil || len(chosen) != 1 || chosen[0].ID != test.want {
				t.Errorf("got %v, %v, want %s", chosen, err, test.want)
			}
		})
	}
}

// TestEveryWaitHasItsCommand: the commands of each kind, quoted for a shell although tools write the ids.
func TestEveryWaitHasItsCommand(t *testing.T) {
	for name, test := range map[string]struct {
		call v1alpha1.ToolCall
		want []string
	}{
		"approval": {waits("1-0", "Approval"), []string{
			"pay waits for approval", `{"euros":40}`, "sent by    bob", "kubectl capstan -n shop approve demo-1 1-0",
			"kubectl capstan -n shop reject demo-1 1-0",
		}},
		"client": {waits("1-0", "ClientTools"), []string{
			"waits for a result from a client", "answer demo-1 1-0 --result TEXT",
		}},
		"question": {waits("1-0", "Input", asks(v1alpha1.ToolInputModeForm, "a city; rm")), []string{
			"the tool writes: Tell me", "city (string), required: Where",
			"answer demo-1 1-0 --question 'a city; rm' --set city=VALUE",
		}},
		"address": {waits("1-0", "Input", asks(v1alpha1.ToolInputModeURL, "it's")), []string{
			`--question 'it'\''s' --accept`,
		}},
		"connection": {waits("1-0", "Connection", asks(v1alpha1.ToolInputModeConnection, "github")), []string{
			"--question github --accept",
		}},
		"hidden arguments": {waits("1-0", "Approval", func(c *v1alpha1.ToolCall) {
			c.Arguments, c.Preview = `{"euros":4`, "The arguments have 9000 bytes."
		}), []string{"NOT ALL ARGUMENTS ARE SHOWN. The arguments have 9000 bytes."}},
	} {
		t.Run(name, func(t *testing.T) {
			turn := turnWith(test.call)
			var all []string
			for _, line := range pending.Lines(turn, pending.Of(turn)[0], "kubectl capstan -n shop") {
				all = append(all, line.String())
			}
			shown := strings.Join(all, "\n")
			for _, want := range test.want {
				if !strings.Contains(shown, want) {
					t.Errorf("%q is not in:\n%s", want, shown)
				}
			}
		})
	}
}

func TestAHostileToolIsBounded(t *testing.T) {
	call := waits("1-0", "Input", asks(v1alpha1.ToolInputModeForm, "q"))
	call.Input.Requests[0].Message = strings.Repeat("line\n", 5000)
	var properties []string
	for i := range 200 {
		properties = append(properties, `"`+strconv.Itoa(i)+`\u001b[2J`+strings.Repeat("x", 5000)+`":{"title":"`+
			strings.Repeat("t", 5000)+`"}`)
	}
	call.Input.Requests[0].RequestedSchema.Raw = []byte(`{"properties":{` + strings.Join(properties, ",") + `}}`)
	turn := turnWith(call)
	size := 0
	for _, line := range pending.Lines(turn, pending.Of(turn)[0], "kubectl capstan") {
		size += len(line.String())
	}
	if size > 100<<10 {
		t.Errorf("%d bytes are shown", size)
	}
}

func TestDecide(t *testing.T) {
	turn := turnWith(waits("1-0", "Approval"))
	turn.Status.SteeredBy = []string{"eve"}
	got := pending.Decide(turn, pending.Of(turn)[0], v1alpha1.DecisionApprove, "ann").Spec
	want := v1alpha1.ToolResultSpec{
		TurnRef: v1alpha1.TurnReference{Name: "demo-1", UID: "u-1"}, CallID: "1-0", CallDigest: strings.Repeat("a", 64),
		Decision: v1alpha1.DecisionApprove, SubmittedBy: "ann", TurnSubmittedBy: "bob",
		TurnSteeredBy: []string{"eve"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestContent(t *testing.T) {
	for name, test := range map[string]struct {
		pairs     []string
		want, err string
	}{
		"types": {
			pairs: []string{"city=Bern", "days=3", "price=1.50", "late=true", `tags=["a"]`, "other=1"},
			want:  `{"city":"Bern","days":3,"late":true,"other":"1","price":1.50,"tags":["a"]}`,
		},
		"an equals sign": {pairs: []string{"city=a=b"}, want: `{"city":"a=b"}`},
		"required":       {pairs: []string{"days=3"}, err: "requires city (string), required: Where: add --set city=VALUE"},
		"no integer":     {pairs: []string{"city=x", "days=three"}, err: `"three" is not an integer`},
		"no boolean":     {pairs: []string{"city=x", "late=perhaps"}, err: "is not true or false"},
		"no pair":        {pairs: []string{"city"}, err: "write name=value"},
		"no number":      {pairs: []string{"city=x", "price=NaN"}, err: "is not a number"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := pending.Content([]byte(schema), test.pairs)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("got %v, want %q", err, test.err)
				}
				return
			}
			if err != nil || string(got) != test.want {
				t.Errorf("got %s, %v, want %s", got, err, test.want)
			}
		})
	}
}

func TestAnEndedTurnWaitsForNothing(t *testing.T) {
	turn := turnWith(waits("1-0", "Approval"))
	turn.Status.Phase = v1alpha1.TurnPhaseCancelled
	if calls := pending.Of(turn); len(calls) > 0 {
		t.Errorf("got %v", calls)
	}
	turn = turnWith()
	turn.Status.Phase = v1alpha1.TurnPhaseQueued
	turn.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ConditionSucceeded, Reason: v1alpha1.ReasonSessionNotFound, Message: "Create it.",
	}}
	if got := pending.Other(turn); got != "SessionNotFound: Create it." {
		t.Errorf("got %q", got)
	}
}
