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
	var forms []string
	for _, values := range secret {
		for _, value := range values {
			forms = append(forms, hidden(value)...)
		}
	}
	if len(forms) == 0 {
		return text
	}
	// A value may be a part of another one.
	slices.SortFunc(forms, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})
	pairs := make([]string, 0, 2*len(forms))
	for _, form := range forms {
		pairs = append(pairs, form, redacted)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// hidden returns the forms of a secret: unchanged, without its scheme, such as Bearer, and each within JSON.
func hidden(value string) []string {
	_, token, _ := strings.Cut(value, " ")
	var forms []string
	for _, form := range []string{value, token} {
		if len(form) >= minHidden {
			forms = append(forms, form, inJSON.Replace(form), inHTMLSafeJSON.Replace(form))
		}
	}
	return forms
}

// Printable ASCII within a JSON string: as it is, and as encoders write it whose JSON may be a part of HTML.
var (
	inJSON         = strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	inHTMLSafeJSON = strings.NewReplacer(`\`, `\\`, `"`, `\"`, `<`, `\u003c`, `>`, `\u003e`, `&`, `\u0026`)
)
