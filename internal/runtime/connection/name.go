package connection

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

const (
	namePrefix = "capstan-connection-"
	// nameDigits is how much of the hash a name has: 160 bits, for which no two users are found who share a name.
	nameDigits = 40
)

// Name is the name of the Secret of a user's connection to a provider. It follows from both, so that a reader needs no
// permission but to get it.
func Name(provider, user string) string {
	sum := sha256.New()
	for _, part := range []string{"connection", provider, user} {
		_, _ = fmt.Fprintf(sum, "%d:%s", len(part), part) // a hash accepts everything
	}
	return namePrefix + hex.EncodeToString(sum.Sum(nil))[:nameDigits]
}
