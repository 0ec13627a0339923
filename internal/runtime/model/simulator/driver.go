package simulator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

// Greeting is the response of a simulated model without a scripted one.
const Greeting = "Hello! I am a simulated model. How can I help you?"

// Factory makes the driver of a Model of provider Simulated. It fails without a script. It is a model.Factory.
func Factory(m *v1alpha1.Model, _ model.Access) (model.Driver, error) {
	if m.Spec.Simulation == nil {
		return nil, errors.New("provider Simulated requires spec.simulation, the script of its responses")
	}
	return &driver{name: model.Name(m), script: m.Spec.Simulation.DeepCopy()}, nil
}

// driver plays one script, which never changes.
type driver struct {
	name   string
	script *v1alpha1.Simulation
}

// Generate responds after the scripted latency, during which the text arrives word by word. A response with tool calls
// has no text: the scripted text or error belongs to the iteration without calls.
func (d *driver) Generate(ctx context.Context, r model.Request) (*model.Response, error) {
	answer, failure := d.answer(r)
	text := ""
	if answer != nil {
		text = answer.Text
	}
	if err := d.speak(ctx, r, text); err != nil {
		return nil, err
	}
	return answer, failure
}

// answer returns the scripted response.
func (d *driver) answer(r model.Request) (*model.Response, error) {
	current := currentTurn(r.Messages, r.TurnID)
	current.locale = r.Locale
	values := newExpander(current)
	iteration := max(r.Iteration, 1)

	answer := &model.Response{
		FinishReason: model.FinishStop,
		ResponseID:   fmt.Sprintf("sim-%s-%d", r.TurnID, iteration),
		Model:        d.name,
	}
	for i, call := range plannedCalls(d.script.ToolCalls, current.input, int(iteration-1)) {
		arguments, err := callArguments(call, values)
		if err != nil {
			return nil, fmt.Errorf("reading the arguments of simulated call %d, of tool %q: %w", i, call.Name, err)
		}
		answer.ToolCalls = append(answer.ToolCalls, model.ToolCall{
			ProviderID: fmt.Sprintf("call-%d-%d", iteration, i),
			Name:       call.Name,
			Arguments:  arguments,
		})
	}
	if len(answer.ToolCalls) > 0 {
		answer.FinishReason = model.FinishToolCalls
	} else {
		text, err := respond(d.script.Response, current.input, int(iteration-1), values)
		if err != nil {
			return nil, err
		}
		answer.Text = text
	}
	answer.Usage = model.Usage{InputTokens: promptTokens(r), OutputTokens: answerTokens(answer)}
	return answer, nil
}

// maxBeats is the maximum number of pieces of a text.
const maxBeats = 100

// speak waits for the scripted latency, or until the context ends, and reports the text so far to the listener.
func (d *driver) speak(ctx context.Context, r model.Request, text string) error {
	var latency time.Duration
	if d.script.Latency != nil {
		latency = d.script.Latency.Duration
	}
	beats := 1
	if r.OnPartial != nil && latency > 0 {
		beats = min(max(strings.Count(text, " ")+1, 1), maxBeats)
	}
	began := time.Now()
	for beat := 1; beat <= beats; beat++ {
		due := began.Add(latency * time.Duration(beat) / time.Duration(beats))
		if err := wait(ctx, time.Until(due)); err != nil {
			return fmt.Errorf("waiting for the simulated response: %w", err)
		}
		if text != "" {
			r.ReportPartial(model.Partial{Text: begun(text, beat, beats)})
		}
	}
	return nil
}

// begun is the part of a text after a number of beats: whole words.
func begun(text string, beat, beats int) string {
	if beat == beats {
		return text
	}
	words := strings.SplitAfter(text, " ")
	return strings.Join(words[:len(words)*beat/beats], "")
}

// wait waits, at most until the context is done.
func wait(ctx context.Context, d time.Duration) error {
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
	}
	return ctx.Err()
}

// respond returns the text of a response without tool calls, or the error that the script fails with. index counts
// iterations from 0.
func respond(response *v1alpha1.SimulatedResponse, input string, index int, values *expander) (string, error) {
	if response == nil {
		return Greeting, nil
	}
	switch response.Type {
	case v1alpha1.SimulatedResponseTypeEcho:
		return response.Prefix + input, nil
	case v1alpha1.SimulatedResponseTypeLorem:
		if response.Tokens == nil {
			return "", nil
		}
		return lorem(int(*response.Tokens)), nil
	case v1alpha1.SimulatedResponseTypeSequence:
		if len(response.Texts) == 0 {
			return "", nil
		}
		return values.expand(response.Texts[index%len(response.Texts)]), nil
	case v1alpha1.SimulatedResponseTypeEmpty:
		return "", nil
	case v1alpha1.SimulatedResponseTypeError:
		return "", &model.Error{Code: response.Code, Text: values.expand(response.Text)}
	default:
		if response.Text == "" {
			return Greeting, nil
		}
		return values.expand(response.Text), nil
	}
}

var loremWords = strings.Fields(
	"lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor incididunt ut labore et dolore magna " +
		"aliqua",
)

// lorem returns so many words of filler, separated by single spaces.
func lorem(words int) string {
	var b strings.Builder
	for i := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(loremWords[i%len(loremWords)])
	}
	return b.String()
}
