package x402

import (
	"encoding/hex"
	"strings"
	"testing"
)

// The separators are what DOMAIN_SEPARATOR() of the USDC contracts returns on Base and Base Sepolia, and the hashes of
// the types are the public constants of EIP-712 (its Example.sol) and EIP-3009 (TRANSFER_WITH_AUTHORIZATION_TYPEHASH).
//
// Rules: PAY-01.
func TestTheHashesAreThoseOfTheContracts(t *testing.T) {
	for name, c := range map[string]struct {
		got  [32]byte
		want string
	}{
		"domain":        {domainType, "8b73c3c69bb8fe3d512ecc4cf759cc79239f7b179b0ffacaa9a75d522b39400f"},
		"authorization": {typeHash, "7c7c6cdb67a18743f49ec6fa9b35f50d52ed05cbed4cc592e13b44501c1a2267"},
		"Base":          {Base.separator(), "02fa7265e7c5d81118673727957699e4d68f74cd74b7db77da710fe8a2c7834f"},
		"Base Sepolia":  {BaseSepolia.separator(), "71f17a3b2ff373b803d70a5a07c046c1a2bc8e89c09ef722fcb047abe94c9818"},
	} {
		if got := hex.EncodeToString(c.got[:]); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// The key, its account, the digest and the signature are those of the example of EIP-712 (assets/eip-712/Example.js in
// github.com/ethereum/EIPs), whose signer derives its nonce by RFC 6979 too.
//
// Rules: PAY-01.
func TestAKeySignsAsTheExampleOfEIP712(t *testing.T) {
	key, err := ParseKey([]byte(" 0xc85ef7d79691fe79573b1a7064c19c1a9819ebdbd1faaab1a8ec92344438aaf4\r\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := key.Address.String(); got != "0xcd2a3d9f938e13cd947ec05abc7fe734df8dd826" {
		t.Errorf("the account is %s", got)
	}
	var digest [32]byte
	if err := decodeHex(digest[:], "0xbe609aee343fb3c4b28e1df9e632fca64fcfaede20f02e86244efddf30957bd2"); err != nil {
		t.Fatal(err)
	}
	signature := key.sign(digest)
	want := "4355c47d63924e8a72e509b65029052eb6c299d53a04e167c5775fd466751c9d" +
		"07299936d304c153f6443dfa05f40ff007d72911b6f72307f996231605b91562" + "1c"
	if got := hex.EncodeToString(signature[:]); got != want {
		t.Errorf("the signature is %s", got)
	}
	key.Zero()
	if !key.private.Key.IsZero() {
		t.Error("the key was not overwritten")
	}
}

// The authorization, its signature and its payer are those of the example in scheme_exact_evm.md of x402.
//
// Rules: PAY-01.
func TestTheSignerOfTheExampleOfX402IsItsPayer(t *testing.T) {
	a := Authorization{
		Transfer: Transfer{
			Network: BaseSepolia, To: mustAddress("0x209693Bc6afc0C5328bA36FaF03C514EF312287C"), Value: 10000,
		},
		From:       mustAddress("0x857b06519E91e3A54538791bDbb0E22373e36b66"),
		ValidAfter: 1740672089, ValidBefore: 1740672154,
	}
	var signature [signatureBytes]byte
	for _, field := range []struct {
		into []byte
		text string
	}{
		{a.Nonce[:], "0xf3746613c2d920b5fdabc0856f2aeb2d4f88ee6037b8cc5d04a71a4462f13480"},
		{signature[:], "0x2d6a7588d6acca505cbf0d9a4a227e0c52c6c34008c8e8986a1283259764173608a2ce6496642e377d6da8dbbf5836" +
			"e9bd15092f9ecab05ded3d6293af148b571c"},
	} {
		if err := decodeHex(field.into, field.text); err != nil {
			t.Fatal(err)
		}
	}
	signer, err := Signer(a, signature)
	if err != nil || signer != a.From {
		t.Fatalf("the signer is %s, %v; want %s", signer, err, a.From)
	}
	for name, change := range map[string]func(*Authorization){
		"network":     func(a *Authorization) { a.Network = Base },
		"payee":       func(a *Authorization) { a.To[19]++ },
		"value":       func(a *Authorization) { a.Value++ },
		"validAfter":  func(a *Authorization) { a.ValidAfter++ },
		"validBefore": func(a *Authorization) { a.ValidBefore++ },
		"nonce":       func(a *Authorization) { a.Nonce[0]++ },
	} {
		other := a
		change(&other)
		if signer, err := Signer(other, signature); err == nil && signer == a.From {
			t.Errorf("the signature is valid for another %s", name)
		}
	}
}

func TestTextsThatAreNoKeyAreRefusedWithoutBeingRepeated(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "short": "0x1234", "zero": "0x" + strings.Repeat("0", 64), "no digits": strings.Repeat("g", 64),
		"the order of the curve": "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141",
		"65 digits":              strings.Repeat("1", 64) + "1",
	} {
		if key, err := ParseKey(
			[]byte(text),
		); err == nil || key != nil ||
			len(text) > 4 && strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
