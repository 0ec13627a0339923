package httptool

import (
	"context"
	"net/http"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/credential"
	"github.com/capstan-dev/capstan/internal/runtime/destination"
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
	secrets, lacks, err := p.ReadSources(ctx, c, spec.HTTP.Headers, credential.OfTool)
	if err != nil || lacks != nil {
		return executor.Work{Refused: lacks, Abandoned: httpcall.Abandoned()}, err
	}
	if spec.HTTP.Payment != nil && p.Payments != nil {
		// It is read again for the payment. A call waits for a missing one before it starts.
		if _, err := p.AwaitSecrets(ctx, c, walletOf(spec.HTTP.Payment), credential.OfWallet); err != nil {
			return executor.Work{}, err
		}
	}
	trusted, err := p.AwaitTrust(ctx, c, spec.HTTP.CABundle)
	if err != nil {
		return executor.Work{}, err
	}
	base, _ := destination.Of(c.Session.Namespace, spec.HTTP.URL, spec.HTTP.ServiceRef)
	filled, refused, err := p.Fill(ctx, c, base)
	if err != nil || refused != nil {
		return executor.Work{Refused: refused, Abandoned: httpcall.Abandoned()}, err
	}
	secrets.Session = filled.Headers
	request, refused := httpcall.Build(httpcall.Params{
		Turn:        c.Turn.UID,
		Call:        c.Call,
		Tool:        spec,
		Arguments:   filled.Arguments,
		Hidden:      filled.Hidden,
		Confined:    filled.Carries || c.Confined,
		TraceParent: c.TraceParent,
		Secrets:     secrets,
		Namespace:   c.Session.Namespace,
		Roots:       trusted.Roots,
		Permits:     c.Network.Permits,
		KeepsOutput: c.KeepsOutput,
	})
	if refused == nil && spec.HTTP.Payment != nil && p.Payments != nil {
		paid, err := pay(ctx, p, c, spec.HTTP.Payment, request, filled.Hidden)
		if err != nil {
			return paid, err
		}
		return leased(ctx, p, c, spec, paid)
	}
	return leased(ctx, p, c, spec, executor.Work{
		Refused:   refused,
		Abandoned: httpcall.Abandoned(),
		Do: func(ctx context.Context) (tool.Outcome, error) {
			response, err := p.Egress.Do(ctx, request)
			if err == nil && response.Status == http.StatusPaymentRequired && spec.HTTP.Payment != nil {
				return httpcall.NotPaid(v1alpha1.ToolCallReasonPaymentRefused, "payments are disabled in this installation"), nil
			}
			if err == nil {
				if name := httpcall.Connection(response, request, filled.Hidden...); name != "" {
					return tool.NeedsConnection(name, c.Asks), nil
				}
			}
			return httpcall.Ended(c.Call, request, response, err, filled.Hidden...), nil
		},
	})
}

// MissingSecret implements executor.SecretUser.
func (Executor) MissingSecret(
	ctx context.Context, p executor.Process, of executor.Asker, d *definition.Definition,
) (*act.MissingSecret, error) {
	spec := d.Spec()
	if spec == nil || spec.HTTP == nil {
		return nil, nil
	}
	missing, err := p.MissingSource(ctx, of, d.Name, spec.HTTP.Headers, credential.OfTool)
	if missing == nil && err == nil {
		missing, err = missingWallet(ctx, p, of.Namespace, d.Name, spec.HTTP.Payment)
	}
	if missing == nil && err == nil {
		_, missing, err = p.ReadTrust(ctx, of.Namespace, d.Name, spec.HTTP.CABundle)
	}
	return missing, err
}
