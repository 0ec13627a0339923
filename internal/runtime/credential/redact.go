package credential

import (
	"net/http"
	"strings"

	"github.com/capstan-dev/capstan/internal/runtime/identity"
)

const (
	redacted = "[redacted]"
	// minHidden is the length of the shortest text that is removed. A shorter one occurs in any text.
	minHidden = 4
)

// Redact removes the values of secret headers from a response: a server may echo them.
func Redact(body []byte, secret http.Header) []byte {
	return []byte(RedactText(string(body), secret))
}

// Hiding returns secret headers and further texts under a name that no header has, for Redact: a value of arguments is
// removed from responses as one of a header is.
func Hiding(secret http.Header, texts ...string) http.Header {
	if len(texts) == 0 {
		return secret
	}
	all := secret.Clone()
	if all == nil {
		all = http.Header{}
	}
	for _, text := range texts {
		all[noHeader] = append(all[noHeader], text)
		// A server may leave out space around a value, such as the line break at the end of a file.
		if short := strings.TrimSpace(text); short != text {
			all[noHeader] = append(all[noHeader], short)
		}
	}
	return all
}

// noHeader is a key that cannot be the name of a header.
const noHeader = " "

// RedactText removes the values of secret headers from a text, and all identity tokens. It must be called before the
// text is cut: the beginning of a value is not found.
func RedactText(text string, secret http.Header) string {
	text = withoutTokens(text)
	var values []string
	for _, all := range secret {
		for _, value := range all {
			values = append(values, hidden(value)...)
		}
	}
	if len(values) == 0 {
		return text
	}
	return without(text, placesOf(text, values))
}

// withoutTokens removes identity tokens, however JSON writes them: a server may return the token of any request.
func withoutTokens(text string) string {
	text = without(text, tokensIn(decoded{text: text}))
	if !escapes(text) {
		return text
	}
	plain, _ := decoded{text: text}.decode(inJSON)
	return without(text, tokensIn(plain))
}

func tokensIn(d decoded) []place {
	var found []place
	for _, at := range identity.Find(d.text) {
		found = append(found, place{d.origin(at[0]), d.origin(at[1])})
	}
	return found
}

// without removes places from a text, which are in ascending order.
func without(text string, places []place) string {
	if len(places) == 0 {
		return text
	}
	var left strings.Builder
	end := int32(0)
	for _, p := range places {
		left.WriteString(text[end:p.start] + redacted)
		end = p.end
	}
	left.WriteString(text[end:])
	return left.String()
}

// hidden returns what is removed of a secret: all of it, and it without its scheme, such as Bearer.
func hidden(value string) []string {
	_, token, _ := strings.Cut(value, " ")
	var values []string
	for _, v := range []string{value, token} {
		if len(v) >= minHidden {
			values = append(values, v)
		}
	}
	return values
}
