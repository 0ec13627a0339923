package payment

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/payment/x402"
)

// Rail is a way to make payments.
type Rail string

// RailX402Base pays by x402 in USDC on Base.
const RailX402Base Rail = "x402_base"

// State is what is known of an attempt to pay.
type State string

const (
	// StateReserved: the amount is reserved, and no server has responded to the payment. It may have been paid, and counts
	// in full.
	StateReserved State = "Reserved"
	// StateSettled: the server reports that it was paid, with a transaction.
	StateSettled State = "Settled"
	// StateUnconfirmed: the payment was sent, and the server does not report that it was paid. It counts in full.
	StateUnconfirmed State = "Unconfirmed"
	// StateNotSent: the payment did not leave the process. It does not count.
	StateNotSent State = "NotSent"
)

// Attempt is an attempt to pay, as the ledger of its Session keeps it.
type Attempt struct {
	// ID of the attempt: the UID of its Turn and the id of its call. A call has one attempt.
	ID string `json:"id"`
	// State of the attempt.
	State State `json:"state"`
	// Capability and Operation are what the payment was for: the kind of executor, and the name of the Tool.
	Capability string `json:"capability"`
	Operation  string `json:"operation"`
	// Rail, and the Network in CAIP-2 form, the Asset and the Payee on it.
	Rail    Rail   `json:"rail"`
	Network string `json:"network"`
	Asset   string `json:"asset"`
	Payee   string `json:"payee"`
	// Payer is the account of the wallet.
	Payer string `json:"payer"`
	// Amount in millionths of a US dollar.
	Amount Amount `json:"amount"`
	// ValidAfter and ValidBefore of the authorization, in seconds since 1970.
	ValidAfter  int64 `json:"validAfter"`
	ValidBefore int64 `json:"validBefore"`
	// Transaction that the server has reported.
	Transaction string `json:"transaction,omitempty"`
	// Tries counts the reservations: a further one follows a payment that was not sent. Sends counts the processes that
	// may have sent the payment of the last one.
	Tries int `json:"tries"`
	Sends int `json:"sends"`
	// Wallet is the UID of the Secret, and ReservedAt when the amount was reserved.
	Wallet     types.UID `json:"wallet"`
	ReservedAt time.Time `json:"reservedAt"`
}

// Counts reports whether the amount of the attempt counts: all do that may have been paid.
func (a Attempt) Counts() bool { return a.State != StateNotSent }

// currency of amounts, by ISO 4217.
const currency = "USD"

// Event is the attempt as events and the journal have it; nil for none, and for one that does not count.
func (a *Attempt) Event() *event.Payment {
	if a == nil || !a.Counts() {
		return nil
	}
	return &event.Payment{
		State: string(a.State), Amount: a.Amount.String(), Currency: currency, Rail: string(a.Rail), Network: a.Network,
		Asset: a.Asset, Payee: a.Payee, Transaction: a.Transaction,
	}
}

// attemptID identifies the attempt of a call.
func attemptID(turn types.UID, call string) string { return string(turn) + "/" + call }

// nonce follows from the call alone, so that all authorizations of it are one to the contract, whatever fails.
func nonce(id string) [32]byte {
	return sha256.Sum256([]byte("capstan.dev/payment/v1\x00" + id))
}

// authorization is that of an attempt on a network. The error reports an attempt that was recorded for another one.
func (a Attempt) authorization(n x402.Network) (x402.Authorization, error) {
	payer, err := x402.ParseAddress(a.Payer)
	if err != nil {
		return x402.Authorization{}, fmt.Errorf("reading the payer of attempt %s: %w", a.ID, err)
	}
	payee, err := x402.ParseAddress(a.Payee)
	if err != nil {
		return x402.Authorization{}, fmt.Errorf("reading the payee of attempt %s: %w", a.ID, err)
	}
	return x402.Authorization{
		Transfer: x402.Transfer{Network: n, To: payee, Value: int64(a.Amount)}, From: payer,
		ValidAfter: a.ValidAfter, ValidBefore: a.ValidBefore, Nonce: nonce(a.ID),
	}, nil
}

// repeats reports whether an attempt that was recorded is for the same transfer as a new one.
func (a Attempt) repeats(other Attempt) bool {
	return a.Network == other.Network && a.Asset == other.Asset && a.Payee == other.Payee && a.Payer == other.Payer &&
		a.Amount == other.Amount && a.Wallet == other.Wallet
}

// shortID is a hash of an id, for keys of a bounded length.
func shortID(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:10])
}
