package executor

import (
	"context"
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/trust"
)

// ReadTrust reads the certificates by which a tool trusts its server, or reports what is missing.
func (p Process) ReadTrust(
	ctx context.Context, namespace, tool string, from *v1alpha1.CABundleSource,
) (trust.Bundle, *act.MissingSecret, error) {
	found, problem, err := trust.Reader{Secrets: p.Secrets, ConfigMaps: p.ConfigMaps, Account: p.Account}.
		Read(ctx, namespace, from)
	if problem != nil {
		return trust.Bundle{}, &act.MissingSecret{Tool: tool, Reason: problem.Reason, Problem: problem.Message}, nil
	}
	return found, nil, err
}

// AwaitTrust reads certificates as ReadTrust does, before a call starts. Missing ones are an error, unless the call is
// claimed.
func (p Process) AwaitTrust(ctx context.Context, c Call, from *v1alpha1.CABundleSource) (trust.Bundle, error) {
	found, missing, err := p.ReadTrust(ctx, c.Session.Namespace, c.Call.Name, from)
	if err != nil {
		return trust.Bundle{}, err
	}
	return found, UnlessClaimed(ctx, c, missing)
}

// UnlessClaimed returns what a call waits for as an error, if there is anything and the call is not claimed.
func UnlessClaimed(ctx context.Context, c Call, missing *act.MissingSecret) error {
	if missing == nil {
		return nil
	}
	claimed, err := c.Claimed(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("looking for the claim of call %s: %w", c.Call.ID, err)
	case claimed:
		return nil
	default:
		return missing
	}
}
