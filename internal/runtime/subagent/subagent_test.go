package subagent_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/subagent"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// call is a call of the tool helper by the Turn demo-1 in the Session demo.
func call(changes ...func(*subagent.Call)) subagent.Call {
	c := subagent.Call{
		Session: &v1alpha1.Session{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: "demo", UID: "s1", Labels: map[string]string{"team": "a"},
				Annotations: map[string]string{"note": "b"},
			},
			Spec: v1alpha1.SessionSpec{
				HarnessRef: v1alpha1.LocalReference{Name: "base"}, AgentRef: &v1alpha1.LocalReference{Name: "lead"},
				ConfigLayer: v1alpha1.ConfigLayer{
					SystemPrompt:  "Be brief.",
					Tools:         []v1alpha1.LocalReference{{Name: "pay"}},
					NetworkAccess: &v1alpha1.NetworkAccess{Allowed: []v1alpha1.NetworkPattern{"example.org"}},
				},
				Hints: map[string]v1alpha1.JSON{
					v1alpha1.HintSetupConnection: {Raw: []byte("true")}, "other": {Raw: []byte("1")},
				},
				ClientTools: v1alpha1.ClientToolsPolicyFollowHints,
			},
		},
		Turn: &v1alpha1.Turn{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo-1", UID: "t1"},
			Spec:       v1alpha1.TurnSpec{SubmittedBy: "ann"},
			Status: v1alpha1.TurnStatus{TurnProgress: v1alpha1.TurnProgress{
				Plan: &v1alpha1.TurnPlan{Step: 2, Locale: "de-CH"},
			}},
		},
		Step: 2,
		Call: v1alpha1.ToolCall{ID: "1-0"},
		Tool: &v1alpha1.Tool{
			ObjectMeta: metav1.ObjectMeta{Name: "helper"}, Spec: v1alpha1.ToolSpec{Agent: &v1alpha1.AgentTool{}},
		},
		Arguments: `{"message":"Look."}`,
	}
	for _, change := range changes {
		change(&c)
	}
	return c
}

func elsewhere(c *subagent.Call) {
	c.Tool.Spec.Agent.HarnessRef = &v1alpha1.LocalReference{Name: "other"}
}

// Rules: SVC-04.
func TestASubAgentDoesNotInheritTheServiceAccountOfTheSession(t *testing.T) {
	session := call(func(c *subagent.Call) { c.Session.Spec.ServiceAccountName = "bot" }).NewSession()
	if session.Spec.ServiceAccountName != "" {
		t.Errorf("the sub-agent acts as %s", session.Spec.ServiceAccountName)
	}
}

// Rules: CONN-01.
func TestASubAgentHasTheUserOfItsCaller(t *testing.T) {
	for users, want := range map[v1alpha1.TurnUsers]string{"": "ann", v1alpha1.TurnUsersSeveral: ""} {
		turn := call(func(c *subagent.Call) { c.Turn.Status.Users = users }).NewTurn("s2")
		if turn.Spec.SubmittedBy != want {
			t.Errorf("with users %q it is %q", users, turn.Spec.SubmittedBy)
		}
	}
}

// Rules: SPAWN-05.
func TestASubAgentInheritsHarnessAndAgentAndNothingOfTheSession(t *testing.T) {
	session := call().NewSession()
	if session.Spec.HarnessRef.Name != "base" || session.Spec.AgentRef.Name != "lead" {
		t.Errorf("it has %v and %v", session.Spec.HarnessRef, session.Spec.AgentRef)
	}
	if session.Spec.SystemPrompt != "" || session.Spec.Tools != nil || len(session.Spec.Hints) != 1 ||
		session.Labels["team"] != "" || session.Annotations != nil {
		t.Errorf("it has fields of the calling Session: %+v", session)
	}
	if session.Spec.NetworkAccess.Allowed[0] != "example.org" || session.Spec.Locale != "de-CH" ||
		session.Spec.ClientTools != v1alpha1.ClientToolsPolicyFollowHints {
		t.Errorf("it lacks what narrows the calling Session: %+v", session.Spec)
	}
	other := call(elsewhere).NewSession()
	if other.Spec.HarnessRef.Name != "other" || other.Spec.AgentRef != nil {
		t.Errorf("with a Harness of its own it has %v and %v", other.Spec.HarnessRef, other.Spec.AgentRef)
	}
}

func TestTheOriginNamesTheCallAndTheRoot(t *testing.T) {
	top := call().NewSession()
	below := call(func(c *subagent.Call) {
		top.UID = "s2"
		c.Session = top
	}).NewSession().Spec.Origin.SubAgentOf()
	if of := top.Spec.Origin.SubAgentOf(); of.Depth != 1 || of.Root.UID != "s1" || of.Session.UID != "s1" ||
		of.Turn.UID != "t1" || of.Step != 2 || of.CallID != "1-0" {
		t.Errorf("the origin is %+v", of)
	}
	if below.Depth != 2 || below.Root.UID != "s1" || below.Session.UID != "s2" {
		t.Errorf("the origin one level deeper is %+v", below)
	}
}

func TestTheTurnHasTheTimeoutOfTheTool(t *testing.T) {
	for name, test := range map[string]struct {
		timeout time.Duration
		want    int64
	}{
		"none":        {0, 300},
		"whole":       {90 * time.Second, 90},
		"rounded up":  {1500 * time.Millisecond, 2},
		"of a minute": {time.Minute, 60},
	} {
		t.Run(name, func(t *testing.T) {
			turn := call(func(c *subagent.Call) {
				if test.timeout > 0 {
					c.Tool.Spec.Agent.Timeout = &metav1.Duration{Duration: test.timeout}
				}
			}).NewTurn("s2")
			if *turn.Spec.ActiveDeadlineSeconds != test.want || turn.Spec.SubmittedBy != "ann" {
				t.Errorf("the Turn has %+v", turn.Spec)
			}
		})
	}
}

func TestMessage(t *testing.T) {
	for arguments, want := range map[string]string{
		`{"message":"Look."}`:          "Look.",
		`{"message":"Look.","at":"x"}`: `{"message":"Look.","at":"x"}`,
		`{"message":7}`:                `{"message":7}`,
		`{"message":" "}`:              `{"message":" "}`,
		`{"question":"Look."}`:         `{"question":"Look."}`,
		"":                             "{}",
	} {
		if got := subagent.Message(arguments); got != want {
			t.Errorf("the message of %s is %q, want %q", arguments, got, want)
		}
	}
	if tooLong(`{"message":"`+strings.Repeat("ü", 65536)+`"}`) != nil {
		t.Error("the longest message is refused")
	}
	if tooLong(`{"message":"`+strings.Repeat("ü", 65537)+`"}`) == nil {
		t.Error("a message that is too long is accepted")
	}
}

// Rules: SPAWN-01.
func TestOnlyTheSameSessionIsAdopted(t *testing.T) {
	same := call().NewSession()
	same.Labels, same.UID = map[string]string{"a": "b"}, "s2"
	if !call().SameSession(same) {
		t.Error("the same Session is not adopted")
	}
	now := metav1.Now()
	for name, change := range map[string]func(*v1alpha1.Session){
		"another owner":   func(s *v1alpha1.Session) { s.OwnerReferences[0].UID = "s9" },
		"two owners":      func(s *v1alpha1.Session) { s.OwnerReferences = append(s.OwnerReferences, s.OwnerReferences[0]) },
		"another call":    func(s *v1alpha1.Session) { s.Spec.Origin.SubAgent.CallID = "1-1" },
		"a prompt":        func(s *v1alpha1.Session) { s.Spec.SystemPrompt = "Obey." },
		"another Harness": func(s *v1alpha1.Session) { s.Spec.HarnessRef.Name = "x" },
		"no network list": func(s *v1alpha1.Session) { s.Spec.NetworkAccess = nil },
		"being deleted":   func(s *v1alpha1.Session) { s.DeletionTimestamp = &now },
	} {
		t.Run(name, func(t *testing.T) {
			other := call().NewSession()
			change(other)
			if call().SameSession(other) {
				t.Error("it is adopted")
			}
		})
	}
	own := call().NewTurn("s2")
	own.Spec.DesiredState = v1alpha1.DesiredStateCancelled
	if !call().SameTurn(own, "s2") || call().SameTurn(own, "s3") {
		t.Error("a cancelled Turn of the call is not adopted, or in another Session it is")
	}
	own.Spec.Input = "Other."
	if call().SameTurn(own, "s2") {
		t.Error("a Turn with another message is adopted")
	}
}

// Rules: SPAWN-03.
func TestTheOutcomeOfACallIsTheEndOfItsSubAgent(t *testing.T) {
	turn := func(phase v1alpha1.TurnPhase, change func(*v1alpha1.TurnProgress)) *v1alpha1.Turn {
		p := v1alpha1.TurnProgress{Phase: phase, Summary: &v1alpha1.TurnSummary{ModelCalls: 2}}
		if change != nil {
			change(&p)
		}
		return &v1alpha1.Turn{Status: v1alpha1.TurnStatus{TurnProgress: p}}
	}
	for name, test := range map[string]struct {
		turn   *v1alpha1.Turn
		state  v1alpha1.ToolCallState
		reason string
		text   string
	}{
		"a response": {
			turn(v1alpha1.TurnPhaseSucceeded, nil), v1alpha1.ToolCallStateSucceeded, v1alpha1.ToolCallReasonCompleted, "found",
		},
		"a response at the limit": {turn(v1alpha1.TurnPhaseSucceeded, func(p *v1alpha1.TurnProgress) {
			p.Plan = &v1alpha1.TurnPlan{StopReason: v1alpha1.StopReasonMaxTurnRequests}
		}), v1alpha1.ToolCallStateSucceeded, v1alpha1.ToolCallReasonCompleted, "before it had finished"},
		"cancelled": {
			turn(v1alpha1.TurnPhaseCancelled, nil), v1alpha1.ToolCallStateFailed,
			v1alpha1.ToolCallReasonSubAgentCancelled, "cancelled",
		},
		"too late": {turn(v1alpha1.TurnPhaseFailed, func(p *v1alpha1.TurnProgress) {
			p.Error = &v1alpha1.TurnError{Code: v1alpha1.ErrorCodeDeadlineExceeded}
		}), v1alpha1.ToolCallStateFailed, v1alpha1.ToolCallReasonTimeout, "in time"},
		"failed": {turn(v1alpha1.TurnPhaseFailed, func(p *v1alpha1.TurnProgress) {
			p.Error = &v1alpha1.TurnError{Code: v1alpha1.ErrorCodeProcessingError, Message: "It broke."}
		}), v1alpha1.ToolCallStateFailed, v1alpha1.ToolCallReasonSubAgentFailed, "It broke."},
	} {
		t.Run(name, func(t *testing.T) {
			outcome := subagent.Ended(test.turn, "found")
			text := outcome.Error
			if outcome.Result != nil {
				text = *outcome.Result
			}
			if outcome.State != test.state || outcome.Reason != test.reason || !strings.Contains(text, test.text) ||
				outcome.SubAgent.ModelCalls != 2 {
				t.Errorf("the outcome is %+v, %q", outcome, text)
			}
		})
	}
}

func TestTotalsAddUpOverLevels(t *testing.T) {
	p := v1alpha1.TurnProgress{Summary: &v1alpha1.TurnSummary{
		Usage: v1alpha1.Usage{InputTokens: 1, OutputTokens: 2, TotalTokens: 3}, ModelCalls: 1,
		Cost: []v1alpha1.Cost{{Currency: "EUR", Amount: "0.5"}},
		SubAgents: &v1alpha1.SubAgentsSummary{Calls: 1, SubAgentTotals: v1alpha1.SubAgentTotals{
			Usage: v1alpha1.Usage{InputTokens: 10, TotalTokens: 10}, ModelCalls: 4, UnpricedModelCalls: 1,
			Cost: []v1alpha1.Cost{{Currency: "EUR", Amount: "0.25"}},
		}},
	}}
	totals := subagent.Totals(&p)
	if totals.ModelCalls != 5 || totals.Usage.TotalTokens != 13 || totals.Cost[0].Amount != "0.75" ||
		totals.UnpricedModelCalls != 1 {
		t.Errorf("the totals are %+v", totals)
	}
	next := v1alpha1.TurnProgress{Summary: &v1alpha1.TurnSummary{}}
	subagent.AddEnded(&next, []v1alpha1.ToolCall{
		{ID: "1-0", SubAgent: &v1alpha1.SubAgentReference{Totals: totals}},
		{ID: "1-1"},
		{ID: "1-2", SubAgent: &v1alpha1.SubAgentReference{}},
		{ID: "1-3", SubAgent: &v1alpha1.SubAgentReference{Totals: totals}},
	})
	if next.Summary.SubAgents.ModelCalls != 10 || next.Summary.SubAgents.Cost[0].Amount != "1.5" {
		t.Errorf("the totals of the calls are %+v", next.Summary.SubAgents)
	}
}

func TestLimits(t *testing.T) {
	for name, test := range map[string]struct {
		limits         subagent.Limits
		depth, planned int32
		refused        bool
	}{
		"the defaults, inside": {subagent.Limits{}, 2, 31, false},
		"too deep":             {subagent.Limits{}, 3, 0, true},
		"too many":             {subagent.Limits{}, 0, 32, true},
		"a higher depth":       {subagent.Limits{Depth: 4}, 3, 0, false},
		"one for each Turn":    {subagent.Limits{PerTurn: 1}, 0, 1, true},
	} {
		if got := test.limits.Refuse(test.depth, test.planned); (got != "") != test.refused {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// tooLong is the outcome of a call with arguments that are too long.
func tooLong(arguments string) *tool.Outcome {
	c := call()
	c.Arguments = arguments
	return c.TooLong()
}

// Rules: BP-04.
func TestASubAgentIsABlueprintWithTheArgumentConfig(t *testing.T) {
	of := func(arguments string) subagent.Call {
		c := call()
		c.Tool = c.Tool.DeepCopy()
		c.Tool.Spec.Agent.Blueprint = &v1alpha1.AgentBlueprint{
			Capability: "research", Name: "reader", MaxRisk: v1alpha1.CapabilityRiskHigh,
		}
		c.Arguments = arguments
		return c
	}
	for arguments, want := range map[string][2]string{
		`{"message":"Look."}`:                                 {"", "Look."},
		`{"message":"Look.","config":{"depth":2.0,"a":"b"}}`:  {`{"a":"b","depth":2.0}`, "Look."},
		`{"message":"Look.","config":[1]}`:                    {"", `{"message":"Look.","config":[1]}`},
		`{"message":"Look.","at":"x","config":{"depth":"x"}}`: {`{"depth":"x"}`, `{"at":"x","message":"Look."}`},
	} {
		c := of(arguments)
		session, turn := c.NewSession(), c.NewTurn("s1")
		b, config := session.Spec.Blueprint, ""
		if b == nil || b.Capability != "research" || b.Name != "reader" || b.MaxRisk != v1alpha1.CapabilityRiskHigh {
			t.Fatalf("the Session is %+v", b)
		}
		if b.Config != nil {
			config = string(b.Config.Raw)
		}
		if config != want[0] || turn.Spec.Input != want[1] {
			t.Errorf("%s: the config is %q, the message %q", arguments, config, turn.Spec.Input)
		}
	}
	same, c := of(
		`{"message":"Look.","config":{"depth":2.0}}`,
	).NewSession(),
		of(
			`{"message":"Look.","config":{"depth":2}}`,
		)
	if !c.SameSession(same) {
		t.Error("the Session is not adopted, because a number was encoded in another way")
	}
	other := of(`{"message":"Look.","config":{"depth":3}}`).NewSession()
	if c.SameSession(other) {
		t.Error("a Session with another config is adopted")
	}
	if of(`{"message":"Look.","config":{"a":"`+strings.Repeat("x", 2048)+`"}}`).TooLong() == nil {
		t.Error("a config that is too large is accepted")
	}
	if call().NewSession().Spec.Blueprint != nil {
		t.Error("a Session without a blueprint has one")
	}
}
