package credential

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
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

// RedactText removes the values of secret headers from a text. It must be called before the text is cut: the beginning
// of a value is not found.
func RedactText(text string, secret http.Header) string {
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
		forms = append(forms, value, inJSON.Replace(value), inHTMLSafeJSON.Replace(value))
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

// Printable ASCII within a JSON string: as it is, and as encoders write it whose JSON may be a part of HTML.
var (
	inJSON         = strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	inHTMLSafeJSON = strings.NewReplacer(`\`, `\\`, `"`, `\"`, `<`, `\u003c`, `>`, `\u003e`, `&`, `\u0026`)
)
