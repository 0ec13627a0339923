package httptool

import (
	"context"

	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/credential"
	"github.com/capstan-dev/capstan/internal/runtime/invocation/executor"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
	"github.com/capstan-dev/capstan/internal/runtime/tool/httpcall"
)

// Executor carries out the calls of HTTP tools.
type Executor struct{}

var _ executor.SecretUser = Executor{}

// Prepare implements executor.Executor.
func (Executor) Prepare(ctx context.Context, p executor.Process, c executor.Call) (executor.Work, error) {
	spec := c.Definition.Spec()
	if spec == nil || spec.HTTP == nil {
		return executor.Changed(c.Call, httpcall.Abandoned()), nil
	}
	secrets, err := p.AwaitSecrets(ctx, c, spec.HTTP.Headers, credential.OfTool)
	if err != nil {
		return executor.Work{}, err
	}
	trusted, err := p.AwaitTrust(ctx, c, spec.HTTP.CABundle)
	if err != nil {
		return executor.Work{}, err
	}
	request, refused := httpcall.Build(httpcall.Params{
		Turn:        c.Turn.UID,
		Call:        c.Call,
		Tool:        spec,
		Arguments:   c.Arguments,
		TraceParent: c.TraceParent,
		Secrets:     secrets,
		Namespace:   c.Session.Namespace,
		Roots:       trusted.Roots,
		Permits:     c.Network.Permits,
		KeepsOutput: c.KeepsOutput,
	})
	return executor.Work{
		Refused:   refused,
		Abandoned: httpcall.Abandoned(),
		Do: func(ctx context.Context) (tool.Outcome, error) {
			response, err := p.Egress.Do(ctx, request)
			if err == nil {
				if name := httpcall.Connection(response); name != "" {
					return tool.NeedsConnection(name, c.Asks), nil
				}
			}
			return httpcall.Ended(c.Call, request, response, err), nil
		},
	}, nil
}

// MissingSecret implements executor.SecretUser.
func (Executor) MissingSecret(
	ctx context.Context, p executor.Process, namespace string, d *definition.Definition,
) (*act.MissingSecret, error) {
	spec := d.Spec()
	if spec == nil || spec.HTTP == nil {
		return nil, nil
	}
	_, missing, err := p.ReadSecrets(ctx, namespace, d.Name, spec.HTTP.Headers, credential.OfTool)
	if missing == nil && err == nil {
		_, missing, err = p.ReadTrust(ctx, namespace, d.Name, spec.HTTP.CABundle)
	}
	return missing, err
}
