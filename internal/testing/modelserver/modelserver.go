// Package modelserver has servers in the shape of model servers and gateways that implement the API of OpenAI, for
// tests: each enforces what the documentation of the real one says about requests, and fails as it does.
package modelserver

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// request is what the servers read of a request for Chat Completions.
type request struct {
	Model    string `json:"model"`
	Stream   bool   `json:"stream"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	Tools []struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	} `json:"tools"`
	StreamOptions *struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Store *bool `json:"store"`
}

// called reports whether the conversation has the result of a tool.
func (r *request) called() bool {
	return len(r.Messages) > 0 && r.Messages[len(r.Messages)-1].Role == "tool"
}

// kind is what distinguishes the servers.
type kind struct {
	models []string
	// authorized reports whether a request has the key; failing otherwise responds to it.
	authorized func(*http.Request) bool
	refuse     func(http.ResponseWriter)
	// unknown responds to a request for a model that does not exist.
	unknown func(w http.ResponseWriter, model string)
	// check returns why a request is refused otherwise; empty if it is not.
	check func(*request) string
	// wholeCalls reports whether a call comes in one event.
	wholeCalls bool
	// one reports whether GET /models/NAME is served.
	one bool
}

// Ollama serves models as Ollama does below /v1: it ignores keys, has a model by its name and tag, with latest as the
// default tag, and sends each tool call in one event.
func Ollama(models ...string) http.Handler {
	tagged := func(name string) string {
		if strings.Contains(name, ":") {
			return name
		}
		return name + ":latest"
	}
	all := make([]string, 0, len(models))
	for _, m := range models {
		all = append(all, tagged(m))
	}
	return serve(kind{
		models: all, wholeCalls: true, one: true,
		authorized: func(*http.Request) bool { return true },
		unknown: func(w http.ResponseWriter, model string) {
			fail(w, http.StatusNotFound, fmt.Sprintf(`model %q not found`, model), "not_found_error")
		},
	}, tagged)
}

// VLLM serves models as vLLM does: with a key only requests that have it, and tools only with a parser for them.
func VLLM(key string, tools bool, models ...string) http.Handler {
	return serve(kind{
		models:     models,
		authorized: func(r *http.Request) bool { return key == "" || r.Header.Get("Authorization") == "Bearer "+key },
		refuse: func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"error":"Unauthorized"}`)
		},
		unknown: func(w http.ResponseWriter, model string) {
			fail(w, http.StatusNotFound, "The model `"+model+"` does not exist.", "NotFoundError")
		},
		check: func(r *request) string {
			if len(r.Tools) > 0 && !tools {
				return `"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set`
			}
			return ""
		},
	}, func(name string) string { return name })
}

// serve serves the API below /v1. canonical is the full name of a model.
func serve(k kind, canonical func(string) string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "fine") })
	guarded := func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if !k.authorized(r) {
				k.refuse(w)
				return
			}
			next(w, r)
		}
	}
	mux.HandleFunc("GET /v1/models", guarded(func(w http.ResponseWriter, _ *http.Request) { list(w, k.models) }))
	if k.one {
		mux.HandleFunc("GET /v1/models/{name}", guarded(func(w http.ResponseWriter, r *http.Request) {
			name := canonical(r.PathValue("name"))
			if !slices.Contains(k.models, name) {
				k.unknown(w, r.PathValue("name"))
				return
			}
			_ = json.NewEncoder(w).Encode(model(name))
		}))
	}
	mux.HandleFunc("POST /v1/chat/completions", guarded(func(w http.ResponseWriter, r *http.Request) {
		var asked request
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			fail(w, http.StatusBadRequest, err.Error(), "BadRequestError")
			return
		}
		if !slices.Contains(k.models, canonical(asked.Model)) {
			k.unknown(w, asked.Model)
			return
		}
		if k.check != nil {
			if why := k.check(&asked); why != "" {
				fail(w, http.StatusBadRequest, why, "BadRequestError")
				return
			}
		}
		respond(w, &asked, k.wholeCalls)
	}))
	return mux
}

func fail(w http.ResponseWriter, status int, message, kind string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"error": map[string]any{"message": message, "type": kind, "param": nil, "code": status},
	})
}

func model(name string) map[string]any {
	return map[string]any{"id": name, "object": "model", "created": 1, "owned_by": "library"}
}

func list(w http.ResponseWriter, models []string) {
	data := []any{}
	for _, name := range models {
		data = append(data, model(name))
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"object": "list", "data": data})
}

// respond streams a response: a call of the first tool, and once it has a result, or without tools, a text.
func respond(w http.ResponseWriter, asked *request, wholeCalls bool) {
	w.Header().Set("Content-Type", "text/event-stream")
	event := func(delta any, finish any) {
		raw, _ := json.Marshal(map[string]any{
			"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": asked.Model,
			"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}},
		})
		_, _ = fmt.Fprintf(w, "data: %s\n\n", raw)
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
	}
	finish := "stop"
	if len(asked.Tools) > 0 && !asked.called() {
		finish = "tool_calls"
		calls(event, asked.Tools[0].Function.Name, wholeCalls)
	} else {
		for _, word := range []string{"Good ", "morning."} {
			event(map[string]any{"role": "assistant", "content": word}, nil)
		}
	}
	event(map[string]any{"content": ""}, finish)
	if asked.StreamOptions != nil && asked.StreamOptions.IncludeUsage {
		_, _ = fmt.Fprintf(w, "data: %s\n\n", `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m",`+
			`"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9}}`)
	}
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
}

// calls sends a tool call: whole, or in parts.
func calls(event func(delta, finish any), name string, whole bool) {
	call := func(id, name, arguments string) map[string]any {
		function := map[string]any{"arguments": arguments}
		made := map[string]any{"index": 0, "function": function}
		if id != "" {
			function["name"], made["id"], made["type"] = name, id, "function"
		}
		return map[string]any{"role": "assistant", "tool_calls": []any{made}}
	}
	if whole {
		event(call("call_1", name, "{}"), nil)
		return
	}
	event(call("chatcmpl-tool-1", name, ""), nil)
	event(call("", "", "{"), nil)
	event(call("", "", "}"), nil)
}
