package x402

import (
	"encoding/hex"
	"fmt"
)

// Address is an address of an account or a contract.
type Address [20]byte

// String returns the address in lower-case hexadecimal digits, after 0x.
func (a Address) String() string { return "0x" + hex.EncodeToString(a[:]) }

// ParseAddress reads an address of exactly 40 hexadecimal digits after 0x, in any case. The zero address is invalid:
// what is paid to it is lost.
func ParseAddress(text string) (Address, error) {
	var a Address
	if err := decodeHex(a[:], text); err != nil {
		return Address{}, fmt.Errorf("invalid address: %w", err)
	}
	if a == (Address{}) {
		return Address{}, fmt.Errorf("invalid address: it is zero")
	}
	return a, nil
}

// decodeHex decodes exactly as many bytes as there is room for, written after 0x.
func decodeHex(to []byte, text string) error {
	if len(text) != 2+2*len(to) || text[:2] != "0x" {
		return fmt.Errorf("it does not have 0x and %d digits", 2*len(to))
	}
	if _, err := hex.Decode(to, []byte(text[2:])); err != nil {
		return fmt.Errorf("it has a character that is no hexadecimal digit")
	}
	return nil
}

// Network is a chain on which payments are made, with its USDC contract. Nothing of it is read from an offer: a server
// that names another contract, or another number of decimals, would change the value of an amount.
type Network struct {
	// ID of the network in offers, in CAIP-2 form.
	ID string
	// ChainID is that of the domain of signatures.
	ChainID uint64
	// Asset is the address of the USDC contract. Its amounts have six decimals.
	Asset Address
	// Name and Version of the contract's domain.
	Name, Version string
}

// The networks. Addresses and domains are those that Circle publishes and that the contracts return.
var (
	// Base is the main network.
	Base = Network{
		ID: "eip155:8453", ChainID: 8453, Asset: mustAddress("0x833589fcd6edb6e08f4c7c32d4f71b54bda02913"),
		Name: "USD Coin", Version: "2",
	}
	// BaseSepolia is the test network. Its USDC has no value.
	BaseSepolia = Network{
		ID: "eip155:84532", ChainID: 84532, Asset: mustAddress("0x036cbd53842c5426634e7929541ec2318f3dcf7e"),
		Name: "USDC", Version: "2",
	}
)

func mustAddress(text string) Address {
	a, err := ParseAddress(text)
	if err != nil {
		panic(err)
	}
	return a
}
