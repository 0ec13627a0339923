package providertest

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
)

// Conform runs the tests that every driver must pass against the Double of its API.
func Conform(t *testing.T, s Subject) {
	t.Run("a tool loop with reasoning", func(t *testing.T) { toolLoop(t, s) })
	t.Run("a stream in two pieces", func(t *testing.T) { streams(t, s) })
	if s.Refuses {
		t.Run("a loop without its reasoning", func(t *testing.T) { withoutReasoning(t, s) })
	}
	t.Run("a changed key", func(t *testing.T) { changedKey(t, s) })
	t.Run("refused reasoning", func(t *testing.T) { refusedReasoning(t, s) })
	t.Run("reasoning beyond the bound", func(t *testing.T) { tooMuchReasoning(t, s) })
	t.Run("a message within the loop", func(t *testing.T) { steered(t, s) })
	t.Run("marked texts", func(t *testing.T) { marked(t, s) })
	t.Run("who the user is", func(t *testing.T) { identified(t, s) })
	t.Run("an expired image", func(t *testing.T) { expiredImage(t, s) })
	t.Run("images of tools", func(t *testing.T) { imagesOfTools(t, s) })
	t.Run("many images", func(t *testing.T) { manyImages(t, s) })
	t.Run("a large image", func(t *testing.T) { largeImage(t, s) })
	t.Run("a call that ends with its context", func(t *testing.T) { endsWithContext(t, s) })
	t.Run("a server that fails", func(t *testing.T) { fails(t, s) })
	t.Run("a broken schema", func(t *testing.T) { brokenSchema(t, s) })
	t.Run("no server", func(t *testing.T) { noServer(t, s) })
	t.Run("what arrives", func(t *testing.T) { progressReported(t, s) })
}

// toolLoop: every request has all reasoning so far, unchanged and in its place, and begins with the request before it.
func toolLoop(t *testing.T, s Subject) {
	p := s.play(t, loop()...)
	c := newTalk()
	for i := range p.Double.Script {
		minted := p.Double.Minted()
		r := c.step(t, p)
		if got := p.Double.Returned(); got != minted {
			t.Errorf("step %d has %d of %d pieces of reasoning", i+1, got, minted)
		}
		if i < 2 && len(r.ToolCalls) == 0 {
			t.Errorf("step %d calls nothing", i+1)
		}
	}
	if c.messages[1].PlainText() != "Let me look." || c.messages[len(c.messages)-1].PlainText() != "It rains." {
		t.Errorf("the texts are %q and %q", c.messages[1].PlainText(), c.messages[len(c.messages)-1].PlainText())
	}
	if got := c.messages[1].ToolCalls[1].Arguments; got != `{"at":"Bergen"}` {
		t.Errorf("the arguments are %s", got)
	}
	bodies := p.Double.Bodies()
	for i := 1; i < len(bodies); i++ {
		before, after := conversation(t, s, bodies[i-1]), conversation(t, s, bodies[i])
		if len(after) <= len(before) || !reflect.DeepEqual(after[:len(before)], before) {
			t.Errorf("request %d does not begin with request %d:\n%s\n%s", i+1, i, bodies[i], bodies[i-1])
		}
	}
}

// conversation is that of a request, byte for byte but for the marks of a cache.
func conversation(t *testing.T, s Subject, body []byte) []string {
	t.Helper()
	fields, _, err := Fields(s.Dialect, body)
	if err != nil {
		t.Fatal(err)
	}
	return fields
}

// streams: how a stream comes does not matter, split at any byte.
func streams(t *testing.T, s Subject) {
	size := s.play(t, loop()[1]).Double.Size()
	var want *model.Response
	for cut := 0; cut <= size; cut++ {
		p := s.play(t, loop()[1])
		p.Double.Cut, p.Double.Bytes = cut, cut == size
		got, err := newTalk().respond(t.Context(), p)
		if err != nil {
			t.Fatalf("cut at byte %d: %v", cut, err)
		}
		for i := range got.Content {
			if r := got.Content[i].Reasoning; r != nil && r.Data != "" {
				r.Data = "minted"
			}
		}
		if want == nil {
			want = got
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("cut at byte %d:\n%+v\nwant\n%+v", cut, got, want)
		}
	}
	if len(want.Content) == 0 || len(want.ToolCalls) != 1 {
		t.Errorf("the response is %+v", want)
	}
}

// withoutReasoning: the API refuses a request without its reasoning, where its documentation requires that.
func withoutReasoning(t *testing.T, s Subject) {
	refusal := s.Dialect.Check(&Double{Dialect: s.Dialect}, stripReasoning(t, s))
	if refusal == nil || refusal.Status != http.StatusBadRequest {
		t.Fatalf("the double accepts a step without the reasoning of the one before: %+v", refusal)
	}
}

// stripReasoning is the next request of a loop as an API sees it from a driver that keeps no reasoning.
func stripReasoning(t *testing.T, s Subject) map[string]any {
	t.Helper()
	c := newTalk()
	q := s.play(t, loop()...)
	c.step(t, q)
	c.step(t, q)
	var body map[string]any
	decoder := json.NewDecoder(bytes.NewReader(lastBody(q.Double)))
	decoder.UseNumber()
	if err := decoder.Decode(&body); err != nil {
		t.Fatal(err)
	}
	if !strip(body) {
		t.Fatalf("there is no reasoning in %s", lastBody(q.Double))
	}
	return body
}

// strip removes reasoning from JSON, whatever the API. It reports whether there was any.
func strip(value any) (found bool) {
	switch v := value.(type) {
	case map[string]any:
		for _, field := range []string{"thoughtSignature", "reasoning_content", "reasoning"} {
			if _, has := v[field].(string); has {
				delete(v, field)
				found = true
			}
		}
		for name, inner := range v {
			if items, ok := inner.([]any); ok {
				var kept []any
				for _, item := range items {
					switch text(object(item)["type"]) {
					case "thinking", "redacted_thinking", "reasoning":
						found = true
					default:
						kept = append(kept, item)
					}
				}
				v[name] = kept
			}
			found = strip(v[name]) || found
		}
	case []any:
		for _, item := range v {
			found = strip(item) || found
		}
	}
	return found
}

// changedKey: the account behind a credential has changed, so that the API refuses the reasoning of the other, and the
// request is sent again without.
func changedKey(t *testing.T, s Subject) {
	p := s.play(t, loop()...)
	c := newTalk()
	c.step(t, p)
	p.withKey(t, "sk-conformance-2")
	c.step(t, p)
	if _, verified := s.Dialect.(Chat); !verified && !c.dropped {
		t.Error("the reasoning of another account was accepted")
	}
	c.step(t, p)
	if c.dropped {
		t.Error("reasoning was refused twice")
	}
}

// refusedReasoning: the driver reports that reasoning was refused, and the same conversation without it is accepted.
func refusedReasoning(t *testing.T, s Subject) {
	p := s.play(t, loop()...)
	c := newTalk()
	c.step(t, p)
	p.Double.Refuse = true
	r, reasoning := c.request(p, p.Name)
	if !reasoning {
		t.Fatal("the first response has no reasoning")
	}
	response, err := p.driver.Generate(t.Context(), r)
	var refused *provider.ReasoningRefused
	if !errors.As(err, &refused) || response != nil {
		t.Fatalf("the driver returns %+v, %v", response, err)
	}
	var failure *provider.Error
	if !errors.As(err, &failure) || failure.Problem == "" {
		t.Errorf("the error %v does not say what the provider says", err)
	}
	c.step(t, p)
	if !c.dropped {
		t.Error("nothing was dropped")
	}
}

// tooMuchReasoning: it is not kept, and the loop goes on without.
func tooMuchReasoning(t *testing.T, s Subject) {
	script := loop()
	large := make([]byte, event.MaxReasoningBytes)
	for i := range large {
		large[i] = 'x'
	}
	script[0][0].Thought = string(large)
	p := s.play(t, script...)
	c := newTalk()
	r := c.step(t, p)
	for _, part := range r.Content {
		if part.Reasoning.Bytes() > event.MaxReasoningBytes/2 {
			t.Errorf("%d bytes are kept", part.Reasoning.Bytes())
		}
	}
	c.step(t, p)
	c.step(t, p)
}

// steered: the user sends a message within the loop, and another later.
func steered(t *testing.T, s Subject) {
	p := s.play(t, append(loop(), Step{textPart("You are welcome.")})...)
	c := newTalk()
	c.step(t, p)
	c.messages = append(c.messages, event.NewUserMessage("And in Ås?"))
	c.step(t, p)
	c.step(t, p)
	c.messages = append(c.messages, event.NewUserMessage("Thank you."))
	c.step(t, p)
}

// marked: a message has the phase that the provider gave it, also where that does not follow from its calls, and it is
// given back with it (LLM-09).
func marked(t *testing.T, s Subject) {
	p := s.play(t,
		Step{Part{Text: "I look at the map.", Phase: "commentary"}, Part{Text: "It rains.", Phase: "final_answer"}},
		Step{Part{Text: "I am still looking.", Phase: "commentary"}},
		Step{textPart("You are welcome.")})
	c := newTalk()
	for range p.Double.Script {
		c.step(t, p)
		c.messages = append(c.messages, event.NewUserMessage("Go on."))
	}
	want := event.PhaseFinalAnswer
	if _, marks := s.Dialect.(Responses); marks {
		want = event.PhaseCommentary
	}
	if c.messages[1].Phase != event.PhaseFinalAnswer || c.messages[3].Phase != want ||
		c.messages[5].Phase != event.PhaseFinalAnswer {
		t.Errorf("the phases are %q, %q, %q", c.messages[1].Phase, c.messages[3].Phase, c.messages[5].Phase)
	}
}

// identified: the request identifies the user where the API has a field for that, and only there (LLM-10).
func identified(t *testing.T, s Subject) {
	p := s.play(t, Step{textPart("Hello.")})
	newTalk().step(t, p)
	failure := bytes.Contains(lastBody(p.Double), []byte(testUser))
	if got := p.Double.User(); failure != s.Identifies || s.Identifies != (got == testUser) {
		t.Errorf("the user is %q for the API, in %s", got, lastBody(p.Double))
	}
}

// expiredImage: the driver reports that an image could not be fetched, and the same conversation without it is
// accepted.
func expiredImage(t *testing.T, s Subject) {
	const url = "https://example.org/ship.jpg"
	p := s.play(t, Step{textPart("A ship.")}, Step{textPart("It was old.")})
	c := newTalk()
	image := event.Part{Type: event.PartImage, MediaType: "image/jpeg", URL: url}
	c.messages[0].Content = append(c.messages[0].Content, image)
	c.step(t, p)
	c.messages = append(c.messages, event.NewUserMessage("How old was it?"))
	p.Double.Expired = []string{url}
	r, _ := c.request(p, p.Name)
	response, err := p.driver.Generate(t.Context(), r)
	var refused *provider.ImageRefused
	if !errors.As(err, &refused) || refused.Unreadable || response != nil {
		t.Fatalf("the driver returns %+v, %v", response, err)
	}
	var failure *provider.Error
	if !errors.As(err, &failure) || failure.Problem == "" || failure.Transient() {
		t.Errorf("the error is %+v", failure)
	}
	if _, names := s.Dialect.(Responses); refused.Names(url) != names {
		t.Errorf("the address is named: %t", refused.Names(url))
	}
	c.messages = event.WithoutImages(c.messages, []string{image.ImageDigest()})
	c.step(t, p)
}

// Pairs runs A-B-A within one tool loop for two drivers: neither API sees reasoning of the other, and the first one
// continues with its own.
func Pairs(t *testing.T, a, b Subject) {
	first, other := a.play(t, loop()[0], loop()[2]), b.play(t, loop()[1])
	c := newTalk()
	c.step(t, first)
	minted := first.Double.Minted()
	c.step(t, other)
	if other.Double.Returned() != 0 {
		t.Errorf("%s received reasoning of another model", b.Name)
	}
	c.step(t, first)
	if a.Pauses {
		minted = 0
	}
	if got := first.Double.Returned(); got != minted {
		t.Errorf("%s received %d of its pieces of reasoning, want %d", a.Name, got, minted)
	}
	if c.dropped {
		t.Errorf("%s refused its own reasoning", a.Name)
	}
}
