package providertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
)

// Subject is a driver with the API that it speaks.
type Subject struct {
	// Name is unique.
	Name string
	// Provider of the Model.
	Provider v1alpha1.ModelProvider
	// Model is the provider's name of a model that reasons.
	Model string
	// Dialect of the API.
	Dialect Dialect
	// Refuses reports whether the API refuses a step of a tool loop without the reasoning of the step before.
	Refuses bool
	// Pauses reports whether the model does not think in the rest of a tool loop that another model has continued, so that
	// its earlier reasoning is not given back there.
	Pauses bool
	// Identifies reports whether the API has a field for the pseudonym of the user.
	Identifies bool
	// New makes the driver.
	New func(h *http.Client, key string) (model.Driver, error)
}

const (
	// testKey is the API key of the tests, and testUser the pseudonym of the user.
	testKey  = "sk-conformance-1"
	testUser = "0123456789abcdef0123456789abcdef"
)

// tools are the tools that the models may call.
var tools = []model.ToolDefinition{
	{
		Name:        "look",
		Description: "Looks.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"at":{"type":"string"}}}`),
	},
}

// Player is a Subject that talks to a Double.
type Player struct {
	Subject
	Double *Double
	driver model.Driver
}

// play makes a Player with responses of its API.
func (s Subject) play(t *testing.T, script ...Step) *Player {
	t.Helper()
	p := &Player{Subject: s, Double: &Double{Dialect: s.Dialect, Script: script}}
	p.withKey(t, testKey)
	return p
}

// withKey makes the Player's driver use a key.
func (p *Player) withKey(t *testing.T, key string) {
	t.Helper()
	made, err := p.New(p.Double.Client(), key)
	if err != nil {
		t.Fatalf("%s: %v", p.Name, err)
	}
	p.driver = made
}

// Talk is a conversation, as the runtime keeps it.
type Talk struct {
	messages []event.Message
	steps    int
	// dropped reports whether the last request was sent again without reasoning.
	dropped bool
}

// newTalk begins with a message of the user.
func newTalk() *Talk {
	m := event.NewUserMessage("What is the weather in Oslo?")
	return &Talk{messages: []event.Message{m}}
}

// request is the request for a Player, with the reasoning that is bound to it.
func (c *Talk) request(p *Player, binding string) (model.Request, bool) {
	messages, reasoning := event.ReasoningFor(c.messages, binding)
	return model.Request{
		Model:        p.Model,
		SystemPrompt: "Be brief.",
		Messages:     event.Fenced(messages),
		Tools:        tools,
		Iteration:    int32(c.steps + 1),
		User:         testUser,
	}, reasoning
}

// respond requests the next response from a Player, and once more without reasoning where that was refused.
func (c *Talk) respond(ctx context.Context, p *Player) (*model.Response, error) {
	r, reasoning := c.request(p, p.Name)
	response, err := p.driver.Generate(ctx, r)
	var refused *provider.ReasoningRefused
	if c.dropped = reasoning && errors.As(err, &refused); c.dropped {
		r, _ = c.request(p, "")
		response, err = p.driver.Generate(ctx, r)
	}
	return response, err
}

// step is one step of a tool loop: a response, which joins the conversation with the results of its calls.
func (c *Talk) step(t *testing.T, p *Player) *model.Response {
	t.Helper()
	response, err := c.respond(t.Context(), p)
	if err != nil {
		t.Fatalf("step %d, by %s: %v\n%s", c.steps+1, p.Name, err, lastBody(p.Double))
	}
	c.add(p, response)
	return response
}

// add adds a response to the conversation.
func (c *Talk) add(p *Player, response *model.Response) {
	c.steps++
	calls := make([]event.ToolCall, len(response.ToolCalls))
	for i, call := range response.ToolCalls {
		calls[i] = event.ToolCall{
			ID: fmt.Sprintf("%d-%d", c.steps, i), ProviderID: call.ProviderID, Name: call.Name, Arguments: call.Arguments,
		}
	}
	m := response.Message(calls)
	m.ID = fmt.Sprintf("message-%d", c.steps)
	if m.HasReasoning() {
		m.Origin = &event.Origin{Provider: p.Name, Model: p.Model, Binding: p.Name}
	}
	if c.dropped {
		m.Metadata = map[string]any{event.MetadataReasoningDropped: true}
	}
	c.messages = append(c.messages, recorded(m))
	for _, call := range calls {
		c.messages = append(c.messages, event.Message{
			ID: "result-" + call.ID, Role: event.RoleToolResult, ToolCallID: call.ID, ToolName: call.Name,
			Content: []event.Part{event.Text("Rain at " + call.Arguments)},
		})
	}
}

// recorded is a message after it was written to the journal and read again.
func recorded(m event.Message) event.Message {
	raw, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	var read event.Message
	if err := json.Unmarshal(raw, &read); err != nil {
		panic(err)
	}
	return read
}

func lastBody(d *Double) []byte {
	bodies := d.Bodies()
	if len(bodies) == 0 {
		return nil
	}
	return bodies[len(bodies)-1]
}

// thought, looks and so on are parts of scripts.
func thought(about string) Part { return Part{Thought: "I think about " + about + "."} }
func textPart(text string) Part { return Part{Text: text} }
func lookup(id, at string) Part {
	return Part{Call: &Call{ID: id, Name: "look", Arguments: `{"at":` + encoded(at) + `}`}}
}

// loop is a tool loop of three steps, with thoughts between the calls.
func loop() []Step {
	return []Step{
		{
			thought("Oslo"),
			Part{Text: "Let me look.", Phase: "commentary"},
			lookup("call_a", "Oslo"),
			lookup("call_b", "Bergen"),
		},
		{thought("rain"), Part{Thought: "hidden", Redacted: true}, lookup("call_c", "Ås \"centre\"")},
		{thought("words"), Part{Text: "It rains.", Phase: "final_answer"}},
	}
}
