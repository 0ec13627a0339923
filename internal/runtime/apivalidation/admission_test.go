package apivalidation

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

func TestAdmitFillsInDefaults(t *testing.T) {
	tool := &v1alpha1.Tool{
		ObjectMeta: named("work"),
		Spec:       v1alpha1.ToolSpec{Description: "Works.", Job: &v1alpha1.JobTool{Image: "i", Command: []string{"/c"}}},
	}
	if err := Admit(tool); err != nil {
		t.Fatal(err)
	}
	if job := tool.Spec.Job; job.Timeout == nil || job.Timeout.Duration != 5*time.Minute ||
		job.Network != v1alpha1.NetworkReachDefault {
		t.Errorf("the job is %+v", job)
	}
	session := &v1alpha1.Session{
		ObjectMeta: named("demo"),
		Spec:       v1alpha1.SessionSpec{HarnessRef: v1alpha1.LocalReference{Name: "base"}},
	}
	if err := Admit(session); err != nil {
		t.Fatal(err)
	}
	if session.Spec.ClientTools != v1alpha1.ClientToolsPolicyWait || session.Spec.JournalLimit.String() != "16Mi" {
		t.Errorf("the Session is %+v", session.Spec)
	}
	turn := &v1alpha1.Turn{
		ObjectMeta: named("demo-1"),
		Spec:       v1alpha1.TurnSpec{SessionRef: v1alpha1.LocalReference{Name: "demo"}, Input: "Hello."},
	}
	turn.Status.Phase = v1alpha1.TurnPhaseSucceeded
	if err := Admit(turn); err != nil {
		t.Fatal(err)
	}
	if turn.Spec.Delivery != v1alpha1.DeliveryQueue || turn.Status.Phase != v1alpha1.TurnPhaseQueued ||
		turn.Status.ObservedGeneration != -1 {
		t.Errorf("the Turn is %+v", turn)
	}
}

func TestAdmitRefuses(t *testing.T) {
	long := strings.Repeat("x", 64)
	text := "x"
	client := &v1alpha1.ClientTool{}
	for name, test := range map[string]struct {
		object  Object
		message string
	}{
		"no name":            {&v1alpha1.Agent{}, "metadata.name"},
		"a name of capitals": {&v1alpha1.Agent{ObjectMeta: named("Agent")}, "metadata.name"},
		"a required field": {
			&v1alpha1.Tool{ObjectMeta: named("t"), Spec: v1alpha1.ToolSpec{Client: client}}, "spec.description",
		},
		"a value of no enum": {
			&v1alpha1.Harness{ObjectMeta: named("h"), Spec: v1alpha1.HarnessSpec{Lifecycle: "Asleep"}}, "spec.lifecycle",
		},
		"a Tool that nothing runs": {
			&v1alpha1.Tool{ObjectMeta: named("t"), Spec: v1alpha1.ToolSpec{Description: "d"}},
			"exactly one of job, http, client and agent",
		},
		"a Tool with a dot": {
			&v1alpha1.Tool{ObjectMeta: named("t.u"), Spec: v1alpha1.ToolSpec{Description: "d", Client: client}}, "no dots",
		},
		"a client's policy": {
			&v1alpha1.Tool{
				ObjectMeta: named("t"), Spec: v1alpha1.ToolSpec{Description: "d", Client: client, Policy: v1alpha1.ToolPolicyAuto},
			},
			"the client decides",
		},
		"a client's side effect": {
			&v1alpha1.Tool{
				ObjectMeta: named("t"),
				Spec:       v1alpha1.ToolSpec{Description: "d", Client: client, SideEffect: v1alpha1.SideEffectPure},
			},
			"run by its client",
		},
		"an approval timeout": {
			&v1alpha1.Tool{ObjectMeta: named("t"), Spec: v1alpha1.ToolSpec{
				Description: "d", Job: &v1alpha1.JobTool{
					Image: "i", Command: []string{"c"},
				}, ApprovalTimeout: &metav1.Duration{Duration: time.Minute},
			}},
			"RequiresApproval",
		},
		"a Turn without a message": {
			&v1alpha1.Turn{ObjectMeta: named("t"), Spec: v1alpha1.TurnSpec{SessionRef: v1alpha1.LocalReference{Name: "s"}}},
			"exactly one of input",
		},
		"a Turn with a long name": {
			&v1alpha1.Turn{
				ObjectMeta: named(long), Spec: v1alpha1.TurnSpec{SessionRef: v1alpha1.LocalReference{Name: "s"}, Input: "x"},
			},
			"63 characters",
		},
		"a message too long": {
			&v1alpha1.Turn{
				ObjectMeta: named("t"),
				Spec:       v1alpha1.TurnSpec{SessionRef: v1alpha1.LocalReference{Name: "s"}, Input: strings.Repeat("x", 65537)},
			},
			"spec.input",
		},
		"a result and a decision": {
			&v1alpha1.ToolResult{ObjectMeta: named("r"), Spec: v1alpha1.ToolResultSpec{
				TurnRef: v1alpha1.TurnReference{
					Name: "t",
				}, CallID: "1-0", Result: &text, Decision: v1alpha1.DecisionApprove, SubmittedBy: "ann",
			}},
			"exactly one of result",
		},
		"a call id of none": {
			&v1alpha1.ToolResult{
				ObjectMeta: named("r"),
				Spec:       v1alpha1.ToolResultSpec{TurnRef: v1alpha1.TurnReference{Name: "t"}, CallID: "x", Result: &text},
			},
			"spec.callID",
		},
		"an anonymous decision": {
			&v1alpha1.ToolResult{
				ObjectMeta: named("r"),
				Spec: v1alpha1.ToolResultSpec{
					TurnRef: v1alpha1.TurnReference{Name: "t"}, CallID: "1-0", Decision: v1alpha1.DecisionReject,
				},
			},
			"submittedBy",
		},
		"an entry of the log": {&v1alpha1.JournalEntry{ObjectMeta: named("e")}, "no object that users"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := Admit(test.object); err == nil || !strings.Contains(err.Error(), test.message) {
				t.Errorf("Admit = %v, want an error with %q", err, test.message)
			}
		})
	}
}

func TestDecodeReadsWhatIsWritten(t *testing.T) {
	const model = "apiVersion: capstan.dev/v1alpha1\nkind: Model\nmetadata: {name: m}\n"
	o, err := Decode("Model", []byte(model+"spec: {provider: Simulated, simulation: {}}"))
	if err != nil || o.GetName() != "m" {
		t.Fatalf("Decode = %v, %v", o, err)
	}
	for message, spec := range map[string]string{
		"provider Simulated requires simulation": "{provider: Simulated}",
		`unknown field "smulation"`:              "{provider: Simulated, smulation: {}}",
		"a price is a decimal": `{provider: Simulated, simulation: {}, ` +
			`price: {inputPerMillionTokens: "", outputPerMillionTokens: "1"}}`,
		"spec.provider in body should be one of":  "{provider: Unknown}",
		"spec.simulation.response: Invalid value": "{provider: Simulated, simulation: {response: {tokens: 3}}}",
		"provider Simulated uses no network":      "{provider: Simulated, simulation: {}, baseURL: https://example.org}",
		"cannot unmarshal":                        "7",
		"at most one of fixed and sequence may be": "{provider: Simulated, " +
			"simulation: {toolCalls: {fixed: [], sequence: []}}}",
	} {
		if _, err := Decode("Model", []byte(model+"spec: "+spec)); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("of %s Decode returned %v, want %q", spec, err, message)
		}
	}
	if _, err := Decode("JournalEntry", []byte(model)); err == nil {
		t.Error("an entry of the log is read")
	}
}
