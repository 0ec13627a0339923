package payment

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/credential"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/payment/x402"
	"github.com/capstan-dev/capstan/internal/runtime/record"
)

// Request is a request that may be paid for.
type Request struct {
	// Capability and Operation are what is paid for. They are recorded.
	Capability, Operation string
	// HTTP is the request: its method, its URL, its body and where it may go.
	HTTP egress.Request
	// Rail to pay by.
	Rail Rail
	// Policy bounds the payment.
	Policy Policy
	// Wallet is the key of a Secret in the namespace of the Session.
	Wallet v1alpha1.SecretKeyReference
	// Session, Turn and Call that the payment belongs to.
	Namespace, Session string
	SessionUID, Turn   types.UID
	Call               string
	// Cause identifies the call to the store of its Session.
	Cause record.Cause
}

// Result is the result of a request.
type Result struct {
	// Attempt to pay that the call has made, in this process or before; nil for none.
	Attempt *Attempt
	// Response of the server; nil with an error.
	Response *egress.Response
	// Hidden are texts of the payment that must be removed from what the server has sent.
	Hidden []string
}

// Authority makes payments.
type Authority interface {
	// Find returns the attempt to pay that a call has made; nil for none.
	Find(ctx context.Context, r Request) (*Attempt, error)
	// Pay sends a request, pays if its server asks for it and the policy permits it, and sends it once more then. The
	// error is an *egress.Error, of the last request that was sent, a *Refusal, or of a ledger that cannot be read or
	// written: then nothing was paid. The result has the attempt also with an error.
	Pay(ctx context.Context, r Request) (Result, error)
}

// Sender sends requests. An *egress.Client is one.
type Sender interface {
	Do(ctx context.Context, r egress.Request) (*egress.Response, error)
}

// Wallets is the Authority that pays from Secrets.
type Wallets struct {
	// Egress sends requests.
	Egress Sender
	// Secrets reads wallets. They are read for each payment, and not kept.
	Secrets credential.Reader
	// Records has the ledgers.
	Records record.Store
	// Clock returns the current time.
	Clock func() time.Time
}

var _ Authority = (*Wallets)(nil)

// endTimeout is how long the end of an attempt is tried to be recorded once the request has ended.
const endTimeout = 10 * time.Second

func (w *Wallets) ledger(r Request) ledger {
	return ledger{
		store: w.Records, cause: r.Cause, clock: w.Clock,
		session: record.Scope{Namespace: r.Namespace, Session: r.Session, UID: r.SessionUID, Store: StoreName},
	}
}

// Find implements Authority.
func (w *Wallets) Find(ctx context.Context, r Request) (*Attempt, error) {
	return w.ledger(r).find(ctx, attemptID(r.Turn, r.Call))
}

// Pay implements Authority.
func (w *Wallets) Pay(ctx context.Context, r Request) (Result, error) {
	if r.HTTP.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.HTTP.Timeout)
		defer cancel()
	}
	response, err := w.Egress.Do(ctx, r.HTTP)
	if err != nil {
		return Result{}, err
	}
	if response.Status != http.StatusPaymentRequired {
		return Result{Response: response}, nil
	}
	to, offers, refusal := demand(r, response)
	if refusal != nil {
		return Result{}, refusal
	}
	offer, transfer, refusal := r.Policy.choose(offers, to)
	if refusal != nil {
		return Result{}, refusal
	}
	attempt, payment, err := w.sign(ctx, r, to, offers, offer, transfer)
	if err != nil {
		return Result{Attempt: attempt}, err
	}
	return w.send(ctx, r, *attempt, payment)
}

// demand reads what a server asks for. Nothing is paid to a server that a redirect has led to.
func demand(r Request, response *egress.Response) (*url.URL, *x402.Required, *Refusal) {
	to, err := url.Parse(r.HTTP.URL)
	if err != nil || response.URL == nil || response.URL.Scheme != to.Scheme ||
		egress.Place(response.URL) != egress.Place(to) ||
		response.URL.EscapedPath() != to.EscapedPath() {
		return nil, nil, refuse(ReasonOffer, "the payment is demanded after a redirect")
	}
	offers, err := x402.ParseRequired(response.Header)
	if err != nil {
		return nil, nil, refuse(ReasonOffer, "%s", err)
	}
	return to, offers, nil
}

// sign reserves the amount of an offer and signs its authorization. The attempt may be set with an error: the call has
// made it before.
func (w *Wallets) sign(
	ctx context.Context, r Request, to *url.URL, offers *x402.Required, offer x402.Offer, transfer x402.Transfer,
) (*Attempt, x402.Payment, error) {
	secret, perDay, err := w.wallet(ctx, r, to)
	if err != nil {
		return nil, x402.Payment{}, err
	}
	key, err := x402.ParseKey(secret.Data[r.Wallet.Key])
	clear(secret.Data[r.Wallet.Key])
	if err != nil {
		return nil, x402.Payment{}, refuse(ReasonWallet, "key %q of Secret %q is not a private key: %s", r.Wallet.Key,
			r.Wallet.Name, err)
	}
	defer key.Zero()
	now := w.Clock()
	after, before := validity(now, offer.Seconds)
	wanted := Attempt{
		ID: attemptID(r.Turn, r.Call), State: StateReserved, Capability: r.Capability, Operation: r.Operation, Rail: r.Rail,
		Network: transfer.Network.ID, Asset: transfer.Network.Asset.String(), Payee: transfer.To.String(),
		Payer: key.Address.String(), Amount: Amount(transfer.Value), ValidAfter: after, ValidBefore: before,
		Wallet: secret.UID, ReservedAt: now.UTC(),
	}
	book := w.ledger(r)
	book.wallet = record.Scope{Namespace: r.Namespace, Secret: secret.Name, UID: secret.UID, Store: StoreName}
	attempt, err := book.reserve(ctx, r.Turn, r.Policy, perDay, wanted)
	if err != nil {
		return attempt, x402.Payment{}, unwrapped(err)
	}
	authorization, err := attempt.authorization(transfer.Network)
	if err != nil {
		return attempt, x402.Payment{}, err
	}
	payment, err := offers.Pay(offer, authorization, key.Sign(authorization))
	return attempt, payment, err
}

// unwrapped returns the refusal in an error, or the error.
func unwrapped(err error) error {
	var refusal *Refusal
	if errors.As(err, &refusal) {
		return refusal
	}
	return err
}

// unrepeatable returns why the recorded attempt of a call is not made again for what a server asks for now. It is pure.
func (a Attempt) unrepeatable(wanted Attempt, now time.Time) *Refusal {
	switch {
	case a.State != StateReserved:
		return refuse(ReasonSpent, "the call has paid %s USD before, and does not pay twice", a.Amount)
	case !a.repeats(wanted):
		return refuse(
			ReasonSpent,
			"the call may have paid %s USD before, and the server asks for another payment now",
			a.Amount,
		)
	case now.Unix() >= a.ValidBefore:
		return refuse(ReasonSpent, "the call may have paid %s USD before, and that payment has expired", a.Amount)
	default:
		return nil
	}
}

// wallet reads the Secret of a wallet, and how much may be paid from it in a day.
func (w *Wallets) wallet(ctx context.Context, r Request, to *url.URL) (*corev1.Secret, Amount, error) {
	secret, err := w.Secrets(ctx, r.Namespace, r.Wallet.Name)
	if err != nil {
		return nil, 0, refuse(ReasonWallet, "Secret %q cannot be read", r.Wallet.Name)
	}
	secret = secret.DeepCopy() // Its key is overwritten.
	perDay, err := ParseAmount(secret.Annotations[v1alpha1.AnnotationWalletMaxPerDay])
	if err != nil {
		return nil, 0, refuse(ReasonWallet, "Secret %q is not a wallet: its annotation %s must be an amount in US dollars",
			r.Wallet.Name, v1alpha1.AnnotationWalletMaxPerDay)
	}
	if !credential.PaysAt(secret, to) {
		return nil, 0, refuse(
			ReasonWallet,
			"Secret %q is a wallet for the hosts in its annotation %s, and %s is not one of them",
			r.Wallet.Name,
			v1alpha1.AnnotationAllowedHosts,
			egress.Place(to),
		)
	}
	return secret, perDay, nil
}

// send sends the request with its payment, and records how the attempt has ended.
func (w *Wallets) send(ctx context.Context, r Request, a Attempt, payment x402.Payment) (Result, error) {
	paid := r.HTTP
	paid.Secret = r.HTTP.Secret.Clone()
	if paid.Secret == nil {
		paid.Secret = http.Header{}
	}
	paid.Secret.Set(x402.HeaderSignature, payment.Header)
	response, err := w.Egress.Do(ctx, paid)
	var lost *egress.Error
	switch {
	case errors.As(err, &lost) && !lost.Sent:
		a.State = StateNotSent
	case err == nil:
		a.State = StateUnconfirmed
		authorization, problem := a.authorization(r.Policy.Network)
		if receipt := x402.ParseReceipt(response.Header, authorization); problem == nil && receipt != nil {
			a.State, a.Transaction = StateSettled, receipt.Transaction
		}
	}
	// The attempt stays reserved, and counts in full, if its end cannot be recorded.
	book := w.ledger(r)
	book.wallet = record.Scope{Namespace: r.Namespace, Secret: r.Wallet.Name, UID: a.Wallet, Store: StoreName}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	state, problem := book.end(ending, r.Turn, a)
	if problem == nil || a.State == StateNotSent {
		a.State = state
	}
	return Result{Attempt: &a, Response: response, Hidden: payment.Hidden}, err
}
