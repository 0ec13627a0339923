package credential

import (
	"net/http"
	"testing"
)

func TestSecretsAreRemovedFromResponses(t *testing.T) {
	secret := http.Header{"Authorization": {`Bearer s3cr"et`}, "X-Short": {"abc"}, "X-Key": {"0123456789"}}
	body := `{"auth":"Bearer s3cr\"et","raw":Bearer s3cr"et,"token":"s3cr\"et","key":0123456789,"abc":1}`
	want := `{"auth":"[redacted]","raw":[redacted],"token":"[redacted]","key":[redacted],"abc":1}`
	if got := string(Redact([]byte(body), secret)); got != want {
		t.Errorf("what is left is\n%s, want\n%s", got, want)
	}
}

func TestAValueThatIsAPartOfAnotherOneIsRemovedWithIt(t *testing.T) {
	secret := http.Header{"X-A": {"abcd"}, "X-B": {"abcdefgh"}, "X-C": {"ef&g<h"}}
	body := `abcdefgh abcd {"c":"ef\u0026g\u003ch"}`
	want := `[redacted] [redacted] {"c":"[redacted]"}`
	for range 20 {
		if got := RedactText(body, secret); got != want {
			t.Fatalf("what is left is %s, want %s", got, want)
		}
	}
}

// Whoever decodes the JSON would have the value again.
func TestAValueIsRemovedHoweverItIsEscaped(t *testing.T) {
	secret := http.Header{"Authorization": {`Bearer s3/cr"et\`}, "X-A": {"abcdef"}, "X-B": {"defghi"}}
	for text, want := range map[string]string{
		`{"a":"s3\/cr\"et\\"}`: `{"a":"[redacted]"}`,
		`{"a":"\u0073\u0033\u002F\u0063\u0072\u0022\u0065\u0074\u005c"}`: `{"a":"[redacted]"}`,
		`{"a":"x\u0042earer s3/cr\u0022et\\y"}`:                          `{"a":"x[redacted]y"}`,
		`\u0061bcdefghi z`:                                               `[redacted] z`,
		`\u0061bcdef \u0061bcdef`:                                        `[redacted] [redacted]`,
		`\\u0061bcdeX \u00zz \u006 \`:                                    `\\u0061bcdeX \u00zz \u006 \`,
		`\u00e4 ä \u0061bcdef ä`:                                         `\u00e4 ä [redacted] ä`,
	} {
		if got := RedactText(text, secret); got != want {
			t.Errorf("what is left of %s is %s, want %s", text, got, want)
		}
	}
}
