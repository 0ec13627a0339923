package inprocess_test

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest/clock"
	"github.com/capstan-dev/capstan/capstantest/inprocess"
	"github.com/capstan-dev/capstan/capstantest/providers"
)

// within waits for a channel to be closed, for no longer than a Turn takes.
func within(t *testing.T, closed <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		t.Fatal(what)
	}
}

func TestAModelCallIsAbandonedWhenItsTurnIsCancelled(t *testing.T) {
	called, abandoned := make(chan struct{}), make(chan struct{})
	runtime := start(t, inprocess.WithYAML(realModel), inprocess.WithAnswer(v1alpha1.ModelProviderAnthropic,
		func(ctx context.Context, _ *v1alpha1.Model, _ inprocess.Request) (*inprocess.Response, error) {
			close(called)
			<-ctx.Done()
			close(abandoned)
			return nil, ctx.Err()
		}))
	go func() { _, _ = runtime.RunTurn(t.Context(), message("demo-1", "Go.")) }()
	within(t, called, "the model was not called")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	turn, err := runtime.Cancel(ctx, "demo-1")
	if err != nil || reason(turn) != "False Cancelled" {
		t.Errorf("the Turn ended as %+v, %v", turn.Status, err)
	}
	within(t, abandoned, "the model call goes on")
}

// The context of a function whose call is over ends: nothing waits for it.
func TestACallIsStoppedWhenItsStepIsClosed(t *testing.T) {
	running, stopped := make(chan struct{}), make(chan struct{})
	runtime := start(t, inprocess.WithSimulation(calling([]string{"look"})),
		inprocess.WithTools(func(call inprocess.Call) (string, string, int) {
			close(running)
			<-call.Context.Done()
			close(stopped)
			return "", "", 1
		}))
	go func() { _, _ = runtime.RunTurn(t.Context(), message("demo-1", "Go.")) }()
	within(t, running, "the tool was not called")
	if _, err := runtime.Cancel(t.Context(), "demo-1"); err != nil {
		t.Fatal(err)
	}
	within(t, stopped, "the call goes on although its Turn has ended")
}

// blocked starts a runtime whose Turn demo-1 runs in a tool until the function is called.
func blocked(t *testing.T, store inprocess.Store) (*inprocess.Runtime, func()) {
	t.Helper()
	running, end := make(chan struct{}), make(chan struct{})
	runtime := start(t, inprocess.WithStore(store), inprocess.WithSimulation(calling([]string{"look"})),
		inprocess.WithTools(func(call inprocess.Call) (string, string, int) {
			if call.Turn != "demo-1" {
				return "", "", 0
			}
			close(running)
			select {
			case <-end:
			case <-call.Context.Done():
			}
			return "", "", 0
		}))
	go func() { _, _ = runtime.RunTurn(t.Context(), message("demo-1", "Go.")) }()
	within(t, running, "the tool was not called")
	return runtime, func() { close(end) }
}

func steer(name string) *v1alpha1.Turn {
	turn := message(name, "Never mind.")
	turn.Spec.Delivery = v1alpha1.DeliverySteer
	return turn
}

func known(turn *v1alpha1.Turn) bool { return turn.Status.Phase == v1alpha1.TurnPhaseQueued }

func TestAMessageIsQueuedWhenTheTurnThatItWasForIsCancelled(t *testing.T) {
	runtime, _ := blocked(t, inprocess.NewMemoryStore())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		turn, err := runtime.RunTurn(t.Context(), steer("demo-2"))
		if err != nil || reason(turn) != "True EndTurn" {
			t.Errorf("the message ended as %+v, %v", turn.Status, err)
		}
	}()
	await(t, runtime, "demo-2", known)
	if _, err := runtime.Cancel(t.Context(), "demo-1"); err != nil {
		t.Fatal(err)
	}
	within(t, ended, "the message did not run as a Turn of its own")
}

// A message that was cancelled is withdrawn in the journal: no other process delivers it.
func TestAMessageThatWasCancelledIsWithdrawnInTheJournal(t *testing.T) {
	store := inprocess.NewMemoryStore()
	runtime, end := blocked(t, store)
	go func() { _, _ = runtime.RunTurn(t.Context(), steer("demo-2")) }()
	await(t, runtime, "demo-2", known)
	if turn, err := runtime.Cancel(t.Context(), "demo-2"); err != nil || reason(turn) != "False Cancelled" {
		t.Fatalf("the message ended as %+v, %v", turn.Status, err)
	}
	end()
	if turn, err := runtime.Await(t.Context(), "demo-1"); err != nil || reason(turn) != "True EndTurn" {
		t.Fatalf("the Turn ended with %s, %v", reason(turn), err)
	}
	other := start(t, inprocess.WithStore(store), inprocess.WithSimulation(calling()))
	if turn := run(t, other, steer("demo-2")); turn.Status.Phase != v1alpha1.TurnPhaseCancelled {
		t.Errorf("another process runs the message: %+v", turn.Status)
	}
}

// What a Turn is made of is archived while its first call runs: the second one never starts.
// Rules: BLK-02, BLK-04, PHASE-06.
func TestABlockedTurnStartsNoFurtherCall(t *testing.T) {
	var started atomic.Int32
	var runtime *inprocess.Runtime
	oneByOne := strings.Replace(base, "systemPrompt:", "toolConcurrency: Sequential\n  systemPrompt:", 1)
	script := calling([]string{"look", "pay"})
	runtime, err := inprocess.New(t.Context(), inprocess.WithYAML(oneByOne), inprocess.WithSimulation(script),
		inprocess.WithTools(func(call inprocess.Call) (string, string, int) {
			started.Add(1)
			found, err := runtime.LoadContext(call.Context, "")
			if err == nil {
				found.Chain[0].Spec.Lifecycle = v1alpha1.LifecycleArchived
				err = runtime.Apply(found.Chain[0])
			}
			if err != nil {
				t.Error(err)
			}
			return "", "", 0
		}))
	if err != nil {
		t.Fatal(err)
	}
	turn := run(t, runtime, message("demo-1", "Go."))
	if reason(turn) != "False DependencyUnavailable" || started.Load() != 1 {
		t.Errorf("the Turn ended with %s, and %d calls started", reason(turn), started.Load())
	}
	calls := turn.Status.ToolCalls
	if len(calls) != 2 || calls[0].State != v1alpha1.ToolCallStateSucceeded ||
		calls[1].State != v1alpha1.ToolCallStateNotExecuted {
		t.Errorf("the calls are %s and %s", calls[0].State, calls[1].State)
	}
}

// unreachable is a Session with an HTTP tool whose server does not exist.
const unreachable = `
apiVersion: capstan.dev/v1alpha1
kind: Tool
metadata: {name: weather}
spec: {description: Says the weather., sideEffect: Pure, http: {url: "https://127.0.0.1:1", method: GET}}
---
apiVersion: capstan.dev/v1alpha1
kind: Session
metadata: {name: demo}
spec: {harnessRef: {name: base}, tools: [{name: weather}]}
`

// A call that can be retried is not before its time, which the status shows.
func TestARetryWaitsForItsTime(t *testing.T) {
	c := clock.New(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
	runtime := start(t, inprocess.WithClock(c), inprocess.WithYAML(unreachable),
		inprocess.WithSimulation(calling([]string{"weather"})),
		inprocess.WithEgressAllow(netip.MustParsePrefix("127.0.0.0/8")))
	go func() { _, _ = runtime.RunTurn(context.WithoutCancel(t.Context()), message("demo-1", "Go.")) }()
	for attempt := int32(2); attempt <= 4; attempt++ {
		turn := await(t, runtime, "demo-1", func(turn *v1alpha1.Turn) bool {
			calls := turn.Status.ToolCalls
			return len(calls) == 1 && calls[0].Attempt == attempt && calls[0].NotBefore != nil
		})
		c.Advance(turn.Status.ToolCalls[0].NotBefore.Sub(c.Now()))
	}
	ended := func(turn *v1alpha1.Turn) bool { return turn.Status.Phase == v1alpha1.TurnPhaseSucceeded }
	turn := await(t, runtime, "demo-1", ended)
	if call := turn.Status.ToolCalls[0]; call.Reason != v1alpha1.ToolCallReasonConnectionFailed {
		t.Errorf("the call is %+v", call)
	}
}

// The pauses begin while RunTurn runs, where no caller can advance the clock at the right moment.
func TestNoCallerWaitsForPauses(t *testing.T) {
	url, requests, reaches := guardedSite(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	model := &v1alpha1.Model{ObjectMeta: metav1.ObjectMeta{Name: "real"}}
	model.Annotations = map[string]string{v1alpha1.AnnotationDefaultModel: "true"}
	model.Spec = v1alpha1.ModelSpec{
		Provider: v1alpha1.ModelProviderOpenAI, Model: "m", BaseURL: url + "/v1",
		SecretKeyRef: &v1alpha1.SecretKeyReference{Name: "key", Key: "token"},
	}
	begin := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, test := range map[string]struct {
		options []inprocess.Option
		reason  string
		pauses  time.Duration
	}{
		"of a tool": {[]inprocess.Option{
			inprocess.WithYAML(unreachable), inprocess.WithSimulation(calling([]string{"weather"})),
		}, "True EndTurn", 65 * time.Second},
		"of a model": {[]inprocess.Option{
			inprocess.WithObjects(model), inprocess.WithProviders(providers.All()),
			inprocess.WithSecret("key", map[string]string{"token": "x"}),
		}, "False ProviderUnavailable", 21 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			c := clock.New(begin)
			began := time.Now()
			options := append(append(test.options, reaches...), inprocess.WithClock(c), inprocess.WithoutPauses())
			turn := run(t, start(t, options...), message("demo-1", "Go."))
			if reason(turn) != test.reason {
				t.Errorf("the Turn ended with %s: %+v", reason(turn), turn.Status)
			}
			passed := c.Now().Sub(begin)
			if took := time.Since(began); passed < test.pauses || took > test.pauses/2 {
				t.Errorf("the clock moved by %s in %s, want at least %s, and no wait for it", passed, took, test.pauses)
			}
		})
	}
	if requests.Load() < 2 {
		t.Errorf("the model was called %d times", requests.Load())
	}
}
