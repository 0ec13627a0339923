// Package x402 has the wire form of x402, version 2, for one scheme: exact payments in USDC on Base by EIP-3009
// authorizations, which are signed by EIP-712. It decodes offers of payments and receipts, and signs authorizations. It
// sends nothing and decides nothing. Everything that it decodes comes from an untrusted server and is bounded first.
//
// The protocol is described at https://github.com/x402-foundation/x402, in specs/x402-specification-v2.md,
// specs/transports-v2/http.md and specs/schemes/exact/scheme_exact_evm.md.
package x402
