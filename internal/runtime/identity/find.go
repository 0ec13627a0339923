package identity

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
)

const (
	// opening begins the header of each token: the characters of `{"` and the first bit that follows.
	opening = "eyJ"
	// maxHeader is more than the length of the header of a token, and minPayload less than that of what follows it.
	maxHeader, minPayload = 256, 16
)

// Find returns where a text has tokens of this package, as pairs of indices in ascending order. They are found by the
// id of their key, whichever process has signed them. The signature may be missing.
func Find(text string) [][]int {
	if !strings.Contains(text, opening) {
		return nil
	}
	var found [][]int
	end := 0
	for at := 0; ; {
		dot := strings.IndexByte(text[at:], '.')
		if dot < 0 {
			return found
		}
		dot += at
		at = dot + 1
		payload := run(text[at:])
		if payload < minPayload {
			continue
		}
		// A header has no dot, so that none of its characters is looked at for another dot.
		from := dot
		for from > max(end, dot-maxHeader) && inBase64(text[from-1]) {
			from--
		}
		own := ownHeader(text[from:dot])
		if own < 0 {
			continue
		}
		at += payload
		if strings.HasPrefix(text[at:], ".") {
			at++
			at += run(text[at:])
		}
		end = at
		found = append(found, []int{from + own, end})
	}
}

// run is the length of the characters of base64url that a text begins with.
func run(text string) int {
	end := 0
	for end < len(text) && inBase64(text[end]) {
		end++
	}
	return end
}

// inBase64 reports whether base64url has a character.
func inBase64(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

// ownHeader returns where the header of one of our tokens begins in a text that ends with it; -1 for none.
func ownHeader(text string) int {
	// Four characters are three bytes. Our headers have no object within, so that of the openings which are a multiple
	// of four characters apart only the last one can begin one.
	var tried [4]bool
	for at := strings.LastIndex(text, opening); at >= 0; at = strings.LastIndex(text[:at], opening) {
		if tried[at%4] {
			continue
		}
		tried[at%4] = true
		raw, err := base64.RawURLEncoding.DecodeString(text[at:])
		if err != nil || !bytes.Contains(raw, []byte(keyPrefix)) {
			continue
		}
		var header struct {
			KeyID string `json:"kid"`
		}
		if json.Unmarshal(raw, &header) == nil && strings.HasPrefix(header.KeyID, keyPrefix) {
			return at
		}
	}
	return -1
}
