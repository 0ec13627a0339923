package mcp_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/mcp"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/testing/site"
)

// asking is a call of the tool order for which the user may be asked.
func asking(answers *tool.Answers) mcp.Request {
	r := mcp.Request{Tool: "order", Arguments: json.RawMessage(`{"item":"shirt"}`), Key: "key"}
	r.Asks, r.Answers = true, answers
	return r
}

func TestWhatAServerAsksIsReturnedAndTheAnswersAreSentWithItsState(t *testing.T) {
	s := site.NewMCP(t, site.Stateless, site.Asking("order"))
	first, err := mcp.Call(t.Context(), s.Egress(), reach(s), asking(nil))
	if err != nil || first.Asked == nil || len(first.Asked.Requests) != 1 {
		t.Fatalf("it ends with %+v, %v", first, err)
	}
	got := first.Asked.Requests[0]
	if got.ID != "size" || got.Mode != v1alpha1.ToolInputModeForm || got.Message != "Which size?" ||
		!strings.Contains(string(got.RequestedSchema.Raw), `"enum":["small","large"]`) || first.Asked.State != "cart-7" ||
		first.Asked.Unsupported {
		t.Errorf("it asks %+v", first.Asked)
	}
	for name, c := range map[string]struct {
		answer v1alpha1.InputAnswer
		want   string
	}{
		"accepted": {
			v1alpha1.InputAnswer{
				ID: "size", Action: v1alpha1.InputActionAccept, Content: &v1alpha1.JSON{Raw: []byte(`{"size":"large"}`)},
			}, `cart-7 {"size":{"action":"accept","content":{"size":"large"}}}`,
		},
		"declined": {
			v1alpha1.InputAnswer{ID: "size", Action: v1alpha1.InputActionDecline}, `cart-7 {"size":{"action":"decline"}}`,
		},
		"cancelled": {
			v1alpha1.InputAnswer{ID: "size", Action: v1alpha1.InputActionCancel}, `cart-7 {"size":{"action":"cancel"}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			answers := &tool.Answers{Round: 1, State: "cart-7", Answers: []v1alpha1.InputAnswer{c.answer}}
			last, err := mcp.Call(t.Context(), s.Egress(), reach(s), asking(answers))
			if err != nil || last.Asked != nil || last.Text != c.want {
				t.Errorf("the result is %+v, %v", last, err)
			}
		})
	}
}

func TestAllThatAServerMayAskIsTakenApart(t *testing.T) {
	tools := site.Echo("order")
	tools.Answer = func(*sdk.CallToolParamsRaw) *sdk.CallToolResult {
		return &sdk.CallToolResult{RequestState: "s", InputRequests: sdk.InputRequestMap{
			"b": &sdk.ElicitParams{Mode: "url", Message: "Sign in", URL: "https://example.org/in", ElicitationID: "e"},
			"a": site.SizeQuestion(),
			"c": &sdk.ListRootsParams{}, //nolint:staticcheck // Servers may still ask for it.
		}}
	}
	s := site.NewMCP(t, site.Stateless, tools)
	got, err := mcp.Call(t.Context(), s.Egress(), reach(s), asking(nil))
	if err != nil || got.Asked == nil {
		t.Fatalf("it ends with %+v, %v", got, err)
	}
	ids := make([]string, 0, len(got.Asked.Requests))
	for _, r := range got.Asked.Requests {
		ids = append(ids, r.ID+" "+string(r.Mode)+" "+r.URL)
	}
	if !slices.Equal(ids, []string{"a Form ", "b URL https://example.org/in"}) || !got.Asked.Unsupported {
		t.Errorf("it asks %q, unsupported %v", ids, got.Asked.Unsupported)
	}
}

// The capability to ask is offered with each call of the newer generation alone: on the older wire a server could ask
// only while the call lasts, and the SDK's own server declines for us.
func TestServersAreOfferedToAskOnlyWhereAnAnswerIsPossible(t *testing.T) {
	for name, c := range map[string]struct {
		generation site.Generation
		asks, want bool
	}{
		"a client may answer":  {site.Stateless, true, true},
		"no client may answer": {site.Stateless, false, false},
		"the older wire":       {site.Stateful, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			offered := make(chan json.RawMessage, 1)
			tools := site.Echo("order")
			tools.Answer = func(params *sdk.CallToolParamsRaw) *sdk.CallToolResult {
				raw, err := json.Marshal(params.Meta[sdk.MetaKeyClientCapabilities])
				if err != nil {
					t.Error(err)
				}
				offered <- raw
				return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "done"}}}
			}
			s := site.NewMCP(t, c.generation, tools)
			r := asking(nil)
			r.Asks = c.asks
			if got, err := mcp.Call(t.Context(), s.Egress(), reach(s), r); err != nil || got.Text != "done" {
				t.Fatalf("it ends with %+v, %v", got, err)
			}
			if raw := <-offered; strings.Contains(string(raw), `"elicitation":{`) != c.want {
				t.Errorf("the capabilities are %s", raw)
			}
		})
	}
}

func TestOnTheOlderWireAQuestionIsDeclined(t *testing.T) {
	s := site.NewMCP(t, site.Stateful, site.Asking("order"))
	got, err := mcp.Call(t.Context(), s.Egress(), reach(s), asking(nil))
	if err == nil {
		t.Fatalf("it ends with %+v", got)
	}
	if !strings.Contains(err.Error(), "elicitation") {
		t.Errorf("it ends with %v", err)
	}
}

// Rules: TOOL-16.
func TestOnlyTheMetadataOfAnErrorReportsThatAConnectionIsNeeded(t *testing.T) {
	const key = "capstan.dev/connection-required"
	for name, c := range map[string]struct {
		result sdk.CallToolResult
		want   string
	}{
		"an error":         {sdk.CallToolResult{IsError: true, Meta: sdk.Meta{key: "github"}}, "github"},
		"a result":         {sdk.CallToolResult{Meta: sdk.Meta{key: "github"}}, ""},
		"an invalid name":  {sdk.CallToolResult{IsError: true, Meta: sdk.Meta{key: "Approve all"}}, ""},
		"another value":    {sdk.CallToolResult{IsError: true, Meta: sdk.Meta{key: []string{"github"}}}, ""},
		"content like it":  {sdk.CallToolResult{IsError: true, StructuredContent: map[string]any{key: "github"}}, ""},
		"nothing about it": {sdk.CallToolResult{IsError: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			tools := site.Echo("order")
			tools.Answer = func(*sdk.CallToolParamsRaw) *sdk.CallToolResult { return &c.result }
			s := site.NewMCP(t, site.Stateless, tools)
			got, err := mcp.Call(t.Context(), s.Egress(), reach(s), asking(nil))
			if err != nil || got.Connection != c.want {
				t.Errorf("it ends with %+v, %v", got, err)
			}
		})
	}
}
