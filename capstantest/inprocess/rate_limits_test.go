package inprocess_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest/clock"
	"github.com/capstan-dev/capstan/capstantest/inprocess"
	"github.com/capstan-dev/capstan/capstantest/providers"
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

// A Turn that has room within the limits of its Model, and then waits for a key, leaves the room to others.
func TestATurnThatWaitsForAKeyKeepsNoRoomInProcess(t *testing.T) {
	url, requests, options := guardedSite(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	})
	keyed := builder.Model("keyed").Default().Obj()
	keyed.Spec = v1alpha1.ModelSpec{
		Provider: v1alpha1.ModelProviderOpenAI, Model: "m", BaseURL: url + "/v1",
		SecretKeyRef: &v1alpha1.SecretKeyReference{Name: "key", Key: "token"},
		Limits:       &v1alpha1.ModelLimits{RequestsPerMinute: ptr.To[int32](1)},
	}
	key := map[string]string{"token": "sk-x"}
	c := clock.New(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	runtime := start(t, append(options, inprocess.WithProviders(providers.All()), inprocess.WithObjects(keyed),
		inprocess.WithSecret("key", key), inprocess.WithClock(c), inprocess.WithoutPauses())...)
	if turn := run(t, runtime, message("one", "Hi")); reason(turn) != "False ProviderMisconfigured" {
		t.Fatalf("the first Turn: %+v", turn.Status)
	}
	lost := false
	c.OnJump(func() {
		// The Turn has waited for its limit, and has room now.
		if !lost {
			lost = true
			if err := runtime.Apply(secret("key", map[string]string{"other": "x"})); err != nil {
				t.Error(err)
			}
		}
	})
	expectWait(t, run(t, runtime, message("two", "Hi")), v1alpha1.ReasonSecretKeyMissing, "kubectl patch secret key")
	if !lost {
		t.Fatal("the second Turn has not waited for its limit")
	}
	if _, err := runtime.Cancel(t.Context(), "two"); err != nil {
		t.Fatal(err)
	}
	if err := runtime.Apply(secret("key", key)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	turn, err := runtime.RunTurn(ctx, message("three", "Hi"))
	if err != nil || reason(turn) != "False ProviderMisconfigured" || requests.Load() != 2 {
		t.Errorf("the third Turn: %+v, %v, after %d requests", turn.Status, err, requests.Load())
	}
}
