package mcp

import (
	"encoding/json"
	"net/http"
	"net/url"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// Request is a call of a tool.
type Request struct {
	// Tool is its name at the server.
	Tool string
	// Arguments are a JSON object; empty for one without members.
	Arguments json.RawMessage
	// Key is the same for each attempt of the call. A further call with answers has another one.
	Key string
	// TraceParent is the W3C trace context of the call; empty for none.
	TraceParent string
	// Permits reports whether requests may go to a URL; nil permits all.
	Permits func(*url.URL) bool
	// Progress receives what the server reports about the call in progress; nil if nothing is wanted. It is not called
	// after the call has returned, nor twice at once.
	Progress func(Progress)
	// Repeatable reports whether the call may be sent again if a kept client turns out to be out of date.
	Repeatable bool
	// Asks reports whether the tool may ask the user for input.
	Asks bool
	// Answers are those to what the tool has asked before; nil for nothing.
	Answers *tool.Answers
}

// headers are those of the request that calls the tool.
func (r Request) headers() http.Header {
	header := http.Header{}
	if r.Key != "" {
		header.Set(headerIdempotencyKey, r.Key)
	}
	if r.TraceParent != "" {
		header.Set(headerTraceParent, r.TraceParent)
	}
	return header
}

// metaTraceParent is the member of _meta for a W3C trace context. Servers read it where the transport has no headers.
const metaTraceParent = "traceparent"

// addTrace adds the trace context of the call.
func (r Request) addTrace(params *sdk.CallToolParams) {
	if r.TraceParent == "" {
		return
	}
	meta := params.GetMeta()
	if meta == nil {
		meta = map[string]any{}
	}
	meta[metaTraceParent] = r.TraceParent
	params.SetMeta(meta)
}
