package provider

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

// CallID is the id of a tool call in a form that a provider accepts: the id itself if it is valid, otherwise one
// derived from it, the same each time, so that a call and its result still belong together and a prompt that is
// composed again is the same to the byte. maxLength is in bytes; the provider must accept letters and digits.
func CallID(id string, maxLength int, allowed func(rune) bool) string {
	if id != "" && len(id) <= maxLength && utf8.ValidString(id) &&
		!strings.ContainsFunc(id, func(r rune) bool { return !allowed(r) }) {
		return id
	}
	sum := sha256.Sum256([]byte("call id " + id))
	derived := "call" + hex.EncodeToString(sum[:])
	return derived[:min(len(derived), maxLength)]
}

// Plain reports whether a character is a letter, a digit, an underscore or a hyphen, which all providers accept in ids
// and names.
func Plain(r rune) bool {
	return isLetter(r) || '0' <= r && r <= '9' || r == '_' || r == '-'
}
