package step

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/memory"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
	"github.com/capstan-dev/capstan/internal/testing/site"
)

// thought is a response that reasons, has a text, calls a tool, and reasons again before its second call.
func thought() *model.Response {
	return &model.Response{
		Text: "Let me look.",
		ToolCalls: []model.ToolCall{
			{ProviderID: "a", Name: "look", Arguments: `{}`},
			{ProviderID: "b", Name: "look", Arguments: `{}`},
		},
		Content: []model.Content{
			model.ReasoningPart(event.Reasoning{Kind: "thinking", Data: "signature-1", Summary: "It may rain."}),
			model.TextPart("Let me look."),
			{Call: 1, Reasoning: &event.Reasoning{Kind: "signature", Data: "signature-2"}},
			model.ReasoningPart(event.Reasoning{Kind: "hidden", ID: "rs_1", Data: "ciphertext"}),
			model.CallPart(2),
		},
		FinishReason: model.FinishToolCalls,
	}
}

// thinker is a Model with everything that reasoning is bound to.
func thinker() *v1alpha1.Model {
	return &v1alpha1.Model{
		ObjectMeta: metav1.ObjectMeta{Name: "m", UID: "model-uid"},
		Spec: v1alpha1.ModelSpec{
			Provider: "Test", Model: "thinker-1", BaseURL: "https://one.example/v1",
			SecretKeyRef: &v1alpha1.SecretKeyReference{Name: "api", Key: "key"},
		},
	}
}

// withKeys is a bench on a store that has API keys.
func withKeys(t *testing.T, store journal.Store) *bench {
	t.Helper()
	b := onStore(t, store).reaching(site.New(t, site.Fine))
	b.reads(&corev1.Secret{Data: map[string][]byte{"key": []byte("sk-1"), "second": []byte("sk-2")}}, nil)
	return b
}

// looked ends the act step of a Turn whose calls were planned.
func (b *bench) looked(turn turnstate.Turn) turnstate.Turn {
	b.t.Helper()
	known := facts{Outcomes: map[string]tool.Outcome{}}
	for _, call := range turn.Progress.ToolCalls {
		known.Outcomes[call.ID] = succeeded("done")
	}
	closed, err := b.Act(b.t.Context(), turn, known.step())
	if err != nil {
		b.t.Fatalf("acting: %v", err)
	}
	return after(turn, closed)
}

// thoughtful is a Turn whose first step gave thought, on a store, and whose act step has ended.
func thoughtful(t *testing.T, b *bench) turnstate.Turn {
	t.Helper()
	b.answer = func(model.Request) (*model.Response, error) { return thought(), nil }
	c := with(jobTool("look"))
	c.Model = thinker()
	turn, _ := b.reason(newTurn("demo-1"), c)
	return b.looked(turn)
}

// promptsOf runs the next reason step with a Model, and returns the messages of each request.
func (b *bench) promptsOf(t *testing.T, turn turnstate.Turn, m *v1alpha1.Model) ([][]event.Message, *journal.Closed) {
	t.Helper()
	before := len(b.asked)
	c := with(jobTool("look"))
	c.Model = m
	_, closed := b.reason(turn, c)
	var prompts [][]event.Message
	for _, r := range b.asked[before:] {
		prompts = append(prompts, r.Messages)
	}
	return prompts, closed
}

// reasoningOf are the reasoning parts of messages, those that are attached to others included.
func reasoningOf(messages []event.Message) []event.Reasoning {
	var found []event.Reasoning
	for _, m := range messages {
		for _, p := range m.Content {
			if p.Reasoning != nil {
				found = append(found, *p.Reasoning)
			}
		}
	}
	return found
}

func TestReasoningIsGivenBackUnchangedInItsPlace(t *testing.T) {
	store := memory.New()
	turn := thoughtful(t, withKeys(t, store))
	// Another process reads it from the journal.
	b := withKeys(t, store)
	prompts, _ := b.promptsOf(t, turn, thinker())
	var kinds []string
	for _, p := range prompts[0][1].Parts() {
		kinds = append(kinds, string(p.Type))
	}
	if got := strings.Join(kinds, " "); got != "reasoning text tool_call reasoning tool_call" {
		t.Errorf("the parts are %s", got)
	}
	want := []event.Reasoning{
		{Kind: "thinking", Data: "signature-1", Summary: "It may rain."},
		{Kind: "signature", Data: "signature-2"},
		{Kind: "hidden", ID: "rs_1", Data: "ciphertext"},
	}
	if got := reasoningOf(prompts[0]); !reflect.DeepEqual(got, want) {
		t.Errorf("the reasoning is %+v", got)
	}
	origin := prompts[0][1].Origin
	if origin == nil || origin.Provider != "Test" || origin.Model != "thinker-1" || len(origin.Binding) != 32 {
		t.Errorf("its origin is %+v", origin)
	}
}

func TestReasoningIsBoundToItsModel(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.Model){
		"another object of the same name": func(m *v1alpha1.Model) { m.UID = "another" },
		"another host":                    func(m *v1alpha1.Model) { m.Spec.BaseURL = "https://two.example/v1" },
		"another model name":              func(m *v1alpha1.Model) { m.Spec.Model = "thinker-2" },
		"another credential": func(m *v1alpha1.Model) {
			m.Spec.SecretKeyRef = &v1alpha1.SecretKeyReference{Name: "api", Key: "second"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := thinker()
			change(m)
			store := memory.New()
			turn := thoughtful(t, withKeys(t, store))
			b := withKeys(t, store)
			prompts, _ := b.promptsOf(t, turn, m)
			response := prompts[0][1]
			if len(reasoningOf(prompts[0])) > 0 || response.Origin != nil {
				t.Errorf("the other model reads %+v", response)
			}
			var kinds []string
			for _, p := range response.Parts() {
				kinds = append(kinds, string(p.Type))
			}
			if got := strings.Join(kinds, " "); got != "text tool_call tool_call" {
				t.Errorf("the other model reads the parts %s", got)
			}
		})
	}
}

func TestRefusedReasoningIsLeftOutOnceAndForTheRest(t *testing.T) {
	store := memory.New()
	turn := thoughtful(t, withKeys(t, store))
	b := withKeys(t, store)
	refusal := &provider.ReasoningRefused{Err: provider.StatusError("Test", "m", 400, 0, "invalid_request_error")}
	b.answer = func(r model.Request) (*model.Response, error) {
		if len(reasoningOf(r.Messages)) > 0 {
			return nil, refusal
		}
		return thought(), nil
	}
	prompts, closed := b.promptsOf(t, turn, thinker())
	if len(prompts) != 2 || len(reasoningOf(prompts[0])) != 3 || len(reasoningOf(prompts[1])) != 0 {
		t.Fatalf("%d requests, with %+v", len(prompts), prompts)
	}
	if recorded := generations(
		t,
		closed,
	); len(recorded) != 1 || !recorded[0].ReasoningDropped || recorded[0].Tries != 2 ||
		!recorded[0].Success {
		t.Errorf("the journal has %+v", recorded)
	}
	// What was refused is not sent again; what came after it is.
	turn = b.looked(after(turn, closed))
	b.answer = func(model.Request) (*model.Response, error) { return &model.Response{Text: "Rain."}, nil }
	prompts, closed = b.promptsOf(t, turn, thinker())
	if got := reasoningOf(prompts[0]); len(prompts) != 1 || len(got) != 3 || prompts[0][1].HasReasoning() {
		t.Errorf("%d requests, the last with %+v", len(prompts), got)
	}
	if recorded := generations(t, closed); recorded[0].ReasoningDropped {
		t.Errorf("the journal has %+v", recorded)
	}
}

func TestARefusalWithoutReasoningIsFinal(t *testing.T) {
	b := newBench(t)
	b.answer = func(model.Request) (*model.Response, error) {
		return nil, &provider.ReasoningRefused{Err: provider.StatusError("Test", "m", 400, 0, "invalid_request_error")}
	}
	turn, _ := b.reason(newTurn("demo-1"), with())
	if len(b.asked) != 1 || turn.Progress.Error == nil || turn.Progress.Error.Code != "processing_error" {
		t.Errorf("asked %d times, error %+v", len(b.asked), turn.Progress.Error)
	}
}

// TestARefusalThatStaysEndsTheTurn: the second request has no reasoning, and its error is the Turn's.
func TestARefusalThatStaysEndsTheTurn(t *testing.T) {
	store := memory.New()
	turn := thoughtful(t, withKeys(t, store))
	b := withKeys(t, store)
	b.answer = func(model.Request) (*model.Response, error) {
		return nil, &provider.ReasoningRefused{Err: provider.StatusError("Test", "m", 400, 0, "invalid_request_error")}
	}
	prompts, _ := b.promptsOf(t, turn, thinker())
	if len(prompts) != 2 {
		t.Errorf("asked %d times", len(prompts))
	}
}

func TestReasoningIsBoundedBeforeItIsKept(t *testing.T) {
	store := memory.New()
	b := withKeys(t, store)
	large := strings.Repeat("x", event.MaxReasoningBytes)
	b.answer = func(model.Request) (*model.Response, error) {
		r := thought()
		r.Content[3].Reasoning.Data = large
		return r, nil
	}
	c := with(jobTool("look"))
	c.Model = thinker()
	turn, closed := b.reason(newTurn("demo-1"), c)
	for _, e := range closed.Events {
		if strings.Contains(string(e.Data.Raw), large) {
			t.Errorf("event %s keeps it", e.Type)
		}
	}
	prompts, _ := b.promptsOf(t, b.looked(turn), thinker())
	if got := reasoningOf(prompts[0]); len(got) != 2 || len(prompts[0][1].Parts()) != 4 {
		t.Errorf("the reasoning is %+v", got)
	}
}

// TestATurnKeepsTheModelThatAnsweredLast: later steps begin with it, and the next Turn with the configured one.
func TestATurnKeepsTheModelThatAnsweredLast(t *testing.T) {
	b := newBench(t)
	c := with(jobTool("look"))
	c.Model, c.Fallbacks = named("first"), []*v1alpha1.Model{named("second"), named("third")}
	down := "first"
	b.answer = func(r model.Request) (*model.Response, error) {
		if r.Model == down {
			return nil, provider.StatusError("Test", r.Model, 404, 0, "")
		}
		return &model.Response{Text: "Let me look.", ToolCalls: calls(1, "look")}, nil
	}
	var asked []string
	step := func(turn turnstate.Turn) (turnstate.Turn, *journal.Closed) {
		before := len(b.asked)
		turn, closed := b.reason(turn, c)
		asked = nil
		for _, r := range b.asked[before:] {
			asked = append(asked, r.Model)
		}
		return turn, closed
	}
	expect := func(want, model string, turn turnstate.Turn) {
		t.Helper()
		if got := strings.Join(asked, " "); got != want || turn.Progress.Model != model {
			t.Errorf("asked %s, want %s; the Turn has %s", got, want, turn.Progress.Model)
		}
	}
	turn, _ := step(newTurn("demo-1"))
	expect("first second", "second", turn)
	turn, _ = step(b.looked(turn))
	expect("second", "second", turn)
	down = "second"
	turn, closed := step(b.looked(turn))
	expect("second first", "first", turn)
	if first := generations(t, closed)[0]; first.Model != "second" || first.Success {
		t.Errorf("the journal has %+v", first)
	}
	down, c.Model, c.Fallbacks = "", named("third"), []*v1alpha1.Model{named("first")}
	turn, _ = step(b.looked(turn))
	expect("first", "first", turn)
	next := newTurn("demo-2")
	next.Ref.UID, next.Progress = "uid-2", plan.Begin(turn.Progress.Plan.OpenedAtOrdinal, b.micro())
	b.answer = func(model.Request) (*model.Response, error) { return &model.Response{Text: "Hello."}, nil }
	next, _ = step(next)
	expect("third", "third", next)
}

// TestAFilteredMessageDoesNotStopTheTurnsAfterIt: a note stands for it in every later prompt, and the journal keeps it.
func TestAFilteredMessageDoesNotStopTheTurnsAfterIt(t *testing.T) {
	store := memory.New()
	b := onStore(t, store)
	b.answer = func(r model.Request) (*model.Response, error) {
		for _, m := range r.Messages {
			if strings.Contains(m.PlainText(), "forbidden") {
				return &model.Response{FinishReason: model.FinishFiltered}, nil
			}
		}
		return &model.Response{Text: "Hello.", FinishReason: model.FinishStop}, nil
	}
	first := newTurn("demo-1")
	first.Input = "Something forbidden."
	turn, closed := b.reason(first, with())
	if turn.Progress.Plan.StopReason != v1alpha1.StopReasonRefusal {
		t.Fatalf("the plan is %+v", turn.Progress.Plan)
	}
	b = onStore(t, store)
	b.responds("Hello.")
	next := newTurn("demo-2")
	next.Ref.UID, next.Progress = "uid-2", plan.Begin(closed.Ordinal+1, b.micro())
	turn, _ = b.reason(next, with())
	prompt := b.asked[0].Messages
	if turn.Progress.Output != "Hello." || strings.Contains(prompt[0].PlainText(), "forbidden") ||
		prompt[0].Role != event.RoleUser || prompt[0].PlainText() == "" {
		t.Errorf("the output is %q, the prompt begins with %+v", turn.Progress.Output, prompt[0])
	}
	if kept := b.transcript()[0].PlainText(); kept != "Something forbidden." {
		t.Errorf("the journal has %q", kept)
	}
}
