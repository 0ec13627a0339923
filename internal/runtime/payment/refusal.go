package payment

import "fmt"

// Reason is why nothing is paid. The list is closed.
type Reason string

const (
	// ReasonOffer: the policy permits none of the offers, or they are malformed.
	ReasonOffer Reason = "Offer"
	// ReasonLimit: the payment would pass the limit of the Turn, the Session or the wallet.
	ReasonLimit Reason = "Limit"
	// ReasonWallet: the Secret is missing, not a wallet, not bound to the host, or has no valid key.
	ReasonWallet Reason = "Wallet"
	// ReasonSpent: the call has an attempt already, and it cannot be repeated as it was.
	ReasonSpent Reason = "Spent"
	// ReasonDisabled: the manager runs without payments.
	ReasonDisabled Reason = "Disabled"
)

// Refusal is why a payment that a server asks for is not made. Its text has nothing of the server but numbers, and
// nothing of the wallet.
type Refusal struct {
	// Reason of the refusal.
	Reason Reason
	// Text has details, without a final stop.
	Text string
}

// Error implements error.
func (r *Refusal) Error() string { return "the payment was refused: " + r.Text }

func refuse(reason Reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Text: fmt.Sprintf(format, args...)}
}
