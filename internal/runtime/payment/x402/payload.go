package x402

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

type wirePayment struct {
	Version    int             `json:"x402Version"`
	Resource   json.RawMessage `json:"resource,omitempty"`
	Accepted   json.RawMessage `json:"accepted"`
	Payload    wirePayload     `json:"payload"`
	Extensions json.RawMessage `json:"extensions,omitempty"`
}

type wirePayload struct {
	Signature     string            `json:"signature"`
	Authorization wireAuthorization `json:"authorization"`
}

type wireAuthorization struct {
	From        string `json:"from"`
	To          string `json:"to"`
	Value       string `json:"value"`
	ValidAfter  string `json:"validAfter"`
	ValidBefore string `json:"validBefore"`
	Nonce       string `json:"nonce"`
}

// Payment is a signed authorization for one of the offers of a server.
type Payment struct {
	// Header is the value of HeaderSignature.
	Header string
	// Hidden are the texts by which anybody can make the payment, to be removed from responses.
	Hidden []string
}

// Pay returns the payment of an offer. The server gets back what it has said of the resource and the offer, unchanged.
func (r *Required) Pay(o Offer, a Authorization, signature [signatureBytes]byte) (Payment, error) {
	digits := hex.EncodeToString(signature[:])
	text, err := json.Marshal(wirePayment{
		Version: Version, Resource: r.resource, Accepted: o.raw, Extensions: r.extensions,
		Payload: wirePayload{Signature: "0x" + digits, Authorization: wireAuthorization{
			From: a.From.String(), To: a.To.String(), Value: strconv.FormatInt(a.Value, 10),
			ValidAfter:  strconv.FormatInt(a.ValidAfter, 10),
			ValidBefore: strconv.FormatInt(a.ValidBefore, 10),
			Nonce:       "0x" + hex.EncodeToString(a.Nonce[:]),
		}},
	})
	if err != nil {
		return Payment{}, fmt.Errorf("encoding a payment: %w", err)
	}
	header := base64.StdEncoding.EncodeToString(text)
	return Payment{Header: header, Hidden: []string{
		header, string(text), digits, strings.ToUpper(digits), base64.StdEncoding.EncodeToString(signature[:]),
		digits[:64], digits[64:128],
	}}, nil
}

// ParsePayment reads a payment as a server does. It is for servers in tests; a Network has what they sell for.
func ParsePayment(value string, n Network) (Authorization, [signatureBytes]byte, error) {
	var (
		wire      wirePayment
		signature [signatureBytes]byte
	)
	if _, err := decode(http.Header{HeaderSignature: {value}}, HeaderSignature, &wire); err != nil {
		return Authorization{}, signature, err
	}
	from := wire.Payload.Authorization
	a := Authorization{Transfer: Transfer{Network: n}}
	var err error
	if a.From, err = ParseAddress(from.From); err != nil {
		return a, signature, err
	}
	if a.To, err = ParseAddress(from.To); err != nil {
		return a, signature, err
	}
	for _, field := range []struct {
		text string
		into *int64
	}{{from.Value, &a.Value}, {from.ValidAfter, &a.ValidAfter}, {from.ValidBefore, &a.ValidBefore}} {
		if *field.into, err = strconv.ParseInt(field.text, 10, 64); err != nil || *field.into < 0 {
			return a, signature, fmt.Errorf("invalid number in the authorization")
		}
	}
	if err := decodeHex(a.Nonce[:], from.Nonce); err != nil {
		return a, signature, fmt.Errorf("invalid nonce: %w", err)
	}
	if err := decodeHex(signature[:], wire.Payload.Signature); err != nil {
		return a, signature, fmt.Errorf("invalid signature: %w", err)
	}
	if wire.Version != Version {
		return a, signature, fmt.Errorf("version %d of the protocol is not supported", wire.Version)
	}
	return a, signature, nil
}

// Receipt is what a server reports about a payment. It proves nothing.
type Receipt struct {
	// Transaction is the hash of the transaction on the network, with 0x.
	Transaction string
}

type wireReceipt struct {
	Success     bool   `json:"success"`
	Transaction string `json:"transaction"`
	Network     string `json:"network"`
	Payer       string `json:"payer"`
	Amount      string `json:"amount"`
}

// ParseReceipt reads the receipt of a payment; nil if the response has none that reports just this payment as settled.
func ParseReceipt(header http.Header, of Authorization) *Receipt {
	var wire wireReceipt
	if found, err := decode(header, HeaderResponse, &wire); err != nil || !found || !wire.Success {
		return nil
	}
	var transaction [32]byte
	if decodeHex(transaction[:], wire.Transaction) != nil || wire.Network != of.Network.ID ||
		wire.Payer != "" && !strings.EqualFold(wire.Payer, of.From.String()) ||
		wire.Amount != "" && wire.Amount != strconv.FormatInt(of.Value, 10) {
		return nil
	}
	return &Receipt{Transaction: "0x" + hex.EncodeToString(transaction[:])}
}
