package credential

import (
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

func TestASecretIsSentOverPlainHTTPOnlyIfItIsBoundToIt(t *testing.T) {
	const plain, secure = "http://models.team-a.svc:8000/v1", "https://models.team-a.svc:8000/v1"
	for _, test := range []struct {
		listed    string
		unbound   bool
		to        string
		mayBeSent bool
	}{
		{unbound: true, to: secure, mayBeSent: true},
		{unbound: true, to: plain},
		{listed: "", to: plain},
		{listed: "models.team-a.svc:8000", to: plain},
		{listed: "https://models.team-a.svc:8000", to: plain},
		{listed: "other, HTTP://Models.team-a.svc:8000 ", to: plain, mayBeSent: true},
		{listed: "http://models.team-a.svc:8000", to: secure},
		{listed: "https://models.team-a.svc:8000", to: secure, mayBeSent: true},
		{listed: "models.team-a.svc:8000", to: secure, mayBeSent: true},
		{listed: "http://models.team-a.svc", to: plain},
		{listed: "http://models.team-a.svc", to: "http://models.team-a.svc/v1", mayBeSent: true},
		{listed: "http://models.team-a.svc:80", to: "http://models.team-a.svc", mayBeSent: true},
		{listed: "http://models.team-a.svc:8000", to: "http://models.team-b.svc:8000"},
		{listed: "http://", to: plain},
	} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "key"}}
		if !test.unbound {
			secret.Annotations = map[string]string{v1alpha1.AnnotationAllowedHosts: test.listed}
		}
		to, err := url.Parse(test.to)
		if err != nil {
			t.Fatal(err)
		}
		why := BoundElsewhere(secret, to)
		if (why == "") != test.mayBeSent {
			t.Errorf("%+v: %q", test, why)
		}
		if why != "" && to.Scheme == "http" && !strings.Contains(why, "http://"+to.Host) {
			t.Errorf("the remedy of %+v is %q", test, why)
		}
	}
}
