package simulator

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

func play(t *testing.T, script v1alpha1.Simulation) model.Driver {
	t.Helper()
	driver, err := Factory(&v1alpha1.Model{
		ObjectMeta: metav1.ObjectMeta{Name: "sim"},
		Spec:       v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderSimulated, Simulation: &script},
	}, model.Access{})
	if err != nil {
		t.Fatal(err)
	}
	return driver
}

func user(text string) event.Message {
	return event.Message{Role: event.RoleUser, Content: []event.Part{event.Text(text)}}
}

func result(tool, text string) event.Message {
	return event.Message{Role: event.RoleToolResult, ToolName: tool, Content: []event.Part{event.Text(text)}}
}

func failed(tool, text string) event.Message {
	return event.Message{Role: event.RoleToolResult, ToolName: tool, Error: text}
}

func step(names ...string) v1alpha1.SimulatedStep {
	return v1alpha1.SimulatedStep{Calls: callsOf(names...)}
}

func callsOf(names ...string) []v1alpha1.SimulatedToolCall {
	var calls []v1alpha1.SimulatedToolCall
	for _, name := range names {
		calls = append(calls, v1alpha1.SimulatedToolCall{Name: name})
	}
	return calls
}

func generate(t *testing.T, driver model.Driver, iteration int32, messages ...event.Message) *model.Response {
	t.Helper()
	answer, err := driver.Generate(t.Context(), model.Request{TurnID: "t", Iteration: iteration, Messages: messages})
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// tools returns the names of the calls, or the text of a response without calls.
func tools(answer *model.Response) string {
	if len(answer.ToolCalls) == 0 {
		return answer.Text
	}
	var names []string
	for _, call := range answer.ToolCalls {
		names = append(names, call.Name)
	}
	return strings.Join(names, "+")
}

func TestFactoryNeedsAScript(t *testing.T) {
	if driver, err := Factory(&v1alpha1.Model{}, model.Access{}); err == nil {
		t.Errorf("Factory = %v without a script", driver)
	}
}

func TestDriverDoesNotFollowChangesOfTheObject(t *testing.T) {
	m := &v1alpha1.Model{
		Spec: v1alpha1.ModelSpec{Simulation: &v1alpha1.Simulation{Response: &v1alpha1.SimulatedResponse{Text: "before"}}},
	}
	driver, err := Factory(m, model.Access{})
	if err != nil {
		t.Fatal(err)
	}
	m.Spec.Simulation.Response.Text = "after"
	if got := generate(t, driver, 1, user("hi")).Text; got != "before" {
		t.Errorf("Text = %q, want before", got)
	}
}

// Rules: SIM-01.
func TestText(t *testing.T) {
	four := int32(4)
	many := int32(40)
	sequence := &v1alpha1.SimulatedResponse{
		Type:  v1alpha1.SimulatedResponseTypeSequence,
		Texts: []string{"one", "two {{input}}", "three"},
	}
	for name, test := range map[string]struct {
		response  *v1alpha1.SimulatedResponse
		iteration int32
		want      string
	}{
		"no response is a greeting": {want: Greeting},
		"fixed without a text is a greeting": {
			response: &v1alpha1.SimulatedResponse{Type: v1alpha1.SimulatedResponseTypeFixed}, want: Greeting,
		},
		"fixed": {
			response: &v1alpha1.SimulatedResponse{Type: v1alpha1.SimulatedResponseTypeFixed, Text: "so"}, want: "so",
		},
		"fixed is the default": {response: &v1alpha1.SimulatedResponse{Text: "so"}, want: "so"},
		"fixed names the input": {
			response: &v1alpha1.SimulatedResponse{Text: "you said {{input}}."}, want: "you said the question.",
		},
		"echo": {
			response: &v1alpha1.SimulatedResponse{
				Type: v1alpha1.SimulatedResponseTypeEcho, Prefix: "> ",
			}, want: "> the question",
		},
		"echo without a prefix": {
			response: &v1alpha1.SimulatedResponse{Type: v1alpha1.SimulatedResponseTypeEcho}, want: "the question",
		},
		"lorem": {
			response: &v1alpha1.SimulatedResponse{
				Type: v1alpha1.SimulatedResponseTypeLorem, Tokens: &four,
			}, want: "lorem ipsum dolor sit",
		},
		"empty": {
			response: &v1alpha1.SimulatedResponse{Type: v1alpha1.SimulatedResponseTypeEmpty}, want: "",
		},
		"sequence, first iteration":  {response: sequence, want: "one"},
		"sequence, second iteration": {response: sequence, iteration: 2, want: "two the question"},
		"sequence begins again":      {response: sequence, iteration: 4, want: "one"},
	} {
		t.Run(name, func(t *testing.T) {
			answer := generate(
				t,
				play(t, v1alpha1.Simulation{Response: test.response}),
				max(test.iteration, 1),
				user("before"),
				user("the question"),
			)
			if answer.Text != test.want || len(answer.ToolCalls) != 0 || answer.FinishReason != model.FinishStop ||
				answer.Model != "sim" {
				t.Errorf("answer = %+v, want text %q", answer, test.want)
			}
		})
	}
	t.Run("lorem has as many words as asked for", func(t *testing.T) {
		response := &v1alpha1.SimulatedResponse{Type: v1alpha1.SimulatedResponseTypeLorem, Tokens: &many}
		text := generate(t, play(t, v1alpha1.Simulation{Response: response}), 1, user("go")).Text
		if got := len(strings.Fields(text)); got != 40 {
			t.Errorf("%d words in %q, want 40", got, text)
		}
	})
}

// Rules: SIM-01.
func TestErrorIsThatOfTheScript(t *testing.T) {
	script := v1alpha1.Simulation{
		Response: &v1alpha1.SimulatedResponse{
			Type: v1alpha1.SimulatedResponseTypeError,
			Text: "too much of {{input}}",
			Code: v1alpha1.ErrorCodeProviderRateLimited,
		},
	}
	answer, err := play(
		t,
		script,
	).Generate(t.Context(), model.Request{Iteration: 1, Messages: []event.Message{user("hi")}})
	if answer != nil || err == nil || err.Error() != "too much of hi" {
		t.Fatalf("Generate = %+v, %v", answer, err)
	}
	if got := model.CodeOf(err); got != v1alpha1.ErrorCodeProviderRateLimited {
		t.Errorf("the code is %s", got)
	}
}

// Rules: SIM-01.
func TestToolCallsByIteration(t *testing.T) {
	conditional := []v1alpha1.SimulatedRule{
		{Contains: "count", Sequence: []v1alpha1.SimulatedStep{step("count"), step(), step("count", "add")}},
		{Contains: "word", Sequence: []v1alpha1.SimulatedStep{step("word")}},
	}
	response := &v1alpha1.SimulatedResponse{Text: "done"}
	for name, test := range map[string]struct {
		calls *v1alpha1.SimulatedToolCalls
		input string
		want  []string
	}{
		"none": {calls: &v1alpha1.SimulatedToolCalls{}, want: []string{"done", "done"}},
		"fixed in every iteration": {
			calls: &v1alpha1.SimulatedToolCalls{Fixed: callsOf("a", "b")}, want: []string{"a+b", "a+b", "a+b"},
		},
		"sequence begins again": {
			calls: &v1alpha1.SimulatedToolCalls{Sequence: []v1alpha1.SimulatedStep{step("a"), step()}},
			want:  []string{"a", "done", "a", "done"},
		},
		"conditional ends after its steps": {
			calls: &v1alpha1.SimulatedToolCalls{Conditional: conditional}, input: "count the words",
			want: []string{"count", "done", "count+add", "done", "done"},
		},
		"the first rule that applies": {
			calls: &v1alpha1.SimulatedToolCalls{
				Conditional: conditional,
			}, input: "word for word", want: []string{"word", "done"},
		},
		"the case counts": {
			calls: &v1alpha1.SimulatedToolCalls{Conditional: conditional}, input: "COUNT", want: []string{"done"},
		},
		"conditional comes before fixed": {
			calls: &v1alpha1.SimulatedToolCalls{
				Conditional: conditional, Fixed: callsOf("a"),
			}, input: "word", want: []string{"word", "done"},
		},
		"fixed without a rule that applies": {
			calls: &v1alpha1.SimulatedToolCalls{
				Conditional: conditional, Fixed: callsOf("a"),
			}, input: "else", want: []string{"a", "a"},
		},
		"sequence without a rule that applies": {
			calls: &v1alpha1.SimulatedToolCalls{
				Conditional: conditional, Sequence: []v1alpha1.SimulatedStep{step("s"), step()},
			}, input: "else",
			want: []string{"s", "done", "s"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			driver := play(t, v1alpha1.Simulation{Response: response, ToolCalls: test.calls})
			for i, want := range test.want {
				if got := tools(generate(t, driver, int32(i+1), user("count everything"), user(test.input))); got != want {
					t.Errorf("iteration %d: %s, want %s", i+1, got, want)
				}
			}
		})
	}
}

func TestAnAnswerWithCallsHasNoText(t *testing.T) {
	for _, response := range []*v1alpha1.SimulatedResponse{
		nil, {Text: "so"}, {Type: v1alpha1.SimulatedResponseTypeEcho}, {
			Type: v1alpha1.SimulatedResponseTypeError, Text: "broken",
		},
	} {
		driver := play(
			t,
			v1alpha1.Simulation{Response: response, ToolCalls: &v1alpha1.SimulatedToolCalls{Fixed: callsOf("a", "a")}},
		)
		answer := generate(t, driver, 3, user("hi"))
		want := []model.ToolCall{
			{ProviderID: "call-3-0", Name: "a", Arguments: "{}"},
			{ProviderID: "call-3-1", Name: "a", Arguments: "{}"},
		}
		if answer.Text != "" || answer.FinishReason != model.FinishToolCalls || !reflect.DeepEqual(answer.ToolCalls, want) {
			t.Errorf("answer = %+v", answer)
		}
	}
}

func TestTheSameRequestGetsTheSameAnswer(t *testing.T) {
	script := v1alpha1.Simulation{
		Response:  &v1alpha1.SimulatedResponse{Text: "{{tool:a}}"},
		ToolCalls: &v1alpha1.SimulatedToolCalls{Sequence: []v1alpha1.SimulatedStep{step("a"), step()}},
	}
	driver := play(t, script)
	for iteration := int32(1); iteration <= 4; iteration++ {
		first := generate(t, driver, iteration, user("hi"), result("a", "x"))
		again := generate(t, driver, iteration, user("hi"), result("a", "x"))
		restarted := generate(t, play(t, script), iteration, user("hi"), result("a", "x"))
		if !reflect.DeepEqual(first, again) || !reflect.DeepEqual(first, restarted) {
			t.Errorf("iteration %d: %+v, %+v, %+v", iteration, first, again, restarted)
		}
	}
}

func TestUsageIsATokenForFourBytes(t *testing.T) {
	driver := play(t, v1alpha1.Simulation{Response: &v1alpha1.SimulatedResponse{Text: "12345"}})
	answer, err := driver.Generate(t.Context(), model.Request{
		SystemPrompt: "be", // 2
		Messages: []event.Message{
			user("hello"), // 5
			{Role: event.RoleAssistant, ToolCalls: []event.ToolCall{{ID: "1-0", Name: "add", Arguments: `{"a":1}`}}}, // 3 + 7
			failed("add", "no"), // 2
		},
		Tools: []model.ToolDefinition{{Name: "add", Description: "Adds."}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := (model.Usage{InputTokens: 5, OutputTokens: 2}); answer.Usage != want {
		t.Errorf("Usage = %+v, want %+v", answer.Usage, want)
	}
}

func TestLatency(t *testing.T) {
	script := v1alpha1.Simulation{Latency: &metav1.Duration{Duration: time.Hour}}
	t.Run("an answer takes that long", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			generate(t, play(t, script), 1, user("hi"))
			if took := time.Since(start); took != time.Hour {
				t.Errorf("the answer took %s, want 1h", took)
			}
		})
	})
	t.Run("ends with the context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			start := time.Now()
			answer, err := play(t, script).Generate(ctx, model.Request{})
			if answer != nil || !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
				t.Errorf("Generate = %+v, %v after %s", answer, err, time.Since(start))
			}
		})
	})
	t.Run("a cancelled context gets no answer", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if answer, err := play(
			t,
			v1alpha1.Simulation{},
		).Generate(ctx, model.Request{}); answer != nil ||
			!errors.Is(err, context.Canceled) {
			t.Errorf("Generate = %+v, %v", answer, err)
		}
	})
}

func TestTheScriptKnowsTheLocale(t *testing.T) {
	driver := play(t, v1alpha1.Simulation{Response: &v1alpha1.SimulatedResponse{Text: "{{locale}}"}})
	answer, err := driver.Generate(t.Context(), model.Request{Locale: "de-CH", Messages: []event.Message{user("hi")}})
	if err != nil || answer.Text != "de-CH" {
		t.Errorf("the model returned %+v, %v", answer, err)
	}
}

func TestATextComesInWordByWordOverTheLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		driver := play(t, v1alpha1.Simulation{
			Latency:  &metav1.Duration{Duration: 4 * time.Second},
			Response: &v1alpha1.SimulatedResponse{Text: "One two  three."},
		})
		began := time.Now()
		var partials []string
		var after []time.Duration
		answer, err := driver.Generate(t.Context(), model.Request{TurnID: "t", OnPartial: func(p model.Partial) {
			partials, after = append(partials, p.Text), append(after, time.Since(began))
		}})
		if err != nil || answer.Text != "One two  three." {
			t.Fatalf("Generate = %+v, %v", answer, err)
		}
		if want := []string{"One ", "One two ", "One two  ", "One two  three."}; !reflect.DeepEqual(partials, want) {
			t.Errorf("received %q, want %q", partials, want)
		}
		if want := []time.Duration{
			time.Second,
			2 * time.Second,
			3 * time.Second,
			4 * time.Second,
		}; !reflect.DeepEqual(
			after,
			want,
		) {
			t.Errorf("received after %v, want %v", after, want)
		}
	})
}

func TestALongTextComesInAHundredPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		driver := play(t, v1alpha1.Simulation{
			Latency:  &metav1.Duration{Duration: time.Minute},
			Response: &v1alpha1.SimulatedResponse{Type: v1alpha1.SimulatedResponseTypeLorem, Tokens: new(int32(1234))},
		})
		began, last, pieces := time.Now(), "", 0
		answer, err := driver.Generate(t.Context(), model.Request{TurnID: "t", OnPartial: func(p model.Partial) {
			if len(p.Text) <= len(last) || !strings.HasPrefix(p.Text, last) || p.ToolCalls {
				t.Errorf("after %d bytes come %d", len(last), len(p.Text))
			}
			last, pieces = p.Text, pieces+1
		}})
		if err != nil || last != answer.Text || pieces != 100 || time.Since(began) != time.Minute {
			t.Errorf("%d pieces in %v, error %v", pieces, time.Since(began), err)
		}
	})
}
