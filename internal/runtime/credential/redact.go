package credential

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
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
	var values, forms []string
	for _, all := range secret {
		for _, value := range all {
			values = append(values, hidden(value)...)
		}
	}
	if len(values) == 0 {
		return text
	}
	for _, value := range values {
		forms = append(forms, value, inJSON.Replace(value), inHTMLSafeJSON.Replace(value), url.QueryEscape(value),
			url.PathEscape(value))
	}
	// A value may be a part of another one.
	slices.SortFunc(forms, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})
	pairs := make([]string, 0, 2*len(forms))
	for _, form := range forms {
		pairs = append(pairs, form, redacted)
	}
	return strings.NewReplacer(pairs...).Replace(withoutEscaped(text, values))
}

// withoutTokens removes identity tokens, however JSON writes them: a server may return the token of any request.
func withoutTokens(text string) string {
	text = without(text, identity.Find(text))
	if !escapes(text) {
		return text
	}
	plain, starts := unescaped(text)
	found := identity.Find(plain)
	for _, place := range found {
		place[0], place[1] = starts[place[0]], starts[place[1]]
	}
	return without(text, found)
}

// without removes places from a text, which are pairs of indices in ascending order.
func without(text string, places [][]int) string {
	if len(places) == 0 {
		return text
	}
	var left strings.Builder
	end := 0
	for _, place := range places {
		left.WriteString(text[end:place[0]] + redacted)
		end = place[1]
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

// ASCII within a JSON string: as it is, and as encoders write it whose JSON may be a part of HTML.
var (
	inJSON         = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`)
	inHTMLSafeJSON = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`, `<`, `\u003c`,
		`>`, `\u003e`, `&`, `\u0026`)
)
