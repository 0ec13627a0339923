package providertest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing/iotest"
)

// Step is one response of a Double, in the order of its parts.
type Step []Part

// Part of a response: a thought, a text or a call.
type Part struct {
	// Thought is the model's reasoning; Redacted hides it, where the API can.
	Thought  string
	Redacted bool
	Text     string
	// Phase marks a text as commentary or final_answer, where the API can.
	Phase string
	Call  *Call
}

// Call of a tool.
type Call struct{ ID, Name, Arguments string }

// Refusal is why an API refuses a request.
type Refusal struct {
	Status int
	// Body of the response.
	Body string
}

// Dialect is the API of a provider: how it writes a response, and which requests it refuses.
type Dialect interface {
	// Stream is the response as a stream of events. Its reasoning is minted by the Double.
	Stream(d *Double, s Step) string
	// Check returns why the API refuses a request; nil if it does not.
	Check(d *Double, body map[string]any) *Refusal
	// RefusesReasoning is how the API refuses reasoning that is not its own.
	RefusesReasoning() *Refusal
	// RefusesImage is how the API refuses a request with an image that it cannot fetch from its address.
	RefusesImage(url string) *Refusal
	// Conversation is the name of the field with the messages.
	Conversation() string
}

// Double plays the API of a provider by its documented rules: it responds by script, and refuses what the API refuses.
type Double struct {
	Dialect Dialect
	// Script are the responses.
	Script []Step
	// Refuse makes it refuse all reasoning.
	Refuse bool
	// Repeats gives a request that is sent again the same response: the one behind as many responses as pieces of
	// reasoning have come back. Each response must have one.
	Repeats bool
	// Expired are the addresses of images that cannot be fetched.
	Expired []string
	// Cut is the number of bytes after which a response comes in a second piece; 0 for one piece. Bytes makes it come
	// byte by byte.
	Cut   int
	Bytes bool

	lock     sync.Mutex
	account  string
	minted   map[string]minted
	returned map[string]bool
	// user is the user that the last request names.
	user string
	// phases are the marks of the texts that it has given.
	phases   map[string]string
	bodies   [][]byte
	answered int
}

// minted is reasoning that a Double has returned, the content that it belongs to, and the account of the request.
type minted struct{ content, account string }

// Client is for requests to the Double, whatever their host.
func (d *Double) Client() *http.Client { return &http.Client{Transport: d} }

// RoundTrip implements http.RoundTripper.
func (d *Double) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	d.lock.Lock()
	defer d.lock.Unlock()
	d.bodies = append(d.bodies, body)
	d.account = r.Header.Get("Authorization") + r.Header.Get("X-Api-Key") + r.Header.Get("X-Goog-Api-Key")
	d.returned, d.user = map[string]bool{}, ""
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var fields map[string]any
	if err := decoder.Decode(&fields); err != nil {
		return nil, fmt.Errorf("the request is no JSON: %w", err)
	}
	refusal := d.Dialect.Check(d, fields)
	if refusal == nil && d.Refuse && len(d.returned) > 0 {
		refusal = d.Dialect.RefusesReasoning()
	}
	for _, url := range d.Expired {
		if refusal == nil && bytes.Contains(body, []byte(url)) {
			refusal = d.Dialect.RefusesImage(url)
		}
	}
	if refusal != nil {
		return answer(r, refusal.Status, "application/json", strings.NewReader(refusal.Body)), nil
	}
	if d.Repeats {
		d.answered = len(d.returned)
	}
	if d.answered >= len(d.Script) {
		return nil, fmt.Errorf("the script has %d responses, and there is a further request", len(d.Script))
	}
	text := d.Dialect.Stream(d, d.Script[d.answered])
	d.answered++
	var stream io.Reader = strings.NewReader(text)
	if d.Cut > 0 && d.Cut < len(text) {
		stream = io.MultiReader(strings.NewReader(text[:d.Cut]), strings.NewReader(text[d.Cut:]))
	}
	if d.Bytes {
		stream = iotest.OneByteReader(stream)
	}
	return answer(r, http.StatusOK, "text/event-stream", stream), nil
}

func answer(r *http.Request, status int, kind string, body io.Reader) *http.Response {
	return &http.Response{
		Status: http.StatusText(status), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(body), ContentLength: -1, Request: r,
	}
}

// ServeHTTP implements http.Handler, for a Double behind a server. A request after the last one of the script ends with
// an error of the server.
func (d *Double) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	response, err := d.RoundTrip(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotImplemented)
		return
	}
	defer func() { _ = response.Body.Close() }()
	w.Header().Set("Content-Type", response.Header.Get("Content-Type"))
	w.WriteHeader(response.StatusCode)
	_, _ = io.Copy(w, response.Body)
}

// Fields returns the messages of a request, and all of its other fields, byte for byte but for the marks of a cache.
func Fields(d Dialect, body []byte) (messages []string, others map[string]string, err error) {
	for _, mark := range []string{`,"cache_control":{"type":"ephemeral"}`, `"cache_control":{"type":"ephemeral"},`} {
		body = bytes.ReplaceAll(body, []byte(mark), nil)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, nil, fmt.Errorf("reading a request: %w", err)
	}
	var conversation []json.RawMessage
	if err := json.Unmarshal(fields[d.Conversation()], &conversation); err != nil {
		return nil, nil, fmt.Errorf("reading the conversation of a request: %w", err)
	}
	for _, m := range conversation {
		messages = append(messages, string(m))
	}
	others = map[string]string{}
	for name, value := range fields {
		if name != d.Conversation() {
			others[name] = string(value)
		}
	}
	return messages, others, nil
}

// mint returns reasoning for some content, in base64.
func (d *Double) mint(content string) string {
	if d.minted == nil {
		d.minted = map[string]minted{}
	}
	data := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "opaque %04d %p", len(d.minted), d))
	d.minted[data] = minted{content: content, account: d.account}
	return data
}

// mark notes the phase that a text is given with.
func (d *Double) mark(text, phase string) {
	if d.phases == nil {
		d.phases = map[string]string{}
	}
	d.phases[text] = phase
}

// verify reports whether reasoning was minted for the content and the account that returns it.
func (d *Double) verify(data, content string) bool {
	known, ok := d.minted[data]
	if !ok || known.content != content || known.account != d.account {
		return false
	}
	d.returned[data] = true
	return true
}

// Minted is how many pieces of reasoning it has given.
func (d *Double) Minted() int {
	d.lock.Lock()
	defer d.lock.Unlock()
	return len(d.minted)
}

// Returned is how many different pieces of its own reasoning the last request had, unchanged and in their places.
func (d *Double) Returned() int {
	d.lock.Lock()
	defer d.lock.Unlock()
	return len(d.returned)
}

// User returns the user that the last request names; empty for none.
func (d *Double) User() string {
	d.lock.Lock()
	defer d.lock.Unlock()
	return d.user
}

// Bodies are the bodies of the requests so far.
func (d *Double) Bodies() [][]byte {
	d.lock.Lock()
	defer d.lock.Unlock()
	return append([][]byte(nil), d.bodies...)
}

// Size is the length of the first response.
func (d *Double) Size() int { return len(d.Dialect.Stream(&Double{}, d.Script[0])) }

// The helpers read JSON of any shape.
func object(value any) map[string]any { o, _ := value.(map[string]any); return o }
func list(value any) []any            { l, _ := value.([]any); return l }
func text(value any) string           { s, _ := value.(string); return s }

// encoded is a value as JSON.
func encoded(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// events are the data of events as a stream.
func events(data ...any) string {
	var b strings.Builder
	for _, d := range data {
		b.WriteString("data: " + encoded(d) + "\n\n")
	}
	return b.String()
}

// named are events that name their type on a line of its own.
func named(data ...map[string]any) string {
	var b strings.Builder
	for _, d := range data {
		fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", d["type"], encoded(d))
	}
	return b.String()
}

// only returns a field of an object that is not among those allowed; empty for none.
func only(o map[string]any, allowed ...string) string {
	known := map[string]bool{}
	for _, name := range allowed {
		known[name] = true
	}
	for name := range o {
		if !known[name] {
			return name
		}
	}
	return ""
}

// number is a number that has no fraction; 0 for anything else.
func number(value any) int64 {
	n, _ := value.(json.Number)
	i, _ := n.Int64()
	return i
}
