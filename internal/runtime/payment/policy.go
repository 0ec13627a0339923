package payment

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/payment/x402"
)

const (
	// backdated is how long before its signature an authorization is valid already, because the clock of the chain may
	// be behind.
	backdated = 10 * time.Minute
	// maxValidity is how long after its signature an authorization may be used, whatever time the server asks for.
	maxValidity = 10 * time.Minute
)

// Policy is what a Tool may pay. Every payment must satisfy all of it.
type Policy struct {
	// MaxPayment, MaxTurn and MaxSession bound one payment, and those of a Turn and of a Session together. MaxTurn and
	// MaxSession are 0 for no bound of their own; that of the wallet for a day counts besides.
	MaxPayment, MaxTurn, MaxSession Amount
	// Network on which it may pay, in USDC.
	Network x402.Network
	// Payees that it may pay; empty for all that the permitted host names.
	Payees []x402.Address
}

// choose returns the cheapest offer that the policy permits. It is pure.
func (p Policy) choose(r *x402.Required, to *url.URL) (x402.Offer, x402.Transfer, *Refusal) {
	if !names(r.URL, to) {
		return x402.Offer{}, x402.Transfer{}, refuse(
			ReasonOffer,
			"the server asks for a payment for another resource than the "+
				"url of the tool",
		)
	}
	var (
		best   x402.Offer
		chosen x402.Transfer
		why    = "it makes no offer"
	)
	for _, offer := range r.Offers {
		transfer, err := offer.On(p.Network)
		switch {
		case err != nil:
			why = err.Error()
		case len(p.Payees) > 0 && !slices.Contains(p.Payees, transfer.To):
			why = "its payee is not one of those that the tool may pay"
		case Amount(transfer.Value) > p.MaxPayment:
			why = fmt.Sprintf("it costs %s USD, and the tool may pay at most %s USD at once", Amount(transfer.Value),
				p.MaxPayment)
		case chosen.Value == 0 || transfer.Value < chosen.Value:
			best, chosen = offer, transfer
		}
	}
	if chosen.Value == 0 {
		return best, chosen, refuse(ReasonOffer, "none of the %d offers of the server is permitted; of the last one, %s",
			len(r.Offers), why)
	}
	return best, chosen, nil
}

// names reports whether the text by which a server names a resource is a URL of this host, port and path. Its scheme
// may be another one, because a proxy may have ended TLS, and a query is part of the arguments.
func names(resource string, to *url.URL) bool {
	u, err := url.Parse(resource)
	if err != nil || u.User != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return false
	}
	path := func(u *url.URL) string { return "/" + strings.TrimPrefix(u.EscapedPath(), "/") }
	return strings.EqualFold(u.Hostname(), to.Hostname()) && path(u) == path(to) &&
		(u.Port() == "" || net.JoinHostPort("", u.Port()) == net.JoinHostPort("", port(to)))
}

func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "http":
		return "80"
	default:
		return "443"
	}
}

// validity returns the time in which an authorization may be used. It is pure.
func validity(now time.Time, seconds int64) (after, before int64) {
	limit := int64(maxValidity / time.Second)
	return now.Add(-backdated).Unix(), now.Unix() + min(seconds, limit)
}
