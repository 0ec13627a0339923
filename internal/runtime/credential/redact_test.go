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
