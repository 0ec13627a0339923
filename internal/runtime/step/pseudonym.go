package step

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

// pseudonymBytes is the length of the digest in a pseudonym.
const pseudonymBytes = 16

// pseudonym identifies a Session to model providers, so that they can act against one user instead of all that share an
// API key (LLM-10). It follows from the UID of the Session, which is random: neither a name nor anything else of the
// tenant can be found out from it.
func pseudonym(s journal.Session) string {
	sum := sha256.Sum256([]byte("session\n" + string(s.UID)))
	return hex.EncodeToString(sum[:pseudonymBytes])
}
