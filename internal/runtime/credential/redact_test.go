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
