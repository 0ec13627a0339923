package openai

import (
	"reflect"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider/providertest"
)

// respond calls a server by Responses.
func respond(t *testing.T, answer providertest.Answer, r model.Request, p v1alpha1.ModelParameters) (
	*providertest.Server, *model.Response, error,
) {
	t.Helper()
	server := providertest.Serve(t, answer)
	made, err := NewResponses(Options{HTTP: server.Client(), Key: key, Parameters: p})
	if err != nil {
		t.Fatal(err)
	}
	got, err := made.Generate(t.Context(), r)
	return server, got, err
}

const (
	created = `{"type":"response.created","response":{"id":"resp_1","model":"gpt-5.6-2026"}}`
	begun   = `{"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"msg_1"}}`
	once    = `{"type":"response.output_text.delta","output_index":0,"delta":"Once"}`
	called  = `{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","call_id":"c1",` +
		`"name":"look"}}`
	half      = `{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{\"a\""}`
	rest      = `{"type":"response.function_call_arguments.delta","output_index":1,"delta":": 1.0}"}`
	completed = `{"type":"response.completed","response":{"id":"resp_1","usage":{"input_tokens":120,"output_tokens":34,` +
		`"input_tokens_details":{"cached_tokens":100,"cache_write_tokens":15}}}}`
)

func ended(kind, fields string) string {
	return `{"type":"response.` + kind + `","response":{"id":"resp_1",` + fields + `}}`
}

func TestResponses(t *testing.T) {
	counted := model.Usage{InputTokens: 120, CacheReadTokens: 100, CacheWriteTokens: 15, OutputTokens: 34}
	look := []model.ToolCall{{ProviderID: "c1", Name: "look", Arguments: `{"a": 1.0}`}}
	for name, test := range map[string]struct {
		stream string
		want   *model.Response
		code   v1alpha1.ErrorCode
	}{
		"a text": {
			stream: unfinished(created, begun, once, completed),
			want:   &model.Response{Text: "Once", FinishReason: model.FinishStop, Usage: counted},
		},
		"a call, byte for byte": {
			stream: unfinished(created, begun, once, called, half, rest, completed),
			want:   &model.Response{Text: "Once", ToolCalls: look, FinishReason: model.FinishToolCalls, Usage: counted},
		},
		"a text that came only as a whole": {
			stream: unfinished(created, `{"type":"response.output_item.done","output_index":0,"item":{"type":"message",`+
				`"content":[`+
				`{"type":"output_text","text":"Once"}]}}`, completed),
			want: &model.Response{Text: "Once", FinishReason: model.FinishStop, Usage: counted},
		},
		"reasoning that cannot be given back": {
			stream: unfinished(created, `{"type":"response.output_item.done","output_index":5,"item":{"type":"reasoning",`+
				`"id":"rs_1",`+
				`"summary":[]}}`, begun, once, completed),
			want: &model.Response{Text: "Once", FinishReason: model.FinishStop, Usage: counted},
		},
		"a refusal": {
			stream: unfinished(created, begun, `{"type":"response.refusal.delta","output_index":0,"delta":"No."}`, completed),
			want:   &model.Response{Text: "No.", FinishReason: model.FinishFiltered, FinishWord: "refusal", Usage: counted},
		},
		"a text that a filter ended": {
			stream: unfinished(created, begun, once, ended("incomplete", `"incomplete_details":{"reason":"content_filter"}`)),
			want:   &model.Response{Text: "Once", FinishReason: model.FinishFiltered},
		},
		"a text at its limit": {
			stream: unfinished(created, begun, once, ended("incomplete", `"incomplete_details":{"reason":"max_output_tokens"}`)),
			want:   &model.Response{Text: "Once", FinishReason: "max_output_tokens"},
		},
		"a call at its limit": {
			stream: unfinished(
				created, called, half, ended("incomplete", `"incomplete_details":{"reason":"max_output_tokens"}`),
			),
			code: v1alpha1.ErrorCodeProcessingError,
		},
		"a text that broke off": {
			stream: unfinished(created, begun, once), want: &model.Response{Text: "Once"},
		},
		"a call that broke off": {stream: unfinished(created, called, half), code: v1alpha1.ErrorCodeProviderUnavailable},
		"a failure": {
			stream: unfinished(created, ended("failed", `"error":{"code":"server_error","message":"oops"}`)),
			code:   v1alpha1.ErrorCodeProviderUnavailable,
		},
		"a limit": {
			stream: unfinished(created, ended("failed", `"error":{"code":"rate_limit_exceeded","message":"slow"}`)),
			code:   v1alpha1.ErrorCodeProviderRateLimited,
		},
		"an error within the stream": {
			stream: unfinished(created, `{"type":"error","code":"server_error","message":"oops"}`),
			code:   v1alpha1.ErrorCodeProviderUnavailable,
		},
		"a prompt that is too long": {
			stream: unfinished(created, ended("failed", `"error":{"code":"context_length_exceeded","message":"too long"}`)),
			code:   v1alpha1.ErrorCodeRequestTooLarge,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := model.Request{Model: "gpt-5.6", Messages: []event.Message{event.NewUserMessage(prompt)}}
			_, got, err := respond(t, providertest.Answer{Body: test.stream}, r, v1alpha1.ModelParameters{})
			if test.want == nil {
				if got != nil || model.CodeOf(err) != test.code || strings.Contains(err.Error(), prompt) {
					t.Errorf("Generate = %+v, %v", got, err)
				}
				return
			}
			test.want.ResponseID, test.want.Model = "resp_1", "gpt-5.6-2026"
			if err != nil || !reflect.DeepEqual(got, test.want) {
				t.Errorf("got\n%+v, %v\nwant\n%+v", got, err, test.want)
			}
		})
	}
}

func TestARequestByResponses(t *testing.T) {
	warm := "0.5"
	limit := int32(99)
	image := event.Part{Type: event.PartImage, Base64: "aW1n", MediaType: "image/png"}
	call := event.ToolCall{ID: "1-0", ProviderID: "c1", Name: "look", Arguments: "{}"}
	response := event.NewAssistantMessage("I look.", []event.ToolCall{call})
	result := event.Message{
		Role: event.RoleToolResult, ToolCallID: "1-0", Error: "dark", Content: []event.Part{event.Text("seen"), image},
	}
	r := model.Request{
		Model: "gpt-5.6", SystemPrompt: "Be brief.",
		Messages: []event.Message{event.NewUserParts([]event.Part{event.Text("Look"), image}), response, result},
		Tools:    []model.ToolDefinition{{Name: "look", Description: "Looks."}},
	}
	p := v1alpha1.ModelParameters{
		MaxOutputTokens: &limit,
		ReasoningEffort: v1alpha1.ReasoningEffortLow,
		Temperature:     &warm,
	}
	server, _, err := respond(t, providertest.Answer{Body: unfinished(completed)}, r, p)
	if err != nil {
		t.Fatal(err)
	}
	seen := server.One(t)
	if seen.URL != "https://api.openai.com/v1/responses" {
		t.Errorf("it went to %s", seen.URL)
	}
	providertest.SameJSON(t, seen.Body, `{
		"model": "gpt-5.6", "stream": true, "store": false, "max_output_tokens": 99, "reasoning": {"effort": "low"},
		"include": ["reasoning.encrypted_content"],
		"tools": [{"type": "function", "name": "look", "description": "Looks.", "strict": false,
			"parameters": {"type": "object", "properties": {}}}],
		"input": [
			{"role": "system", "content": "Be brief."},
			{"role": "user", "content": [{"type": "input_text", "text": "Look"},
				{"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,aW1n"}]},
			{"role": "assistant", "content": "I look.", "phase": "commentary"},
			{"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
			{"type": "function_call_output", "call_id": "c1", "output": [
				{"type": "input_text", "text": "The tool call failed.\ndark\nseen"},
				{"type": "input_image", "image_url": "data:image/png;base64,aW1n"}]}
		]}`)
	// A model that does not reason refuses to be asked for its reasoning.
	r = model.Request{Model: "gpt-4o", Messages: []event.Message{event.NewUserMessage("Look")}}
	server, _, err = respond(t, providertest.Answer{Body: unfinished(completed)}, r, p)
	if err != nil {
		t.Fatal(err)
	}
	providertest.SameJSON(t, server.One(t).Body, `{
		"model": "gpt-4o", "stream": true, "store": false, "max_output_tokens": 99, "temperature": 0.5,
		"input": [{"role": "user", "content": [{"type": "input_text", "text": "Look"}]}]}`)
}
