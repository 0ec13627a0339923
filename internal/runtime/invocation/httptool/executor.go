package httptool

import (
	"context"
	"fmt"

	"github.com/capstan-dev/capstan/internal/runtime/act"
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
	secrets, missing, err := readSecrets(ctx, p, c.Session.Namespace, c.Call.Name, spec.HTTP)
	if err != nil {
		return executor.Work{}, err
	}
	if missing != nil {
		claimed, err := c.Claimed(ctx)
		if err != nil {
			return executor.Work{}, fmt.Errorf("looking for the claim of call %s: %w", c.Call.ID, err)
		}
		if !claimed {
			return executor.Work{}, missing
		}
	}
	request, refused := httpcall.Build(httpcall.Params{
		Turn:        c.Turn.UID,
		Call:        c.Call,
		Tool:        spec,
		Arguments:   c.Arguments,
		TraceParent: c.TraceParent,
		Secrets:     secrets,
		Permits:     c.Network.Permits,
	})
	return executor.Work{
		Refused:   refused,
		Abandoned: httpcall.Abandoned(),
		Do: func(ctx context.Context) (tool.Outcome, error) {
			response, err := p.Egress.Do(ctx, request)
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
	_, missing, err := readSecrets(ctx, p, namespace, d.Name, spec.HTTP)
	return missing, err
}
