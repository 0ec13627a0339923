package modelserver

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
)

// Filtered is a text in a message for which Azure and LiteLLM refuse the prompt here.
const Filtered = "filtered words"

// azureFiltered is the error of Azure's content filter for a prompt.
const azureFiltered = `{"message":"The response was filtered","type":null,"param":"prompt","code":"content_filter",` +
	`"status":400,"innererror":{"code":"ResponsibleAIPolicyViolation","content_filter_result":` +
	`{"hate":{"filtered":false,"severity":"safe"},"violence":{"filtered":true,"severity":"medium"}}}}`

// Azure serves deployments as Azure OpenAI does: at the v1 API, with the key in the header api-key or as a bearer
// token, and at the dated API, whose requests need its version, and which takes a key in the header alone, because a
// bearer token is one of Entra ID there. Its content filter refuses prompts with Filtered, and a response begins with
// the results of the filter.
func Azure(key, version string, deployments ...string) http.Handler {
	mux := http.NewServeMux()
	v1 := func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Api-Key") != key && r.Header.Get("Authorization") != "Bearer "+key {
				azureDenied(w)
				return
			}
			next(w, r)
		}
	}
	dated := func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Query().Get("api-version") != version:
				azureError(w, http.StatusNotFound, `{"code":"404","message":"Resource not found"}`)
			case r.Header.Get("Api-Key") != key || r.Header.Get("Authorization") != "":
				azureDenied(w)
			default:
				next(w, r)
			}
		}
	}
	models := func(w http.ResponseWriter, _ *http.Request) { list(w, deployments) }
	chat := func(name func(*http.Request, *request) string, known ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			asked, unknown := azureRequest(r.Body, known)
			switch {
			case unknown != "":
				azureError(w, http.StatusBadRequest, `{"message":`+quoted("Unrecognized request argument supplied: "+unknown)+
					`,"type":"invalid_request_error","param":null,"code":null}`)
			case !slices.Contains(deployments, name(r, asked)):
				azureError(w, http.StatusNotFound, `{"code":"DeploymentNotFound","message":`+
					`"The API deployment for this resource does not exist."}`)
			case asked.has(Filtered):
				azureError(w, http.StatusBadRequest, azureFiltered)
			default:
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, `data: {"choices":[],"created":0,"id":"","model":"","object":"",`+
					`"prompt_filter_results":[{"prompt_index":0,"content_filter_results":`+
					`{"violence":{"filtered":false,"severity":"safe"}}}]}`+"\n\n")
				respond(w, asked, false)
			}
		}
	}
	mux.HandleFunc("GET /openai/v1/models", v1(models))
	mux.HandleFunc("GET /openai/models", dated(models))
	mux.HandleFunc("POST /openai/v1/chat/completions", v1(chat(func(_ *http.Request, asked *request) string {
		return asked.Model
	}, append(slices.Clone(azureParameters), "store")...)))
	mux.HandleFunc("POST /openai/deployments/{name}/chat/completions", dated(chat(
		func(r *http.Request, _ *request) string { return r.PathValue("name") }, azureParameters...)))
	return mux
}

// azureParameters are those of the requests here that version 2024-10-21 knows.
var azureParameters = []string{
	"model", "messages", "stream", "stream_options", "tools", "tool_choice", "parallel_tool_calls", "stop",
	"max_completion_tokens", "temperature", "top_p", "user",
}

// azureRequest reads a request, and returns the first parameter in it that is not known.
func azureRequest(body io.Reader, known []string) (asked *request, unknown string) {
	asked = &request{}
	raw, err := io.ReadAll(body)
	if err != nil {
		return asked, "body"
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil || json.Unmarshal(raw, asked) != nil {
		return asked, "body"
	}
	for name := range fields {
		if !slices.Contains(known, name) {
			return asked, name
		}
	}
	return asked, ""
}

// has reports whether a message has a text.
func (r *request) has(text string) bool {
	for _, m := range r.Messages {
		if strings.Contains(string(m.Content), text) {
			return true
		}
	}
	return false
}

func azureDenied(w http.ResponseWriter) {
	azureError(w, http.StatusUnauthorized, `{"code":"401","message":"Access denied due to invalid subscription key or `+
		`wrong API endpoint."}`)
}

func azureError(w http.ResponseWriter, status int, problem string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, `{"error":`+problem+"}")
}

func quoted(text string) string {
	raw, _ := json.Marshal(text) // A string.
	return string(raw)
}
