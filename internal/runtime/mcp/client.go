package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
)

const (
	// MaxResponseBytes is the maximum size of the response to a call, with all notices that come before it.
	MaxResponseBytes = 256 << 10
	// MaxPageBytes is the maximum size of one page of a list of tools.
	MaxPageBytes = 1 << 20
	// MaxListedBytes is the maximum size of the definitions of all tools of a server, before the filter of the MCPServer.
	MaxListedBytes = 4 << 20
	// MaxListed is the maximum number of these tools.
	MaxListed = 1024

	// maxPages is the maximum number of pages of a list of tools.
	maxPages = 64
)

// Server is how a server is reached.
type Server struct {
	// URL of its endpoint.
	URL string
	// Route to it, and Trust what identifies the certificates of the Route.
	Route egress.Route
	Trust string
	// Header of all requests, and Secret the part of it that must not be shown to anybody else.
	Header, Secret http.Header
	// Token returns the identity token of a request; nil for requests without one. About is who the tokens are about.
	Token func(context.Context) (string, error)
	About string
}

// Tool is a tool as a server lists it.
type Tool struct {
	// Name of the tool at the server.
	Name string
	// Title is for people. Description and InputSchema are for the model.
	Title, Description string
	InputSchema        json.RawMessage
	// Hints are what the server says about the tool that makes people careful.
	Hints []v1alpha1.ToolHint
}

// Listing is the tools of a server.
type Listing struct {
	// ProtocolVersion that the server and this client speak.
	ProtocolVersion string
	// Tools in the order of the server.
	Tools []Tool
}

// Error is why a request to a server has no result.
type Error struct {
	// Called reports whether the request with the call was begun. Otherwise the tool has not run.
	Called bool
	// Answered reports whether the response to the call had begun, with a status of success.
	Answered bool
	// Request is the request that has failed; nil if none has.
	Request *egress.Error
	// Status of an HTTP response other than success; 0 for none.
	Status int
	// Rejected is the server's own error; empty for none.
	Rejected string
	// cause is the error of the SDK. It may contain anything that the server has sent.
	cause error
}

// Error implements error. It has nothing that the server has sent but its own error.
func (e *Error) Error() string {
	switch {
	case e.Rejected != "":
		return "the server responded with an error: " + e.Rejected
	case e.Request != nil:
		return e.Request.Text
	case e.Status != 0:
		return fmt.Sprintf("the server responded with status %d (%s)", e.Status, http.StatusText(e.Status))
	case errors.Is(e.cause, context.DeadlineExceeded):
		return "there was no complete response in time"
	case errors.Is(e.cause, context.Canceled):
		return "the request was cancelled"
	default:
		return "the response is not a valid message of the Model Context Protocol, or too long"
	}
}

// Unwrap returns the error of the context, if that has ended.
func (e *Error) Unwrap() error {
	for _, ended := range []error{context.DeadlineExceeded, context.Canceled} {
		if errors.Is(e.cause, ended) {
			return ended
		}
	}
	return nil
}

// TooLargeError reports a server with more tools, or larger definitions of them, than are read.
type TooLargeError struct{}

// Error implements error.
func (*TooLargeError) Error() string {
	return fmt.Sprintf("the server lists more than %d tools, or more than %d bytes of definitions", MaxListed,
		MaxListedBytes)
}

// explain returns why a request of an exchange has no result.
func (x *exchange) explain(ctx context.Context, err error) *Error {
	e := x.fate()
	if e.cause = err; ctx.Err() != nil {
		e.cause = ctx.Err()
	}
	var rejected *jsonrpc.Error
	if errors.As(err, &rejected) && !ofClient(rejected.Code, e.Answered) {
		if e.Rejected = rejected.Message; e.Rejected == "" {
			e.Rejected = fmt.Sprintf("code %d", rejected.Code)
		}
	}
	return &e
}

// Codes of errors that the SDK itself makes, in the form of a server's.
const (
	codeClientClosing = -32003
	codeServerClosing = -32004
	codeNotSent       = -32005
)

// ofClient reports whether an error with a code is one of the SDK and not of the server.
func ofClient(code int64, answered bool) bool {
	return code == codeClientClosing || code == codeServerClosing || code == codeNotSent && !answered
}

// List reads the tools of a server.
func List(ctx context.Context, client *egress.Client, server Server) (Listing, error) {
	c, err := connect(ctx, client, server, nil, MaxPageBytes)
	if err != nil {
		return Listing{}, err
	}
	defer c.close()
	x := &exchange{bulky: true}
	ctx = x.within(ctx)
	listing := Listing{ProtocolVersion: c.version}
	size, params := 0, &sdk.ListToolsParams{}
	for range maxPages {
		page, err := c.session.ListTools(ctx, params)
		if err != nil {
			return Listing{}, x.explain(ctx, err)
		}
		for _, t := range page.Tools {
			if t == nil {
				continue
			}
			listed, err := toolOf(t)
			if err != nil {
				return Listing{}, err
			}
			size += len(listed.Name) + len(listed.Title) + len(listed.Description) + len(listed.InputSchema)
			listing.Tools = append(listing.Tools, listed)
		}
		if size > MaxListedBytes || len(listing.Tools) > MaxListed {
			return Listing{}, &TooLargeError{}
		}
		if page.NextCursor == "" {
			return listing, nil
		}
		params = &sdk.ListToolsParams{Cursor: page.NextCursor}
	}
	return Listing{}, &TooLargeError{}
}

// toolOf is a tool in the form of this package.
func toolOf(t *sdk.Tool) (Tool, error) {
	listed := Tool{Name: t.Name, Title: t.Title, Description: t.Description}
	if t.InputSchema != nil {
		schema, err := json.Marshal(t.InputSchema)
		if err != nil {
			return Tool{}, fmt.Errorf("encoding a schema: %w", err)
		}
		listed.InputSchema = schema
	}
	a := t.Annotations
	if a == nil {
		return listed, nil
	}
	if listed.Title == "" {
		listed.Title = a.Title
	}
	if a.DestructiveHint != nil && *a.DestructiveHint {
		listed.Hints = append(listed.Hints, v1alpha1.ToolHintDestructive)
	}
	if a.OpenWorldHint != nil && *a.OpenWorldHint {
		listed.Hints = append(listed.Hints, v1alpha1.ToolHintOpenWorld)
	}
	return listed, nil
}

// Result is what a tool has returned.
type Result struct {
	// Text is the result in the form of package content.
	Text string
	// IsError reports whether the tool calls it an error.
	IsError bool
	// Asked is what the tool asks instead; nil for nothing.
	Asked *Asked
	// Connection is the provider that the tool needs a connection to, with IsError; empty for none.
	Connection string
	// Task is what the call has become instead; nil if it has ended. A task without an id cannot be followed.
	Task *Task
}

// Call calls a tool of a server, over a connection of its own. The error is an *Error.
func Call(ctx context.Context, client *egress.Client, server Server, r Request) (*Result, error) {
	c, err := connect(ctx, client, server, r.Permits, MaxResponseBytes)
	if err != nil {
		return nil, err
	}
	defer c.close()
	return c.callTool(ctx, r)
}
