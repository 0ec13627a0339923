package x402

import (
	"encoding/binary"
	"encoding/hex"
	"errors"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"golang.org/x/crypto/sha3"
)

// Transfer is a transfer of USDC.
type Transfer struct {
	// Network of the transfer.
	Network Network
	// To is the payee.
	To Address
	// Value in atomic units.
	Value int64
}

// Authorization permits a transfer once: the contract accepts each nonce of an account a single time, whatever else the
// authorization has.
type Authorization struct {
	Transfer
	// From is the payer.
	From Address
	// ValidAfter and ValidBefore bound the time of the transfer, in seconds since 1970, exclusively.
	ValidAfter, ValidBefore int64
	// Nonce of the payer.
	Nonce [32]byte
}

// The types of EIP-712 and EIP-3009.
var (
	domainType = keccak([]byte("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"))
	typeHash   = keccak([]byte("TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter," +
		"uint256 validBefore,bytes32 nonce)"))
)

// Digest is what the payer signs.
func (a Authorization) Digest() [32]byte {
	domain := a.Network.separator()
	message := structHash(typeHash, padded(a.From), padded(a.To), number(a.Value), number(a.ValidAfter),
		number(a.ValidBefore), a.Nonce)
	return keccak([]byte("\x19\x01"), domain[:], message[:])
}

// separator is the hash of the domain of the contract.
func (n Network) separator() [32]byte {
	return structHash(
		domainType,
		keccak([]byte(n.Name)),
		keccak([]byte(n.Version)),
		number(int64(n.ChainID)),
		padded(n.Asset),
	)
}

func structHash(kind [32]byte, words ...[32]byte) [32]byte {
	all := [][]byte{kind[:]}
	for i := range words {
		all = append(all, words[i][:])
	}
	return keccak(all...)
}

// keccak is the hash of Ethereum, which is not SHA-3 as it was standardized.
func keccak(parts ...[]byte) (sum [32]byte) {
	hash := sha3.NewLegacyKeccak256()
	for _, part := range parts {
		hash.Write(part)
	}
	hash.Sum(sum[:0])
	return sum
}

// number is a number that is not negative as a word.
func number(n int64) (word [32]byte) {
	binary.BigEndian.PutUint64(word[24:], uint64(n))
	return word
}

func padded(a Address) (word [32]byte) {
	copy(word[12:], a[:])
	return word
}

// Key is the private key of a wallet. It is not copied, and its owner must call Zero.
type Key struct {
	private *secp256k1.PrivateKey
	// Address of the account.
	Address Address
}

// ParseKey reads a private key: 64 hexadecimal digits, after 0x or without it. Spaces and line breaks around it are
// ignored. The error has nothing of the text, which the caller clears.
func ParseKey(text []byte) (*Key, error) {
	for len(text) > 0 && text[len(text)-1] <= ' ' {
		text = text[:len(text)-1]
	}
	for len(text) > 0 && text[0] <= ' ' {
		text = text[1:]
	}
	if len(text) == 66 && text[0] == '0' && text[1] == 'x' {
		text = text[2:]
	}
	var bytes [32]byte
	defer clear(bytes[:])
	if len(text) != 64 {
		return nil, errors.New("it does not have 64 hexadecimal digits")
	}
	if _, err := hex.Decode(bytes[:], text); err != nil {
		return nil, errors.New("it has a character that is no hexadecimal digit")
	}
	var scalar secp256k1.ModNScalar
	defer scalar.Zero()
	if overflows := scalar.SetBytes(&bytes); overflows != 0 || scalar.IsZero() {
		return nil, errors.New("it is not a number that can be a key")
	}
	private := secp256k1.NewPrivateKey(&scalar)
	return &Key{private: private, Address: addressOf(private.PubKey())}, nil
}

// Zero overwrites the key. Copies that the compiler or the garbage collector has made are out of reach.
func (k *Key) Zero() { k.private.Zero() }

func addressOf(public *secp256k1.PublicKey) (a Address) {
	sum := keccak(public.SerializeUncompressed()[1:])
	copy(a[:], sum[12:])
	return a
}

// signatureBytes is the length of a signature: r, s and v.
const signatureBytes = 65

// Sign signs an authorization. The nonce of the signature follows from the key and the content (RFC 6979), so that the
// same authorization always has the same signature. s is in the lower half, as the contract demands.
func (k *Key) Sign(a Authorization) [signatureBytes]byte {
	return k.sign(a.Digest())
}

func (k *Key) sign(digest [32]byte) [signatureBytes]byte {
	compact := ecdsa.SignCompact(k.private, digest[:], false)
	var signature [signatureBytes]byte
	copy(signature[:], compact[1:])
	signature[64] = compact[0] // 27 or 28
	return signature
}

// Signer returns the account that has signed an authorization.
func Signer(a Authorization, signature [signatureBytes]byte) (Address, error) {
	compact := append([]byte{signature[64]}, signature[:64]...)
	digest := a.Digest()
	public, _, err := ecdsa.RecoverCompact(compact, digest[:])
	if err != nil || signature[64] != 27 && signature[64] != 28 {
		return Address{}, errors.New("invalid signature")
	}
	return addressOf(public), nil
}
