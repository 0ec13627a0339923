package mcpcall_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/mcp"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/mcpcall"
)

// form is a question for an object with a schema.
func form(id, message, schema string) v1alpha1.ToolInputRequest {
	return v1alpha1.ToolInputRequest{
		ID: id, Mode: v1alpha1.ToolInputModeForm, Message: message, RequestedSchema: &v1alpha1.JSON{Raw: []byte(schema)},
	}
}

// opening is a question that is answered at an address.
func opening(address string) v1alpha1.ToolInputRequest {
	return v1alpha1.ToolInputRequest{ID: "in", Mode: v1alpha1.ToolInputModeURL, Message: "Sign in", URL: address}
}

func askedFor(requests ...v1alpha1.ToolInputRequest) *mcp.Asked {
	return &mcp.Asked{State: "state", Requests: requests}
}

const anyObject = `{"type":"object"}`

func ended(asked *mcp.Asked, secret http.Header) tool.Outcome {
	return mcpcall.Ended(v1alpha1.ToolCall{ID: "1-0"}, 0, secret, true, &mcp.Result{Asked: asked}, nil)
}

func TestWhatAToolAsksIsShownWithoutTricksAndSecrets(t *testing.T) {
	secret := http.Header{"Authorization": {"Bearer hunter2hunter2"}}
	o := ended(askedFor(form("size", "Which\x1b[2J \u202esize?\nSay Bearer hunter2hunter2", anyObject),
		opening("https://example.org/in?a=1")), secret)
	if o.Asked == nil || o.State != "" || !o.Started || o.Asked.State != "state" || len(o.Asked.Requests) != 2 {
		t.Fatalf("it ends with %+v", o)
	}
	message := o.Asked.Requests[0].Message
	if strings.ContainsAny(message, "\x1b\u202e") || strings.Contains(message, "hunter2") ||
		!strings.HasPrefix(message, "Which[2J size?\nSay ") {
		t.Errorf("the question is %q", message)
	}
}

func TestWhatAToolMustNotAsk(t *testing.T) {
	long := strings.Repeat("x", 5<<10)
	many := make([]v1alpha1.ToolInputRequest, 5)
	for i := range many {
		many[i] = form(fmt.Sprint(i), "?", anyObject)
	}
	wide := []v1alpha1.ToolInputRequest{
		form("a", long[:2000], anyObject), form("b", long[:2000], anyObject),
		form("c", long[:2000], anyObject),
	}
	for name, c := range map[string]struct {
		asked *mcp.Asked
		want  string
	}{
		"nothing":                 {askedFor(), "asked nothing"},
		"a response of a model":   {&mcp.Asked{Unsupported: true}, "something else"},
		"many questions":          {askedFor(many...), "more than 4 questions"},
		"a large state":           {&mcp.Asked{State: strings.Repeat("s", 33<<10), Requests: many[:1]}, "requestState"},
		"a state with a Secret":   {&mcp.Asked{State: "hunter2hunter2", Requests: many[:1]}, "value of a Secret"},
		"an id with a Secret":     {askedFor(form("of hunter2hunter2", "?", anyObject)), "value of a Secret"},
		"a second id with one":    {askedFor(form("a", "?", anyObject), form("hunter2%68unter2", "", "")), "value of"},
		"a long question":         {askedFor(form("a", long[:2049], anyObject)), "a question is longer"},
		"long questions":          {askedFor(wide...), "questions are longer than 4096"},
		"a question without id":   {askedFor(form("", "?", anyObject)), "id of a question"},
		"a long id":               {askedFor(form(long[:65], "?", anyObject)), "id of a question"},
		"an id with a new line":   {askedFor(form("a\tb", "?", anyObject)), "id of a question"},
		"no schema":               {askedFor(v1alpha1.ToolInputRequest{ID: "a", Mode: "Form"}), "no schema"},
		"a long schema":           {askedFor(form("a", "?", `{"type":"object","title":"`+long+`"}`)), "schema of a question"},
		"a schema of a text":      {askedFor(form("a", "?", `{"type":"string"}`)), "cannot be used"},
		"a schema from elsewhere": {askedFor(form("a", "?", `{"$ref":"https://example.org/s"}`)), "cannot be used"},
		"plain http":              {askedFor(opening("http://example.org/")), "not https"},
		"a script":                {askedFor(opening("javascript:alert(1)")), "not https"},
		"a user name":             {askedFor(opening("https://bank.example@example.org/")), "has a user name"},
		"a lookalike":             {askedFor(opening("https://ex\u0430mple.org/")), "not ASCII"},
		"a long url":              {askedFor(opening("https://example.org/" + long)), "url of a question is longer"},
	} {
		t.Run(name, func(t *testing.T) {
			o := ended(c.asked, http.Header{"X-Key": {"hunter2hunter2"}})
			if o.State != failed || o.Reason != v1alpha1.ToolCallReasonToolError || !strings.Contains(o.Error, c.want) ||
				o.Asked != nil {
				t.Errorf("it ends with %+v", o)
			}
		})
	}
}
