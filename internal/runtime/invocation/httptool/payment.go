package httptool

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/credential"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/invocation/executor"
	"github.com/capstan-dev/capstan/internal/runtime/payment"
	"github.com/capstan-dev/capstan/internal/runtime/payment/x402"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/httpcall"
)

// capability is what payments of this package are for, in the ledger.
const capability = "http"

// paid returns the request of a call with its payment.
func paid(c executor.Call, spec *v1alpha1.HTTPPayment, request egress.Request) (payment.Request, error) {
	policy, err := policyOf(spec)
	return payment.Request{
		Capability: capability, Operation: c.Call.Name, HTTP: request, Rail: payment.RailX402Base, Policy: policy,
		Wallet: spec.WalletRef, Namespace: c.Session.Namespace, Session: c.Session.Name, SessionUID: c.Session.UID,
		Turn: c.Turn.UID, Call: c.Call.ID, Cause: c.Cause,
	}, err
}

// policyOf is the policy of a Tool. Its schema excludes every error, unless the Tool is older than the schema.
func policyOf(spec *v1alpha1.HTTPPayment) (payment.Policy, error) {
	policy := payment.Policy{Network: x402.Base}
	if spec.Network == v1alpha1.PaymentNetworkBaseSepolia {
		policy.Network = x402.BaseSepolia
	}
	for _, limit := range []struct {
		text v1alpha1.Dollars
		into *payment.Amount
	}{
		{spec.MaxAmount, &policy.MaxPayment},
		{spec.MaxAmountPerTurn, &policy.MaxTurn},
		{spec.MaxAmountPerSession, &policy.MaxSession},
	} {
		if limit.text == "" {
			continue
		}
		amount, err := payment.ParseAmount(string(limit.text))
		if err != nil {
			return policy, fmt.Errorf("reading a limit of the payment: %w", err)
		}
		*limit.into = amount
	}
	for _, text := range spec.Payees {
		payee, err := x402.ParseAddress(string(text))
		if err != nil {
			return policy, fmt.Errorf("reading a payee: %w", err)
		}
		policy.Payees = append(policy.Payees, payee)
	}
	return policy, nil
}

// pay returns the work of a call that may be paid for. An attempt of an earlier process belongs to the call whatever
// becomes of it.
func pay(
	ctx context.Context, p executor.Process, c executor.Call, spec *v1alpha1.HTTPPayment, request egress.Request,
	hidden []string,
) (executor.Work, error) {
	r, err := paid(c, spec, request)
	if err != nil {
		refused := httpcall.NotSent(c.Call, v1alpha1.ToolCallReasonPaymentRefused, err.Error())
		return executor.Work{Refused: &refused, Abandoned: httpcall.Abandoned()}, nil
	}
	before, err := p.Payments.Find(ctx, r)
	if err != nil {
		return executor.Work{}, fmt.Errorf("looking for a payment of call %s: %w", c.Call.ID, err)
	}
	abandoned := httpcall.Abandoned()
	abandoned.Payment = before.Event()
	return executor.Work{
		Abandoned: abandoned,
		Do: func(ctx context.Context) (tool.Outcome, error) {
			result, err := p.Payments.Pay(ctx, r)
			if result.Attempt == nil {
				result.Attempt = before
			}
			outcome, defect := ended(c, request, hidden, result, err)
			outcome.Payment = result.Attempt.Event()
			return outcome, defect
		},
	}, nil
}

// ended is the outcome of a call that may have been paid for.
func ended(
	c executor.Call, request egress.Request, values []string, result payment.Result, err error,
) (outcome tool.Outcome, defect error) {
	var (
		refusal *payment.Refusal
		e       *egress.Error
	)
	switch {
	case errors.As(err, &refusal):
		return httpcall.NotPaid(v1alpha1.ToolCallReasonPaymentRefused, refusal.Text), nil
	case err != nil && !errors.As(err, &e):
		return httpcall.NotPaid(v1alpha1.ToolCallReasonPaymentFailed, "the payment could not be recorded"), err
	}
	hidden := request
	hidden.Secret = request.Secret.Clone()
	if hidden.Secret == nil {
		hidden.Secret = http.Header{}
	}
	for _, text := range result.Hidden {
		hidden.Secret.Add(x402.HeaderSignature, text)
	}
	return httpcall.Ended(c.Call, hidden, result.Response, err, values...), nil
}

// missingWallet returns the wallet of a Tool if it is missing.
func missingWallet(
	ctx context.Context, p executor.Process, namespace, name string, spec *v1alpha1.HTTPPayment,
) (*act.MissingSecret, error) {
	if p.Payments == nil || spec == nil {
		return nil, nil
	}
	_, missing, err := p.ReadSecrets(ctx, namespace, name, walletOf(spec), credential.OfWallet)
	return missing, err
}

// walletOf refers to a wallet as headers refer to Secrets.
func walletOf(spec *v1alpha1.HTTPPayment) []v1alpha1.HTTPHeader {
	return []v1alpha1.HTTPHeader{{SecretKeyRef: &spec.WalletRef}}
}
