package streaming

import (
	"crypto/sha256"
	"encoding/hex"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
)

const (
	// strangers is the share of requests for tokens that were never valid. It is one share, since what a token claims
	// counts only after its review: a caller could claim to be of any namespace, or of a thousand.
	strangers = "streams: strangers"
	// users is how the shares of users begin that are no ServiceAccounts. No namespace has a name like these.
	users = "streams: user "
)

// shareOf returns the share of requests to the API server about a user whose credentials are valid: that of the
// namespace of a ServiceAccount, however many it has, or one of the user. Its length is bounded whatever the name is.
func shareOf(who user.Info) string {
	if namespace, _, err := serviceaccount.SplitUsername(who.GetName()); err == nil {
		return namespace
	}
	sum := sha256.Sum256([]byte(who.GetName()))
	return users + hex.EncodeToString(sum[:16])
}
