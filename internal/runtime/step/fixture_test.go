package step

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/config"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/invocation"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/memory"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/modelcall"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
	"github.com/capstan-dev/capstan/internal/runtime/tool/inputschema"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
	"github.com/capstan-dev/capstan/internal/testing/site"
	"github.com/capstan-dev/capstan/internal/testing/ticker"
)

var (
	started = ticker.Start
	session = journal.Session{Namespace: "ns", Name: "demo", UID: "session-uid"}
)

// bench is a Runner on a journal in memory, with a model that the test plays.
type bench struct {
	*Runner
	t *testing.T
	// answer returns the model's response; each call is one element of asked.
	answer func(model.Request) (*model.Response, error)
	asked  []model.Request
	store  journal.Store
	// time moves with each look at it.
	time *ticker.Ticker
}

// reaching gives a bench a client that reaches a site on this machine, and no Secrets.
func (b *bench) reaching(s *site.Site) *bench {
	b.Egress, b.Secrets = s.Egress(), site.NoSecrets
	return b
}

// Generate implements model.Driver.
func (b *bench) Generate(_ context.Context, r model.Request) (*model.Response, error) {
	b.asked = append(b.asked, r)
	return b.answer(r)
}

func newBench(t *testing.T) *bench {
	return onStore(t, memory.New())
}

func onStore(t *testing.T, store journal.Store) *bench {
	t.Helper()
	b := &bench{t: t, time: &ticker.Ticker{}, store: store}
	clock := b.time.Tick
	b.Runner = &Runner{
		Runner: invocation.Runner{
			Log:   journal.New(store, journal.Options{Clock: clock}),
			Clock: clock,
		},
		Options: modelcall.Options{
			Models: model.Registry{"Test": func(*v1alpha1.Model, model.Access) (model.Driver, error) { return b, nil }},
		},
		Validator: inputschema.NewValidator(),
	}
	b.responds("Hello.")
	return b
}

// responds makes the model respond with a text and calls.
func (b *bench) responds(text string, calls ...model.ToolCall) {
	b.answer = func(model.Request) (*model.Response, error) {
		return &model.Response{
			Text:         text,
			ToolCalls:    calls,
			FinishReason: model.FinishStop,
			ResponseID:   "response",
			Usage:        model.Usage{InputTokens: 3, OutputTokens: 2},
		}, nil
	}
}

func (b *bench) fails(text string) {
	b.answer = func(model.Request) (*model.Response, error) { return nil, errors.New(text) }
}

// newTurn is a Turn whose first step is open.
func newTurn(name string) turnstate.Turn {
	return turnstate.Turn{
		Session:  session,
		Ref:      v1alpha1.JournalTurn{Name: name, UID: "turn-uid"},
		Input:    "How are you?",
		Harness:  "base",
		Progress: plan.Begin(1, metav1.NewMicroTime(started)),
	}
}

// with is a Config with the given Tools.
func with(tools ...*v1alpha1.Tool) turnstate.Config {
	c := turnstate.Config{
		Model:     &v1alpha1.Model{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Spec: v1alpha1.ModelSpec{Provider: "Test"}},
		Effective: config.Effective{MaxIterations: 10},
	}
	for _, t := range tools {
		c.Tools = append(c.Tools, definition.Of(t))
		c.Effective.Tools = append(c.Effective.Tools, t.Name)
	}
	return c
}

func jobTool(name string) *v1alpha1.Tool {
	return &v1alpha1.Tool{
		ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 7},
		Spec: v1alpha1.ToolSpec{
			Description: "Works.",
			Job:         &v1alpha1.JobTool{Image: "i", Command: []string{"c"}, Timeout: &metav1.Duration{Duration: time.Minute}},
		},
	}
}

func clientTool(name string) *v1alpha1.Tool {
	return &v1alpha1.Tool{
		ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 2},
		Spec:       v1alpha1.ToolSpec{Description: "Asks.", Client: &v1alpha1.ClientTool{}},
	}
}

func calls(n int, name string) []model.ToolCall {
	made := make([]model.ToolCall, n)
	for i := range made {
		made[i] = model.ToolCall{ProviderID: fmt.Sprintf("p%d", i), Name: name, Arguments: `{}`}
	}
	return made
}

// reason runs the open reason step and returns the Turn after it.
func (b *bench) reason(turn turnstate.Turn, c turnstate.Config) (turnstate.Turn, *journal.Closed) {
	b.t.Helper()
	closed, err := b.ReasonInPlace(b.t.Context(), turn, c, nil)
	if err != nil {
		b.t.Fatalf("reasoning: %v", err)
	}
	return after(turn, closed), closed
}

// after is the Turn when an entry is in its status.
func after(turn turnstate.Turn, closed *journal.Closed) turnstate.Turn {
	turn.Progress = *closed.Transition.DeepCopy()
	return turn
}

// planned is the bulk of the calls of a closed reason step.
func planned(closed *journal.Closed) []journal.PlannedCall {
	return closed.Calls
}

func typesOf(events []event.Event) string {
	kinds := make([]string, len(events))
	for i, e := range events {
		kinds[i] = e.Type
	}
	return strings.Join(kinds, " ")
}

func (b *bench) expectTypes(events []event.Event, want ...string) {
	b.t.Helper()
	if got := typesOf(events); got != strings.Join(want, " ") {
		b.t.Errorf("events\n%s\nwant\n%s", got, strings.Join(want, " "))
	}
}

// transcript is the conversation as the next model call would read it.
func (b *bench) transcript() []event.Message {
	b.t.Helper()
	view, err := b.Log.View(b.t.Context(), session, 0)
	if err != nil {
		b.t.Fatalf("reading the log: %v", err)
	}
	return slices.Clone(view.Messages)
}

const (
	openingTypes = "input.message session.activated turn.started"
	reasonTypes  = "reason.started output.message.started llm.generation output.message.completed reason.completed"
	failedTypes  = "turn.failed session.idled"
)
