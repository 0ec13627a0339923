package identity

import (
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
		from := max(end, dot-maxHeader)
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
	end := strings.IndexFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	})
	if end < 0 {
		return len(text)
	}
	return end
}

// ownHeader returns where the header of one of our tokens begins in a text that ends with it; -1 for none.
func ownHeader(text string) int {
	for at := 0; ; {
		next := strings.Index(text[at:], opening)
		if next < 0 {
			return -1
		}
		at += next
		raw, err := base64.RawURLEncoding.DecodeString(text[at:])
		var header struct {
			KeyID string `json:"kid"`
		}
		if err == nil && json.Unmarshal(raw, &header) == nil && strings.HasPrefix(header.KeyID, keyPrefix) {
			return at
		}
		at += len(opening)
	}
}
