package discovery

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/credential"
	"github.com/capstan-dev/capstan/internal/runtime/destination"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/excerpt"
	"github.com/capstan-dev/capstan/internal/runtime/identity"
	"github.com/capstan-dev/capstan/internal/runtime/invocation/executor"
	"github.com/capstan-dev/capstan/internal/runtime/mcp"
	"github.com/capstan-dev/capstan/internal/runtime/tool/executors"
	"github.com/capstan-dev/capstan/internal/runtime/tool/readiness"
	"github.com/capstan-dev/capstan/internal/runtime/trust"
)

// maxDuration is how long a discovery may take.
const maxDuration = 30 * time.Second

// Discoverer asks servers for their tools.
type Discoverer struct {
	// Egress sends the requests.
	Egress *egress.Client
	// Secrets reads the Secrets for their headers.
	Secrets credential.Reader
	// ConfigMaps reads the ConfigMaps with the certificates of servers.
	ConfigMaps trust.ConfigMapReader
	// Schemas checks the schemas of tools.
	Schemas readiness.SchemaChecker
	// Listeners listen to the servers that send notices of changes; nil for none.
	Listeners *mcp.Listeners
	// Identity signs the tokens of requests; nil where none are signed.
	Identity *identity.Signer
	// Account is the user name of the process at the API server, for instructions in messages.
	Account string
}

// Finding is the result of a discovery.
type Finding struct {
	// Reason and Message are those of the Ready condition.
	Reason, Message string
	// Asked reports whether a request was sent.
	Asked bool
	// ProtocolVersion and Catalog are set with v1alpha1.ReasonReady.
	ProtocolVersion string
	Catalog         *Catalog
}

// Discover lists the tools of a server, and listens to it from then on. After an error nothing is known: a Secret could
// not be read.
func (d Discoverer) Discover(ctx context.Context, server *v1alpha1.MCPServer) (Finding, error) {
	reach, problem, err := d.reach(ctx, server)
	if err != nil {
		return Finding{}, err
	}
	if problem != nil {
		return *problem, nil
	}
	spec := server.Spec
	limit := executors.Named(v1alpha1.ToolExecutorMCP).Timeout
	if spec.Timeout != nil {
		limit = spec.Timeout.Duration
	}
	ctx, cancel := context.WithTimeout(ctx, min(limit, maxDuration))
	defer cancel()
	// In this order no change is missed.
	d.Listeners.Listen(ctx, Subject(server), *reach)
	listing, err := mcp.List(ctx, d.Egress, *reach)
	if err == nil {
		return d.found(listing, spec.ToolFilter, reach.Secret), nil
	}
	f := Finding{Asked: true, Reason: v1alpha1.ReasonDiscoveryFailed}
	excuse := excerpt.Of(credential.RedactText(err.Error(), reach.Secret), 512)
	f.Message = "The tools of the server are not known: " + excuse + ". Check url and headers, and the server."
	if large := (*mcp.TooLargeError)(nil); errors.As(err, &large) {
		f.Reason = v1alpha1.ReasonDefinitionsTooLarge
	}
	return f, nil
}

// Listen listens to a server whose tools are known.
func (d Discoverer) Listen(ctx context.Context, server *v1alpha1.MCPServer) error {
	reach, _, err := d.reach(ctx, server)
	if err == nil && reach != nil {
		d.Listeners.Listen(ctx, Subject(server), *reach)
	}
	return err
}

// Subject is an MCPServer in the terms of package mcp.
func Subject(server *v1alpha1.MCPServer) mcp.Subject {
	return mcp.Subject{Namespace: server.Namespace, Name: server.Name}
}

// reach returns how a server is reached, or the finding that it cannot be.
func (d Discoverer) reach(ctx context.Context, server *v1alpha1.MCPServer) (*mcp.Server, *Finding, error) {
	spec := server.Spec
	process := executor.Process{
		Secrets: d.Secrets, ConfigMaps: d.ConfigMaps, Account: d.Account, Identity: d.Identity,
	}
	secrets, missing, err := process.ReadSecrets(ctx, server.Namespace, server.Name, spec.Headers, credential.OfMCPServer)
	if err != nil {
		return nil, nil, err
	}
	var trusted trust.Bundle
	if missing == nil {
		trusted, missing, err = process.ReadTrust(ctx, server.Namespace, server.Name, spec.CABundle)
	}
	if err != nil {
		return nil, nil, err
	}
	if missing != nil {
		return nil, &Finding{Reason: missing.Reason, Message: missing.Problem + "."}, nil
	}
	url, route := destination.Of(server.Namespace, spec.URL, spec.ServiceRef)
	route.Roots = trusted.Roots
	plain, secret, why := credential.Headers(spec.Headers, credential.Sources{Secrets: secrets}, url)
	if why != "" {
		return nil, &Finding{
			Reason: v1alpha1.ReasonSecretUnusable, Message: "The server cannot be asked: " + why + ".",
		}, nil
	}
	reach := &mcp.Server{URL: url, Route: route, Trust: trusted.Digest, Header: plain, Secret: secret}
	missing, err = process.Identify(ctx, reach, server, identity.Subject{}, server.Name)
	if err != nil {
		return nil, nil, err
	}
	if missing != nil {
		return nil, &Finding{Reason: missing.Reason, Message: missing.Problem + "."}, nil
	}
	return reach, nil, nil
}

// found returns the finding about the tools that a server has listed, which was sent secret.
func (d Discoverer) found(listing mcp.Listing, filter *v1alpha1.MCPToolFilter, secret http.Header) Finding {
	catalog, err := Select(listing.Tools, filter, secret, d.Schemas)
	if err != nil {
		return Finding{
			Asked: true, Reason: v1alpha1.ReasonDefinitionsTooLarge,
			Message: fmt.Sprintf("The server has %v. Select fewer with toolFilter.", err),
		}
	}
	message := fmt.Sprintf("%d tools of the server can be used.", len(catalog.entries))
	if len(catalog.LeftOut) > 0 {
		message += " Left out: " + strings.Join(catalog.LeftOut, ", ") + "."
	}
	return Finding{
		Asked: true, Reason: v1alpha1.ReasonReady, Message: message, ProtocolVersion: listing.ProtocolVersion,
		Catalog: catalog,
	}
}
