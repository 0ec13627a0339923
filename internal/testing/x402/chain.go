// Package x402 has a seller and a chain for tests of payments. They enforce what the protocol and the USDC contract
// demand, and count what was really paid.
package x402

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/payment/x402"
)

// Paid is a transfer that a Chain has made.
type Paid struct {
	// From and To are the payer and the payee, and Value the amount in atomic units.
	From, To x402.Address
	Value    int64
	// Transaction is its hash.
	Transaction string
}

// Chain is the USDC contract of one network.
type Chain struct {
	// Network of the contract.
	Network x402.Network
	// Clock is the time of its blocks.
	Clock func() time.Time

	mu       sync.Mutex
	balances map[x402.Address]int64
	used     map[[52]byte]bool
	paid     []Paid
}

// NewChain returns the contract of a network, at which nobody has anything.
func NewChain(network x402.Network, clock func() time.Time) *Chain {
	return &Chain{Network: network, Clock: clock, balances: map[x402.Address]int64{}, used: map[[52]byte]bool{}}
}

// Fund adds to a balance.
func (c *Chain) Fund(account x402.Address, value int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.balances[account] += value
}

// Transfer is transferWithAuthorization of EIP-3009: it makes a transfer if the payer has signed it, its time is now,
// and its nonce is unused. The bounds of its time are exclusive.
func (c *Chain) Transfer(a x402.Authorization, signature [65]byte) (Paid, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Clock().Unix()
	var key [52]byte
	copy(key[:], a.From[:])
	copy(key[20:], a.Nonce[:])
	a.Network = c.Network
	signer, err := x402.Signer(a, signature)
	switch {
	case err != nil, signer != a.From:
		return Paid{}, errors.New("invalid_exact_evm_payload_signature")
	case now <= a.ValidAfter:
		return Paid{}, errors.New("invalid_exact_evm_payload_authorization_valid_after")
	case now >= a.ValidBefore:
		return Paid{}, errors.New("invalid_exact_evm_payload_authorization_valid_before")
	case c.used[key]:
		return Paid{}, errors.New("authorization_is_used")
	case c.balances[a.From] < a.Value || a.Value < 0:
		return Paid{}, errors.New("insufficient_funds")
	}
	c.used[key] = true
	c.balances[a.From] -= a.Value
	c.balances[a.To] += a.Value
	hash := sha256.Sum256(key[:])
	paid := Paid{From: a.From, To: a.To, Value: a.Value, Transaction: "0x" + hex.EncodeToString(hash[:])}
	c.paid = append(c.paid, paid)
	return paid, nil
}

// Paid returns the transfers so far.
func (c *Chain) Paid() []Paid {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Paid(nil), c.paid...)
}

// Sum is the sum of all transfers, in atomic units.
func (c *Chain) Sum() (sum int64) {
	for _, paid := range c.Paid() {
		sum += paid.Value
	}
	return sum
}
