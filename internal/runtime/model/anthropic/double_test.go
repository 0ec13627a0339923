package anthropic

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

const (
	key    = "sk-ant-s3cr3t"
	prompt = "What is the weather in Oslo?"
)

// double is a server that speaks the Messages API.
type double struct {
	*httptest.Server
	mu     sync.Mutex
	got    []*http.Request
	bodies []string
}

func newDouble(t *testing.T, answer http.HandlerFunc) *double {
	t.Helper()
	d := &double{}
	d.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("reading the request: %v", err)
		}
		d.mu.Lock()
		d.got, d.bodies = append(d.got, r), append(d.bodies, string(body))
		d.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(d.Close)
	return d
}

// one is the only request that came, with its body.
func (d *double) one(t *testing.T) (*http.Request, string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.got) != 1 {
		t.Fatalf("the server got %d requests", len(d.got))
	}
	return d.got[0], d.bodies[0]
}

// driver calls the double.
func (d *double) driver(t *testing.T, parameters v1alpha1.ModelParameters) model.Driver {
	t.Helper()
	made, err := New(Options{HTTP: d.Client(), BaseURL: d.URL, Key: key, Parameters: parameters})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// streams responds with the events of a stream, each a type and its data.
func streams(events ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		fmt.Fprint(w, stream(events...))
	}
}

// stream is the text of events that each are their data.
func stream(events ...string) string {
	var b strings.Builder
	for _, data := range events {
		kind := data[len(`{"type":"`):]
		kind = kind[:strings.IndexByte(kind, '"')]
		fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", kind, data)
	}
	return b.String()
}

const (
	start = `{"type":"message_start","message":{"id":"msg_01","type":"message","role":"assistant",` +
		`"model":"claude-test-20260101","content":[],` +
		`"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":25,"cache_creation_input_tokens":100,` +
		`"cache_read_input_tokens":1000,"output_tokens":1}}}`
	ping = `{"type":"ping"}`
	stop = `{"type":"message_stop"}`
)

func textStart(index int) string {
	return fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":{"type":"text","text":""}}`, index)
}

func text(index int, content string) string {
	return fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":"text_delta","text":%q}}`, index, content)
}

func callStart(index int, id, tool string) string {
	return fmt.Sprintf(
		`{"type":"content_block_start","index":%d,"content_block":{"type":"tool_use","id":%q,"name":%q,"input":{}}}`,
		index,
		id,
		tool,
	)
}

func arguments(index int, piece string) string {
	return fmt.Sprintf(
		`{"type":"content_block_delta","index":%d,"delta":{"type":"input_json_delta","partial_json":%q}}`,
		index,
		piece,
	)
}

func blockStop(index int) string {
	return fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, index)
}

func ends(reason string) string {
	return fmt.Sprintf(
		`{"type":"message_delta","delta":{"stop_reason":%q,"stop_sequence":null},"usage":{"output_tokens":15}}`,
		reason,
	)
}

// simple is a request with one message of the user.
func simple() model.Request {
	return model.Request{Model: "claude-test", Messages: []event.Message{event.NewUserMessage(prompt)}}
}

// ask requests one response of the double.
func (d *double) ask(t *testing.T) (*model.Response, error) {
	t.Helper()
	return d.driver(t, v1alpha1.ModelParameters{}).Generate(t.Context(), simple())
}

// quiet checks that an error gives nothing away.
func quiet(t *testing.T, err error, d *double) {
	t.Helper()
	for e := err; e != nil; e = errors.Unwrap(e) {
		for _, word := range []string{
			key, "s3cr3t", "Oslo", "x-api-key", "https://", "127.0.0.1", d.Listener.Addr().String(),
		} {
			if strings.Contains(strings.ToLower(fmt.Sprintf("%v %+v", e, e)), strings.ToLower(word)) {
				t.Errorf("the error %q has %q in it", e, word)
			}
		}
	}
}

func TestWhatIsNoSettingMakesNoDriver(t *testing.T) {
	bad := "warm"
	for name, o := range map[string]Options{
		"no client":        {Key: key},
		"no key":           {HTTP: &http.Client{}},
		"no address":       {HTTP: &http.Client{}, Key: key, BaseURL: "somewhere"},
		"a broken address": {HTTP: &http.Client{}, Key: key, BaseURL: "https://[" + key},
		"no decimal":       {HTTP: &http.Client{}, Key: key, Parameters: v1alpha1.ModelParameters{Temperature: &bad}},
	} {
		made, err := New(o)
		if err == nil || made != nil {
			t.Errorf("%s: New = %v, %v", name, made, err)
			continue
		}
		if strings.Contains(err.Error(), key) {
			t.Errorf("%s: the error %q has the key in it", name, err)
		}
	}
}
