package drivers_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/drivers"
	"github.com/capstan-dev/capstan/internal/testing/memory"
)

// wire is how a provider sends things.
type wire struct {
	// call is a stream with a call of the tool "look", whose arguments come in pieces.
	call func(pieces ...string) string
	// event is one event with a part that is any JSON, in a place where it is not understood.
	event func(unknown string) string
}

func quoted(text string) string {
	q, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(q)
}

// byResponses stands for provider OpenAI with its Responses API.
const byResponses v1alpha1.ModelProvider = "OpenAI by Responses"

var wires = map[v1alpha1.ModelProvider]wire{
	byResponses: {
		call: func(pieces ...string) string {
			event := func(kind, fields string) string {
				return "event: response." + kind + "\ndata: " + `{"type":"response.` + kind + `","output_index":0,` + fields +
					"}\n\n"
			}
			stream := event("output_item.added",
				`"item":{"type":"function_call","id":"fc","call_id":"c","name":"look","arguments":""}`)
			for _, piece := range pieces {
				stream += event("function_call_arguments.delta", `"delta":`+quoted(piece))
			}
			return stream + event("completed", `"response":{"id":"r","model":"m"}`)
		},
		event: func(unknown string) string {
			return "event: response.created\n" +
				`data: {"type":"response.created","response":{"id":"r","x":` + unknown + `}}` + "\n\n"
		},
	},
	v1alpha1.ModelProviderOpenAI: {
		call: func(pieces ...string) string {
			stream := ""
			for _, piece := range pieces {
				stream += `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"look",` +
					`"arguments":` + quoted(
					piece,
				) + `}}]}}]}` + "\n\n"
			}
			return stream + `data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}` + "\n\ndata: [DONE]\n\n"
		},
		event: func(unknown string) string {
			return `data: {"choices":[{"index":0,"delta":{"x":` + unknown + `}}]}` + "\n\n"
		},
	},
	v1alpha1.ModelProviderAnthropic: {
		call: func(pieces ...string) string {
			event := func(data string) string {
				var kind struct{ Type string }
				_ = json.Unmarshal([]byte(data), &kind)
				return "event: " + kind.Type + "\ndata: " + data + "\n\n"
			}
			stream := event(`{"type":"message_start","message":{"id":"m","model":"m"}}`) +
				event(
					`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"c","name":"look","input":{}}}`,
				)
			for _, piece := range pieces {
				stream += event(
					`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":` + quoted(
						piece,
					) + `}}`,
				)
			}
			return stream + event(
				`{"type":"content_block_stop","index":0}`,
			) + event(
				`{"type":"message_delta","delta":{"stop_reason":"tool_use"}}`,
			) + event(
				`{"type":"message_stop"}`,
			)
		},
		event: func(unknown string) string {
			return "event: message_start\n" + `data: {"type":"message_start","message":{"id":"m","model":"m","x":` + unknown +
				`}}` + "\n\n"
		},
	},
	v1alpha1.ModelProviderGoogle: {
		call: func(pieces ...string) string {
			return `data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"look","args":` + strings.Join(
				pieces,
				"",
			) + `}}]},"finishReason":"STOP"}]}` + "\n\n"
		},
		event: func(unknown string) string {
			return `data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"look","args":` + unknown + `}}]}}]}` +
				"\n\n"
		},
	},
}

// stream answers every request with a stream of events.
type stream func() io.Reader

// RoundTrip implements http.RoundTripper.
func (s stream) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK,
		Proto:      "HTTP/1.1",
		ProtoMajor: 1,
		ProtoMinor: 1,
		Header:     http.Header{"Content-Type": {"text/event-stream"}},
		Body:       io.NopCloser(s()),
		Request:    r,
	}, nil
}

// generate calls a driver whose provider responds so.
func generate(t testing.TB, name v1alpha1.ModelProvider, answer stream) (*model.Response, error) {
	t.Helper()
	spec, special := map[v1alpha1.ModelProvider]v1alpha1.ModelSpec{
		byResponses: {Provider: v1alpha1.ModelProviderOpenAI, API: v1alpha1.ModelAPIResponses},
		v1alpha1.ModelProviderOpenAI: {
			Provider: v1alpha1.ModelProviderOpenAI, API: v1alpha1.ModelAPIChatCompletions,
		},
	}[name]
	if !special {
		spec.Provider = name
	}
	driver, err := drivers.All()[spec.Provider](
		&v1alpha1.Model{Spec: spec},
		model.Access{HTTP: &http.Client{Transport: answer}, Key: "key-of-the-test"},
	)
	if err != nil {
		t.Fatal(err)
	}
	return driver.Generate(
		t.Context(),
		model.Request{Model: "some-model", Messages: []event.Message{event.NewUserMessage("Hello")}},
	)
}

func TestAStreamIsBoundedBeforeItIsDecoded(t *testing.T) {
	half := strings.Repeat("x", 300<<10)
	for name, w := range wires {
		for what, body := range map[string]string{
			"one call with too many bytes": w.call(`{"a":"`, half, half, half, half, `"}`),
			"deep arguments":               w.event(strings.Repeat(`{"a":`, 9900) + "1" + strings.Repeat("}", 9900)),
			"many chains": w.event(
				"[" + strings.Repeat(strings.Repeat(`{"a":`, 100)+"1"+strings.Repeat("}", 100)+",", 1700) + "1]",
			),
			"many objects":                  w.event("[" + strings.Repeat(`{},`, 300_000) + "1]"),
			"many objects that are members": w.event("[" + strings.Repeat(`{"":0},`, 140_000) + "1]"),
			"many events":                   strings.Repeat("data: {}\n\n", 300<<10),
		} {
			t.Run(fmt.Sprintf("%s, %s", name, what), func(t *testing.T) {
				var got *model.Response
				var err error
				used := memory.Allocated(
					func() { got, err = generate(t, name, func() io.Reader { return strings.NewReader(body) }) },
				)
				if got != nil || err == nil || !strings.Contains(err.Error(), "too long") {
					t.Errorf("Generate = %v, %v", got != nil, err)
				}
				// Many events are decoded one after another.
				if used > 48<<20 && what != "many events" {
					t.Errorf("%d MiB were allocated", used>>20)
				}
			})
		}
	}
}

func TestACallThatAToolCouldTakeIsAccepted(t *testing.T) {
	arguments := `{"a":[` + strings.Repeat(
		`{"id":1,"n":"xx"},`,
		5000,
	) + `{}],"b":` + strings.Repeat(
		"[",
		60,
	) + strings.Repeat(
		"]",
		60,
	) + "}"
	for name, w := range wires {
		got, err := generate(t, name, func() io.Reader { return strings.NewReader(w.call(arguments)) })
		if err != nil || len(got.ToolCalls) != 1 || got.ToolCalls[0].Arguments != arguments {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// BenchmarkASlowEvent reads an event of 64 KiB, and one 15.6 times as large, that come in single bytes. It reports how
// many times as long the large one takes: about 16 where the time is linear, about 240 where it is quadratic.
func BenchmarkASlowEvent(b *testing.B) {
	for name, w := range wires {
		body := func(size int) string { return w.call(`{"a":"` + strings.Repeat("x", size) + `"}`) }
		small, large := body(64<<10), body(1000<<10)
		took := func(body string) time.Duration {
			begin := time.Now()
			if _, err := generate(
				b,
				name,
				func() io.Reader { return iotest.OneByteReader(strings.NewReader(body)) },
			); err != nil {
				b.Fatal(err)
			}
			return time.Since(begin)
		}
		b.Run(string(name), func(b *testing.B) {
			var times [2]time.Duration
			for b.Loop() {
				times[0] += took(small)
				times[1] += took(large)
			}
			b.ReportMetric(float64(times[1])/float64(times[0]), "x")
		})
	}
}
