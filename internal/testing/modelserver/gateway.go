package modelserver

import (
	"encoding/json"
	"net/http"
	"slices"
)

// LiteLLM serves models as a LiteLLM proxy does: with a virtual key, models by the names that its administrator gave
// them, and errors whose code is the status as a text. A filter of the provider behind it is an error with the
// provider's word in a field of its own.
func LiteLLM(key string, models ...string) http.Handler {
	mux := http.NewServeMux()
	guarded := func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer "+key {
				azureError(w, http.StatusUnauthorized, `{"message":"Authentication Error, Invalid proxy server token passed.",`+
					`"type":"token_not_found_in_db","param":"key","code":"401"}`)
				return
			}
			next(w, r)
		}
	}
	mux.HandleFunc("GET /v1/models", guarded(func(w http.ResponseWriter, _ *http.Request) { list(w, models) }))
	mux.HandleFunc("POST /v1/chat/completions", guarded(func(w http.ResponseWriter, r *http.Request) {
		asked := &request{}
		switch err := json.NewDecoder(r.Body).Decode(asked); {
		case err != nil:
			fail(w, http.StatusBadRequest, err.Error(), "invalid_request_error")
		case !slices.Contains(models, asked.Model):
			azureError(w, http.StatusBadRequest, `{"message":`+quoted("Invalid model name passed in model="+asked.Model)+
				`,"type":"invalid_request_error","param":"model","code":"400"}`)
		case asked.has(Filtered):
			azureError(w, http.StatusBadRequest, `{"message":"litellm.ContentPolicyViolationError","type":null,"param":null,`+
				`"code":"400","provider_specific_fields":{"innererror":{"code":"ResponsibleAIPolicyViolation"}}}`)
		default:
			respond(w, asked, false)
		}
	}))
	return mux
}
