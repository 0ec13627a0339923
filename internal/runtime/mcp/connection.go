package mcp

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/version"
)

const (
	// maxHandshakeBytes is the maximum size of a response of the handshake.
	maxHandshakeBytes = 64 << 10
	// maxResumptions is how often a response that was interrupted is continued, with servers that can do that.
	maxResumptions = 2
)

// connection is what the SDK knows of a server: the version of the protocol, and the session if the server has one. It
// serves one purpose at a time. Each request has a TCP connection of its own: one that is kept may be closed by the
// server at any time, and then it is unknown whether it has got a request.
type connection struct {
	*transport
	session *sdk.ClientSession
	// version is that of the protocol.
	version string
	// progress receives the notices of the call in progress.
	progress receiver
}

// connect connects to a server. The responses with results have at most so many bytes each. The error is an *Error.
func connect(
	ctx context.Context, client *egress.Client, server Server, permits func(*url.URL) bool, maxBody int64,
) (*connection, error) {
	c := &connection{transport: newTransport(client, server, egress.TransportOptions{MaxBody: maxBody})}
	c.allow(permits)
	sdkClient := sdk.NewClient(implementation(), &sdk.ClientOptions{
		Capabilities: capabilities(),
		// What a server asks is journalled and shown to users, and answered by a further call.
		MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
			c.progress.receive(r.Params)
		},
	})
	x := &exchange{}
	session, err := sdkClient.Connect(x.within(ctx), &sdk.StreamableClientTransport{
		Endpoint:             server.URL,
		HTTPClient:           &http.Client{Transport: c.transport},
		MaxRetries:           maxResumptions,
		MaxEventSize:         int(maxBody),
		DisableStandaloneSSE: true,
	}, nil)
	if err != nil {
		return nil, x.explain(ctx, err)
	}
	c.session = session
	c.version = session.InitializeResult().ProtocolVersion
	forgetAbout(session.InitializeResult())
	return c, nil
}

// implementation is this client, in the terms of the SDK.
func implementation() *sdk.Implementation {
	return &sdk.Implementation{Name: "capstan", Version: version.Get().String()}
}

// forgetAbout drops what a server has said about itself, all but the version of the protocol: the SDK keeps it, and it
// may be large once it is decoded.
func forgetAbout(about *sdk.InitializeResult) {
	about.Meta, about.Capabilities, about.Instructions, about.ServerInfo = nil, nil, "", nil
}

// close ends the session at the server, which may take a while with one that does not respond.
func (c *connection) close() {
	go func() { _ = c.session.Close() }() // Nothing can be done about a session that the server keeps.
}

// ping asks the server whether it knows the session.
func (c *connection) ping(ctx context.Context) error {
	x := &exchange{}
	if err := c.session.Ping(x.within(ctx), nil); err != nil {
		return x.explain(ctx, err)
	}
	return nil
}

// callTool calls a tool. The error is an *Error.
func (c *connection) callTool(ctx context.Context, r Request) (*Result, error) {
	x := &exchange{header: r.headers(), bulky: true}
	if c.version >= tasksVersion {
		x.seen = &tail{}
	}
	arguments := r.Arguments
	if len(arguments) == 0 {
		arguments = json.RawMessage("{}")
	}
	params := &sdk.CallToolParams{Name: r.Tool, Arguments: arguments}
	r.addInput(params, c.version)
	if r.Progress != nil {
		params.SetProgressToken(c.progress.begin(r.Progress))
		defer c.progress.end()
	}
	r.addTrace(params)
	answer, err := c.session.CallTool(x.within(ctx), params)
	if err != nil {
		return nil, x.explain(ctx, err)
	}
	if answer.NeedsInput() {
		return &Result{Asked: askedOf(answer)}, nil
	}
	switch task, made := x.creation(); {
	case task != nil:
		return &Result{Task: task}, nil
	case made, x.seen != nil && isTask(answer):
		return &Result{Task: &Task{Status: TaskWorking}}, nil
	}
	return &Result{Text: textOf(answer), IsError: answer.IsError, Connection: connectionOf(answer)}, nil
}

// isTask reports whether a result only says that the call has become a task. The SDK shows that in its JSON alone.
func isTask(answer *sdk.CallToolResult) bool {
	if len(answer.Content) > 0 || answer.StructuredContent != nil {
		return false
	}
	raw, err := json.Marshal(answer)
	var kind struct {
		ResultType string `json:"resultType"`
	}
	return err == nil && json.Unmarshal(raw, &kind) == nil && kind.ResultType == "task"
}
