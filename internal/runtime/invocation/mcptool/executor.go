package mcptool

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/credential"
	"github.com/capstan-dev/capstan/internal/runtime/destination"
	"github.com/capstan-dev/capstan/internal/runtime/identity"
	"github.com/capstan-dev/capstan/internal/runtime/invocation/executor"
	"github.com/capstan-dev/capstan/internal/runtime/mcp"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
	"github.com/capstan-dev/capstan/internal/runtime/tool/executors"
	"github.com/capstan-dev/capstan/internal/runtime/tool/httpcall"
	"github.com/capstan-dev/capstan/internal/runtime/tool/mcpcall"
)

// Executor carries out the calls of the tools of MCPServers.
type Executor struct{}

var _ executor.SecretUser = Executor{}

// Prepare implements executor.Executor.
func (Executor) Prepare(ctx context.Context, p executor.Process, c executor.Call) (executor.Work, error) {
	remote := c.Definition.Remote()
	if remote == nil {
		return executor.Changed(c.Call, httpcall.Abandoned()), nil
	}
	if err := executor.UnlessClaimed(ctx, c, undiscovered(c.Call.Name, remote)); err != nil {
		return executor.Work{}, err
	}
	spec := remote.Server.Spec
	secrets, lacks, err := p.ReadSources(ctx, c, spec.Headers, credential.OfMCPServer)
	if err != nil || lacks != nil {
		return executor.Work{Refused: lacks, Abandoned: httpcall.Abandoned()}, err
	}
	trusted, err := p.AwaitTrust(ctx, c, spec.CABundle)
	if err != nil {
		return executor.Work{}, err
	}
	url, route := destination.Of(remote.Server.Namespace, spec.URL, spec.ServiceRef)
	filled, refused, err := p.Fill(ctx, c, url)
	if err != nil || refused != nil {
		return executor.Work{Refused: refused, Abandoned: httpcall.Abandoned()}, err
	}
	secrets.Session = filled.Headers
	plain, secret, why := credential.Headers(spec.Headers, secrets, url)
	if why != "" {
		refused := httpcall.NotSent(c.Call, v1alpha1.ToolCallReasonSecretUnusable, why)
		return executor.Work{Refused: &refused, Abandoned: httpcall.Abandoned()}, nil
	}
	hidden := credential.Hiding(secret, filled.Hidden...)
	route.Roots = trusted.Roots
	server := mcp.Server{URL: url, Route: route, Trust: trusted.Digest, Header: plain, Secret: secret}
	missing, err := p.Identify(ctx, &server, remote.Server, identity.Subject{
		Agent: c.Agent, Harness: c.Harness, Session: c.Session.Name, SessionUID: c.Session.UID,
	}, c.Call.Name)
	if err == nil {
		err = executor.UnlessClaimed(ctx, c, missing)
	}
	if err != nil {
		return executor.Work{}, err
	}
	request := mcp.Request{
		Tool: remote.Tool, Arguments: json.RawMessage(tool.ArgumentsOrEmpty(filled.Arguments)),
		Key: tool.RoundKey(c.Turn.UID, c.Call.ID, tool.InputRound(c.Call)), Permits: c.Network.Permits,
		Repeatable: !act.Claimable(c.Call, false), Asks: c.Asks, Answers: c.Answers,
	}
	if tool.ValidTraceParent(c.TraceParent) {
		request.TraceParent = c.TraceParent
	}
	if c.Progress != nil {
		request.Progress = mcpcall.Progress(hidden, time.Now, c.Progress)
	}
	caller := mcp.Caller{
		Namespace: c.Session.Namespace, Server: remote.Server.Name, Identity: string(c.Session.UID),
	}
	timeout := executors.Named(v1alpha1.ToolExecutorMCP).TimeoutOf(c.Call, nil)
	f := follower{process: p, call: c, server: server, hidden: hidden, timeout: timeout}
	work := executor.Work{
		Abandoned: httpcall.Abandoned(),
		Do: func(ctx context.Context) (tool.Outcome, error) {
			calling, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			result, err := p.CallServer(calling, caller, server, request)
			if err == nil && result.Task != nil {
				return f.begin(ctx, result.Task)
			}
			return mcpcall.Ended(c.Call, timeout, hidden, c.Asks, result, err), nil
		},
	}
	if remote.Current() {
		work.Resume = f.resume
	}
	return work, nil
}

// undiscovered returns what a call waits for if its tool was not discovered where the call would go; nil otherwise.
func undiscovered(name string, remote *definition.Remote) *act.MissingSecret {
	if remote.Current() {
		return nil
	}
	return &act.MissingSecret{
		Tool: name, Reason: v1alpha1.ReasonToolsNotDiscovered, Problem: fmt.Sprintf("The url or headers of MCPServer %q "+
			"have changed, and its tools have not been discovered since. See its condition Ready.", remote.Server.Name),
	}
}

// MissingSecret implements executor.SecretUser.
func (Executor) MissingSecret(
	ctx context.Context, p executor.Process, of executor.Asker, d *definition.Definition,
) (*act.MissingSecret, error) {
	remote := d.Remote()
	if remote == nil {
		return nil, nil
	}
	if missing := undiscovered(d.Name, remote); missing != nil {
		return missing, nil
	}
	spec := remote.Server.Spec
	missing, err := p.MissingSource(ctx, of, d.Name, spec.Headers, credential.OfMCPServer)
	if missing == nil && err == nil {
		_, missing, err = p.ReadTrust(ctx, of.Namespace, d.Name, spec.CABundle)
	}
	if missing != nil || err != nil || definition.ConnectionLeftOut(remote.Server) {
		return missing, err
	}
	return p.Identify(ctx, &mcp.Server{}, remote.Server, identity.Subject{}, d.Name)
}
