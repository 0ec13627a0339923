package mcpcall_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/mcp"
	"github.com/capstan-dev/capstan/internal/runtime/tool/mcpcall"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
	"github.com/capstan-dev/capstan/internal/testing/site"
)

const (
	notExecuted = v1alpha1.ToolCallStateNotExecuted
	failed      = v1alpha1.ToolCallStateFailed
	succeeded   = v1alpha1.ToolCallStateSucceeded
	unknown     = v1alpha1.ToolCallStateUnknown
)

// answering is a server of which the tool "make" returns a result.
func answering(r *sdk.CallToolResult) http.HandlerFunc {
	made := site.Echo("make")
	made.Run = func(context.Context, json.RawMessage) *sdk.CallToolResult { return r }
	return site.MCPHandler(site.Stateful, made).ServeHTTP
}

// breaking is a server that answers calls with a function.
func breaking(call http.HandlerFunc) http.HandlerFunc {
	handler := site.MCPHandler(site.Stateful, site.Echo("make"))
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		if strings.Contains(string(body), `"tools/call"`) {
			call(w, r)
			return
		}
		handler.ServeHTTP(w, r)
	}
}

func said(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

// refusing refuses the handshake with an error in which the Authorization header is cut.
func refusing(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	var message struct{ ID json.RawMessage }
	_ = json.NewDecoder(r.Body).Decode(&message)
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-1,"message":"%s%s"}}`, message.ID,
		strings.Repeat("-", 495), r.Header.Get("Authorization"))
}

func texts(text string, isError bool) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}, IsError: isError}
}

// Rules: TOOL-05, DUR-01.
func TestEachEndingOfACallIsToldApart(t *testing.T) {
	forbidden := func(*url.URL) bool { return false }
	for name, c := range map[string]struct {
		server  http.HandlerFunc
		tool    string
		permits func(*url.URL) bool
		state   v1alpha1.ToolCallState
		reason  string
		text    string
		// idempotent is the state of a call that may run again.
		idempotent v1alpha1.ToolCallState
	}{
		"a result": {
			answering(texts("fine", false)), "make", nil, succeeded, v1alpha1.ToolCallReasonCompleted, "fine", succeeded,
		},
		"a secret": {
			answering(texts("you are Bearer s3cret-token", false)), "make", nil, succeeded,
			v1alpha1.ToolCallReasonCompleted, "you are [redacted]", succeeded,
		},
		"a long result": {
			answering(texts(strings.Repeat("x", 100_000), false)), "make", nil, succeeded,
			v1alpha1.ToolCallReasonCompleted, "of 100000 bytes", succeeded,
		},
		"an error of the tool": {
			answering(texts("no such city", true)), "make", nil, failed, v1alpha1.ToolCallReasonToolError, "no such city",
			failed,
		},
		"an error of the server": {
			answering(nil), "other", nil, failed, v1alpha1.ToolCallReasonServerError, `unknown tool "other"`, failed,
		},
		"a status": {
			breaking(said(http.StatusBadGateway, "")), "make", nil, failed, v1alpha1.ToolCallReasonHTTPStatus,
			"status 502 (Bad Gateway)", failed,
		},
		"a lost connection": {
			breaking(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), "make", nil, unknown,
			v1alpha1.ToolCallReasonConnectionLost, "closed before the response", failed,
		},
		"no message": {
			breaking(said(http.StatusOK, "fine")), "make", nil, failed, v1alpha1.ToolCallReasonOutputLost,
			"not a valid message", failed,
		},
		"no connection": {
			said(http.StatusForbidden, ""), "make", nil, notExecuted, v1alpha1.ToolCallReasonConnectionFailed,
			"status 403 (Forbidden)", notExecuted,
		},
		"a redirect": {
			func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "https://127.0.0.1:1", http.StatusFound)
			},
			"make", nil, notExecuted, v1alpha1.ToolCallReasonConnectionFailed, "redirects its requests", notExecuted,
		},
		"a secret in a refused handshake": {
			refusing, "make", nil, notExecuted, v1alpha1.ToolCallReasonConnectionFailed, "refused the connection",
			notExecuted,
		},
		"a forbidden url": {
			answering(nil), "make", forbidden, notExecuted, v1alpha1.ToolCallReasonNetworkAccessDenied,
			"network access list", notExecuted,
		},
	} {
		for _, class := range []v1alpha1.SideEffect{v1alpha1.SideEffectAtMostOnce, v1alpha1.SideEffectIdempotent} {
			t.Run(name+" "+string(class), func(t *testing.T) {
				s := site.New(t, c.server)
				secret := http.Header{"Authorization": {"Bearer s3cret-token"}}
				server := mcp.Server{URL: s.URL, Secret: secret}
				answer, err := mcp.Call(t.Context(), s.Egress(), server, mcp.Request{Tool: c.tool, Permits: c.permits})
				call := v1alpha1.ToolCall{ID: "1-0", SideEffect: class, Attempt: 1}
				o := mcpcall.Ended(call, time.Minute, secret, true, answer, err)
				want := c.state
				if class == v1alpha1.SideEffectIdempotent {
					want = c.idempotent
				}
				text := o.Error
				if o.Result != nil {
					text = *o.Result
				}
				if o.State != want || o.Reason != c.reason || !strings.Contains(text, c.text) ||
					strings.Contains(text, "s3cret") || len(text) > result.MaxResultBytes {
					t.Errorf("the outcome is %s %s: %.300s", o.State, o.Reason, text)
				}
				if o.Retryable && class == v1alpha1.SideEffectAtMostOnce {
					t.Error("it is tried again")
				}
			})
		}
	}
}

func TestACallThatTimesOut(t *testing.T) {
	s := site.New(t, breaking(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	answer, err := mcp.Call(ctx, s.Egress(), mcp.Server{URL: s.URL}, mcp.Request{Tool: "make"})
	o := mcpcall.Ended(v1alpha1.ToolCall{ID: "1-0", Attempt: 1}, 300*time.Millisecond, nil, true, answer, err)
	if o.State != unknown || o.Reason != v1alpha1.ToolCallReasonTimeout || !strings.Contains(o.Error, "within 300ms") {
		t.Errorf("the outcome is %s %s: %s", o.State, o.Reason, o.Error)
	}
}
