package prompt

import (
	"crypto/sha256"
	"encoding/hex"

	"k8s.io/apimachinery/pkg/types"
)

// pseudonymBytes is the length of the digest in a pseudonym.
const pseudonymBytes = 16

// User identifies a Session to model providers, so that they can act against one user instead of all that share an
// API key (LLM-10). It follows from the UID of the Session, which is random: neither a name nor anything else of the
// tenant can be found out from it.
func User(session types.UID) string {
	sum := sha256.Sum256([]byte("session\n" + string(session)))
	return hex.EncodeToString(sum[:pseudonymBytes])
}
