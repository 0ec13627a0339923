package x402

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
)

// Headers of the protocol.
const (
	// HeaderRequired has the offers of a response with status 402.
	HeaderRequired = "Payment-Required"
	// HeaderSignature has the payment of a request.
	HeaderSignature = "Payment-Signature"
	// HeaderResponse has the receipt of a response.
	HeaderResponse = "Payment-Response"
)

const (
	// Version of the protocol.
	Version = 2
	// MaxHeaderBytes is the maximum length of a header of the protocol, before it is decoded.
	MaxHeaderBytes = 16 << 10
	// MaxOffers is the maximum number of offers of a response.
	MaxOffers = 32
	// MaxAmount is the largest amount of an offer: a million dollars in atomic units.
	MaxAmount = 1_000_000_000_000

	schemeExact   = "exact"
	methodEIP3009 = "eip3009"
)

// Required is what a server asks for.
type Required struct {
	// URL of the resource, as the server names it.
	URL string
	// Offers of the server: it accepts each of them.
	Offers []Offer

	resource, extensions json.RawMessage
}

// Offer is a way to pay.
type Offer struct {
	// Scheme of the payment, and Network in CAIP-2 form.
	Scheme, Network string
	// Amount in atomic units, Asset and Payee, as the server writes them.
	Amount, Asset, Payee string
	// Seconds that the payment may take.
	Seconds int64
	// Method, Name and Version are the server's statements about the contract; empty where it makes none.
	Method, Name, Version string

	raw json.RawMessage
}

type wireRequired struct {
	Version    int               `json:"x402Version"`
	Resource   json.RawMessage   `json:"resource"`
	Accepts    []json.RawMessage `json:"accepts"`
	Extensions json.RawMessage   `json:"extensions"`
}

type wireOffer struct {
	Scheme  string `json:"scheme"`
	Network string `json:"network"`
	Amount  string `json:"amount"`
	Asset   string `json:"asset"`
	PayTo   string `json:"payTo"`
	Seconds int64  `json:"maxTimeoutSeconds"`
	Extra   struct {
		Method  string `json:"assetTransferMethod"`
		Name    string `json:"name"`
		Version string `json:"version"`
	} `json:"extra"`
}

// ErrNoOffer reports a response with status 402 that is not one of this version of the protocol.
var ErrNoOffer = errors.New("the server asks for a payment in another way than by x402, version 2")

// ParseRequired reads the offers in the header of a response with status 402. Errors have no text of the server.
func ParseRequired(header http.Header) (*Required, error) {
	var wire wireRequired
	found, err := decode(header, HeaderRequired, &wire)
	switch {
	case err != nil:
		return nil, err
	case !found, wire.Version != Version:
		return nil, ErrNoOffer
	case len(wire.Accepts) == 0 || len(wire.Accepts) > MaxOffers:
		return nil, fmt.Errorf("the server makes %d offers; 1 to %d are read", len(wire.Accepts), MaxOffers)
	}
	r := &Required{resource: wire.Resource, extensions: wire.Extensions}
	var resource struct {
		URL string `json:"url"`
	}
	if json.Unmarshal(wire.Resource, &resource) != nil || resource.URL == "" {
		return nil, errors.New("the server does not name the resource that the payment is for")
	}
	r.URL = resource.URL
	for _, raw := range wire.Accepts {
		var o wireOffer
		if json.Unmarshal(raw, &o) != nil {
			continue // An offer of another kind. It is passed over, as one in another asset is.
		}
		r.Offers = append(r.Offers, Offer{
			Scheme: o.Scheme, Network: o.Network, Amount: o.Amount, Asset: o.Asset, Payee: o.PayTo, Seconds: o.Seconds,
			Method: o.Extra.Method, Name: o.Extra.Name, Version: o.Extra.Version, raw: raw,
		})
	}
	return r, nil
}

// decode reads a header with base64 of JSON, and reports whether there is one.
func decode(header http.Header, name string, into any) (bool, error) {
	values := header.Values(name)
	if len(values) == 0 {
		return false, nil
	}
	if len(values) > 1 || len(values[0]) > MaxHeaderBytes {
		return false, fmt.Errorf("the header %s occurs more than once or is longer than %d bytes", name, MaxHeaderBytes)
	}
	text, err := base64.StdEncoding.DecodeString(values[0])
	if err != nil {
		return false, fmt.Errorf("the header %s is not base64", name)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return false, fmt.Errorf("the header %s is not JSON of its schema", name)
	}
	return true, nil
}

// amountPattern has no sign, exponent, point or leading zero, and fits 64 bits.
var amountPattern = regexp.MustCompile(`^[1-9][0-9]{0,12}$`)

// On returns the transfer that an offer asks for on a network, or why it is not one that this package makes.
func (o Offer) On(n Network) (Transfer, error) {
	if o.Scheme != schemeExact || o.Method != "" && o.Method != methodEIP3009 {
		return Transfer{}, errors.New("it is not an exact payment by EIP-3009")
	}
	if o.Network != n.ID {
		return Transfer{}, errors.New("it is on another network")
	}
	asset, err := ParseAddress(o.Asset)
	if err != nil || asset != n.Asset || o.Name != "" && o.Name != n.Name || o.Version != "" && o.Version != n.Version {
		return Transfer{}, errors.New("it is in another asset than the USDC of the network")
	}
	payee, err := ParseAddress(o.Payee)
	if err != nil {
		return Transfer{}, errors.New("its payee is not an address")
	}
	if !amountPattern.MatchString(o.Amount) {
		return Transfer{}, errors.New("its amount is not a positive number of atomic units")
	}
	amount, err := strconv.ParseInt(o.Amount, 10, 64)
	if err != nil || amount > MaxAmount {
		return Transfer{}, errors.New("its amount is too large")
	}
	if o.Seconds <= 0 {
		return Transfer{}, errors.New("it does not allow any time for the payment")
	}
	return Transfer{Network: n, To: payee, Value: amount}, nil
}
