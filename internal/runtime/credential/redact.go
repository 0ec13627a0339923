package credential

import (
	"net/http"
	"strings"
)

const (
	redacted = "[redacted]"
	// minHidden is the length of the shortest text that is removed. A shorter one occurs in any text.
	minHidden = 4
)

// Redact removes the values of secret headers from a response: a server may echo them.
func Redact(body []byte, secret http.Header) []byte {
	text := string(body)
	for _, values := range secret {
		for _, value := range values {
			text = strings.NewReplacer(hidden(value)...).Replace(text)
		}
	}
	return []byte(text)
}

// hidden returns the forms of a secret, each followed by its replacement: unchanged, without its scheme, such as
// Bearer, and each within JSON.
func hidden(value string) []string {
	_, token, _ := strings.Cut(value, " ")
	var pairs []string
	for _, form := range []string{value, token} {
		if len(form) >= minHidden {
			pairs = append(pairs, form, redacted, inJSON.Replace(form), redacted)
		}
	}
	return pairs
}

// inJSON writes printable ASCII as it is within a JSON string.
var inJSON = strings.NewReplacer(`\`, `\\`, `"`, `\"`)
