package mcpcall

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/credential"
	"github.com/capstan-dev/capstan/internal/runtime/mcp"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/inputschema"
)

const (
	maxInputID      = 64
	maxInputMessage = 2048
	maxInputURL     = 1024
)

// asked is the outcome of a call whose tool asks for input, or fails to do so within the limits. A server that asks has
// begun to work on the call.
func asked(secret http.Header, a *mcp.Asked) tool.Outcome {
	input := tool.Input{State: a.State}
	problem := stateProblem(a, secret)
	for i := 0; problem == "" && i < len(a.Requests); i++ {
		question := shown(a.Requests[i], secret)
		problem = questionProblem(question)
		input.Requests = append(input.Requests, question)
	}
	if problem == "" {
		if raw, err := json.Marshal(input.Requests); err != nil || len(raw) > tool.MaxInputBytes {
			problem = fmt.Sprintf("its questions are longer than %d bytes", tool.MaxInputBytes)
		}
	}
	if problem != "" {
		return tool.AfterStart(tool.Failed(v1alpha1.ToolCallReasonToolError, "The tool asked for input of the user, which "+
			"was not shown: "+problem+". It may have done a part of its work."))
	}
	return tool.AfterStart(tool.Outcome{Asked: &input})
}

// stateProblem returns why what a server asks cannot be used as a whole; empty if it can.
func stateProblem(a *mcp.Asked, secret http.Header) string {
	switch {
	case a.Unsupported:
		return "it asked for something else than an answer of the user"
	case len(a.Requests) == 0:
		return "it asked nothing, which is how a server that is busy postpones a call"
	case len(a.Requests) > tool.MaxInputRequests:
		return fmt.Sprintf("it asked more than %d questions at once", tool.MaxInputRequests)
	case len(a.State) > tool.MaxInputStateBytes:
		return fmt.Sprintf("its requestState has more than %d bytes", tool.MaxInputStateBytes)
	case credential.RedactText(a.State, secret) != a.State:
		return "its requestState has the value of a Secret"
	case slices.ContainsFunc(a.Requests, func(q v1alpha1.ToolInputRequest) bool {
		return credential.RedactText(q.ID, secret) != q.ID
	}):
		return "the id of a question has the value of a Secret"
	}
	return ""
}

// shown is a question with texts that people can read, and without the values of Secrets.
func shown(q v1alpha1.ToolInputRequest, secret http.Header) v1alpha1.ToolInputRequest {
	q.Message = printable(credential.RedactText(q.Message, secret))
	q.URL = credential.RedactText(q.URL, secret)
	if q.RequestedSchema != nil {
		q.RequestedSchema = &v1alpha1.JSON{Raw: []byte(credential.RedactText(string(q.RequestedSchema.Raw), secret))}
	}
	return q
}

// printable is a text without the characters that move a cursor or change the direction of writing.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return -1
	}, strings.ToValidUTF8(text, string(unicode.ReplacementChar)))
}

// questionProblem returns why a question cannot be shown; empty if it can.
func questionProblem(q v1alpha1.ToolInputRequest) string {
	switch {
	case q.ID == "" || len(q.ID) > maxInputID || printable(q.ID) != q.ID:
		return fmt.Sprintf("the id of a question is empty, longer than %d bytes or not printable", maxInputID)
	case len(q.Message) > maxInputMessage:
		return fmt.Sprintf("a question is longer than %d bytes", maxInputMessage)
	case q.Mode == v1alpha1.ToolInputModeURL:
		return urlProblem(q.URL)
	case q.RequestedSchema == nil:
		return "a question has no schema"
	case len(q.RequestedSchema.Raw) > tool.MaxInputBytes:
		return fmt.Sprintf("the schema of a question is longer than %d bytes", tool.MaxInputBytes)
	}
	if err := inputschema.Check(q.RequestedSchema.Raw); err != nil {
		return "the schema of a question cannot be used: " + err.Error()
	}
	return ""
}

// urlProblem returns why an address cannot be shown to people; empty if it can. They must be able to tell where it
// leads.
func urlProblem(raw string) string {
	u, err := url.Parse(raw)
	switch {
	case len(raw) > maxInputURL:
		return fmt.Sprintf("the url of a question is longer than %d bytes", maxInputURL)
	case err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil:
		return "the url of a question is not https, or has a user name"
	case strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "the url of a question has characters that are not ASCII"
	}
	return ""
}
