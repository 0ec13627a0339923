package x402

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"sync/atomic"

	"github.com/capstan-dev/capstan/internal/runtime/payment/x402"
)

// Offer is an offer as a seller writes it.
type Offer map[string]any

// Seller sells a response. It verifies payments as a facilitator does, settles them on its Chain, and then responds.
// Fields that are functions change its behavior; nil for that of an honest seller.
type Seller struct {
	// Chain that payments are settled on.
	Chain *Chain
	// Price in atomic units, and the Payee.
	Price int64
	Payee x402.Address
	// Demand changes what a response with status 402 asks for. n counts these responses, from 1.
	Demand func(n int, required map[string]any)
	// BeforeSettlement runs before a valid payment is settled, AfterSettlement behind it: both may respond by themselves,
	// and report that.
	BeforeSettlement, AfterSettlement func(w http.ResponseWriter, r *http.Request) bool
	// Content writes the response to a request that was paid for. Default: "sold".
	Content func(w http.ResponseWriter, r *http.Request)

	demands, payments atomic.Int64
}

// Payments is the number of requests with a payment.
func (s *Seller) Payments() int { return int(s.payments.Load()) }

// Terms is the honest offer.
func (s *Seller) Terms() Offer {
	n := s.Chain.Network
	return Offer{
		"scheme": "exact", "network": n.ID, "amount": strconv.FormatInt(s.Price, 10), "asset": n.Asset.String(),
		"payTo": s.Payee.String(), "maxTimeoutSeconds": 60, "extra": map[string]any{"name": n.Name, "version": n.Version},
	}
}

// ServeHTTP implements http.Handler.
func (s *Seller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := r.Header.Get(x402.HeaderSignature)
	if header == "" {
		s.demand(w, r, "payment required")
		return
	}
	s.payments.Add(1)
	if s.BeforeSettlement != nil && s.BeforeSettlement(w, r) {
		return
	}
	paid, err := s.settle(header)
	if err != nil {
		Encode(w, x402.HeaderResponse, map[string]any{
			"success": false, "errorReason": err.Error(), "transaction": "", "network": s.Chain.Network.ID,
		})
		s.demand(w, r, err.Error())
		return
	}
	if s.AfterSettlement != nil && s.AfterSettlement(w, r) {
		return
	}
	Encode(w, x402.HeaderResponse, map[string]any{
		"success": true, "transaction": paid.Transaction, "network": s.Chain.Network.ID, "payer": paid.From.String(),
	})
	if s.Content != nil {
		s.Content(w, r)
		return
	}
	fmt.Fprint(w, "sold")
}

// demand responds with status 402.
func (s *Seller) demand(w http.ResponseWriter, r *http.Request, why string) {
	required := map[string]any{
		"x402Version": x402.Version, "error": why,
		"resource":   map[string]any{"url": "https://" + r.Host + r.URL.Path, "description": "what is sold"},
		"accepts":    []any{s.Terms()},
		"extensions": map[string]any{},
	}
	if s.Demand != nil {
		s.Demand(int(s.demands.Add(1)), required)
	}
	Encode(w, x402.HeaderRequired, required)
	w.WriteHeader(http.StatusPaymentRequired)
}

// settle verifies a payment against the honest offer, in the order of the facilitator, and makes its transfer.
func (s *Seller) settle(header string) (Paid, error) {
	a, signature, err := x402.ParsePayment(header, s.Chain.Network)
	if err != nil {
		return Paid{}, fmt.Errorf("invalid_payload: %w", err)
	}
	var payment struct {
		Accepted Offer `json:"accepted"`
	}
	text, err := base64.StdEncoding.DecodeString(header)
	if err == nil {
		err = json.Unmarshal(text, &payment)
	}
	if err != nil {
		return Paid{}, fmt.Errorf("invalid_payload: %w", err)
	}
	switch {
	case !reflect.DeepEqual(normal(payment.Accepted), normal(s.Terms())):
		return Paid{}, fmt.Errorf("invalid_payment_requirements")
	case a.To != s.Payee:
		return Paid{}, fmt.Errorf("invalid_exact_evm_payload_recipient_mismatch")
	case a.Value != s.Price:
		return Paid{}, fmt.Errorf("invalid_exact_evm_payload_authorization_value")
	}
	return s.Chain.Transfer(a, signature)
}

// normal is a value as JSON has it.
func normal(value any) (same any) {
	text, err := json.Marshal(value)
	if err != nil || json.Unmarshal(text, &same) != nil {
		return err
	}
	return same
}

// Encode writes a header of the protocol.
func Encode(w http.ResponseWriter, name string, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	w.Header().Set(name, base64.StdEncoding.EncodeToString(text))
}
