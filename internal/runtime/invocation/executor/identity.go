package executor

import (
	"context"
	"errors"
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/destination"
	"github.com/capstan-dev/capstan/internal/runtime/identity"
	"github.com/capstan-dev/capstan/internal/runtime/mcp"
)

// Identify adds the identity tokens of a subject to how a server is reached, if its MCPServer demands them. It returns
// the missing keys as long as no token can be signed; nil if one can.
func (p Process) Identify(
	ctx context.Context, reach *mcp.Server, server *v1alpha1.MCPServer, subject identity.Subject, tool string,
) (*act.MissingSecret, error) {
	if server.Spec.Identity != v1alpha1.MCPIdentityAgentToken {
		return nil, nil
	}
	subject.Namespace, subject.MCPServer = server.Namespace, server.Name
	url, _ := destination.Of(server.Namespace, server.Spec.URL, server.Spec.ServiceRef)
	reach.About = subject.String()
	reach.Token = func(ctx context.Context) (string, error) { return p.Identity.Token(ctx, subject, url) }
	_, err := reach.Token(ctx)
	switch {
	case errors.Is(err, identity.ErrNoKeys):
		return &act.MissingSecret{
			Tool: tool, Reason: v1alpha1.ReasonIdentityUnavailable, Problem: fmt.Sprintf("MCPServer %q has the identity "+
				"AgentToken, and the manager has no keys to sign tokens with: ask the operator of the manager to install "+
				"Secret and ConfigMap %s in its namespace", server.Name, identity.KeysName),
		}, nil
	case err != nil:
		return nil, fmt.Errorf("signing a token for MCPServer %s: %w", server.Name, err)
	}
	return nil, nil
}
