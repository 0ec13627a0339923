package mcp

import (
	"encoding/json"
	"net/http"
	"net/url"
)

// Request is a call of a tool.
type Request struct {
	// Tool is its name at the server.
	Tool string
	// Arguments are a JSON object; empty for one without members.
	Arguments json.RawMessage
	// Key is the same for each attempt of the call.
	Key string
	// TraceParent is the W3C trace context of the call; empty for none.
	TraceParent string
	// Permits reports whether requests may go to a URL; nil permits all.
	Permits func(*url.URL) bool
	// Repeatable reports whether the call may be sent again if a kept client turns out to be out of date.
	Repeatable bool
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
