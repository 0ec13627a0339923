package inprocess_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest/clock"
	"github.com/capstan-dev/capstan/capstantest/inprocess"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// A model call waits in process as it does in a cluster, and WithoutPauses passes the wait.
func TestAModelCallWaitsForItsLimitInProcess(t *testing.T) {
	limited := builder.Model("limited").Default().Obj()
	limited.Spec.Provider, limited.Spec.Simulation = v1alpha1.ModelProviderSimulated, &v1alpha1.Simulation{}
	limited.Spec.Limits = &v1alpha1.ModelLimits{RequestsPerMinute: ptr.To[int32](1)}
	c := clock.New(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	runtime := start(t, inprocess.WithObjects(limited), inprocess.WithClock(c), inprocess.WithoutPauses())
	began := c.Now()
	for _, name := range []string{"one", "two", "three"} {
		if turn := run(t, runtime, message(name, "Hi")); reason(turn) != "True EndTurn" {
			t.Fatalf("Turn %s: %+v", name, turn.Status)
		}
	}
	if waited := c.Now().Sub(began); waited < 2*time.Minute || waited > 2*time.Minute+10*time.Second {
		t.Errorf("Three calls have taken %v", waited)
	}
}

// Rules: TOOL-14.
func TestACallAboveTheLimitDoesNotRunInProcess(t *testing.T) {
	tool := builder.JobTool("wc", v1alpha1.SideEffectPure).Obj()
	tool.Spec.CallsPerMinute = ptr.To[int32](1)
	script := calling([]string{"wc", "wc"})
	model := builder.Model("script").Default().Obj()
	model.Spec.Provider, model.Spec.Simulation = v1alpha1.ModelProviderSimulated, &script
	session := builder.Session("demo").Obj()
	session.Spec.Tools = []v1alpha1.LocalReference{{Name: "wc"}}
	calls := 0
	runtime := start(t, inprocess.WithObjects(model, tool, session), inprocess.WithTool("wc",
		func(inprocess.Call) (string, string, int) { calls++; return "2", "", 0 }))
	turn := run(t, runtime, message("one", "Hi"))
	if reason(turn) != "True EndTurn" || calls != 1 {
		t.Fatalf("%d calls, %+v", calls, turn.Status)
	}
	events, err := runtime.Events(t.Context(), "demo")
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, e := range events {
		if strings.HasPrefix(e.Type, "tool.") {
			types = append(types, e.Type)
		}
	}
	if got := strings.Join(types, " "); got != "tool.started tool.completed tool.rate_limited" {
		t.Error(got)
	}
}
