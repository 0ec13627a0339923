package connection

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

var anns = Of{Namespace: "team-a", Provider: "github", User: "ann@example.org"}

// secretOf is the Secret of a connection with this data.
func secretOf(of Of, data map[string]string) *corev1.Secret {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: of.Namespace, Name: Name(of.Provider, of.User),
			Labels: map[string]string{v1alpha1.LabelConnection: of.Provider},
			Annotations: map[string]string{
				v1alpha1.AnnotationConnectionOwner: of.User, v1alpha1.AnnotationAllowedHosts: "api.github.com",
			},
		},
		Data: map[string][]byte{},
	}
	for key, value := range data {
		secret.Data[key] = []byte(value)
	}
	return secret
}

// Rules: CONN-01.
func TestTheNameOfAConnectionIsThatOfItsProviderAndUserOnly(t *testing.T) {
	names := map[string]bool{}
	for _, of := range [][2]string{{"github", "ann"}, {"github", "bob"}, {"githuba", "nn"}, {"git", "hubann"}, {"", "x"}} {
		name := Name(of[0], of[1])
		if names[name] || len(name) > 63 || name != Name(of[0], of[1]) {
			t.Errorf("%v has the name %s", of, name)
		}
		names[name] = true
	}
}

// Rules: CONN-01.
func TestASecretIsTheConnectionOfTheUserThatItNamesOnly(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*corev1.Secret)
		why    string
	}{
		"as it is":          {change: func(*corev1.Secret) {}},
		"another name":      {change: func(s *corev1.Secret) { s.Name = "mine" }, why: "is not named as the connection"},
		"another namespace": {change: func(s *corev1.Secret) { s.Namespace = "b" }, why: "is not named as the connection"},
		"another owner": {
			change: func(s *corev1.Secret) { s.Annotations[v1alpha1.AnnotationConnectionOwner] = "bob" }, why: "the user",
		},
		"no owner": {
			change: func(s *corev1.Secret) { delete(s.Annotations, v1alpha1.AnnotationConnectionOwner) }, why: "the user",
		},
		"no label": {change: func(s *corev1.Secret) { s.Labels = nil }, why: "has no label capstan.dev/connection=github"},
		"no hosts": {
			change: func(s *corev1.Secret) { s.Annotations[v1alpha1.AnnotationAllowedHosts] = " " }, why: "allowed-hosts",
		},
		"no token":   {change: func(s *corev1.Secret) { s.Data = nil }, why: `has no key "token"`},
		"two lines":  {change: func(s *corev1.Secret) { s.Data[KeyToken] = []byte("s3cret\nX: y") }, why: "not printable"},
		"too long":   {change: func(s *corev1.Secret) { s.Data[KeyToken] = make([]byte, MaxTokenBytes+1) }, why: "printable"},
		"a scheme":   {change: func(s *corev1.Secret) { s.Data[KeyToken] = []byte("Bearer s3cret") }, why: "with a space"},
		"a bad time": {change: func(s *corev1.Secret) { s.Data[KeyExpiry] = []byte("s3cret") }, why: "not a time in RFC"},
	} {
		t.Run(name, func(t *testing.T) {
			secret := secretOf(anns, map[string]string{KeyToken: "s3cret\n"})
			test.change(secret)
			c, err := Parse(secret, anns, nil)
			if test.why == "" {
				if err != nil || c.Token != "s3cret" || c.Grant != nil {
					t.Fatalf("%+v, %v", c, err)
				}
				return
			}
			var unusable *UnusableError
			if !errors.As(err, &unusable) || !strings.Contains(err.Error(), test.why) ||
				strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error is %v", err)
			}
		})
	}
	if _, err := Parse(secretOf(Of{Provider: "github"}, nil), Of{Provider: "github"}, nil); err == nil {
		t.Error("a Turn without a user has a connection")
	}
}

// Rules: CONN-01.
func TestTheClientOfOthersIsForRefreshingOnly(t *testing.T) {
	own := map[string]string{KeyTokenURL: "https://login.example/token", KeyClientID: "id", KeyClientSecret: "c1ient"}
	client := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "app", Labels: map[string]string{v1alpha1.LabelOAuthClient: "github"}},
		Data:       map[string][]byte{},
	}
	for key, value := range own {
		client.Data[key] = []byte(value)
	}
	with := func(extra ...string) map[string]string {
		data := map[string]string{}
		for key, value := range own {
			data[key] = value
		}
		for i := 0; i < len(extra); i += 2 {
			data[extra[i]] = extra[i+1]
		}
		return data
	}
	for name, test := range map[string]struct {
		data  map[string]string
		named string
		// unbound is set for a connection that names no hosts for the refresh token.
		unbound bool
		found   *corev1.Secret
		want    Grant
		reject  string
	}{
		"client credentials": {
			data: with(KeyScopes, "a b"), want: Grant{
				TokenURL: own[KeyTokenURL], ClientID: "id", ClientSecret: "c1ient", Scopes: []string{"a", "b"},
			},
		},
		"a refresh token and an own client": {
			data: with(KeyRefreshToken, "r", KeyClientAuthentication, "body"), want: Grant{
				RefreshToken: "r", TokenURL: own[KeyTokenURL], ClientID: "id", ClientSecret: "c1ient", InBody: true,
			},
		},
		"a public client": {
			data: with(KeyRefreshToken, "r", KeyClientSecret, ""),
			want: Grant{RefreshToken: "r", TokenURL: own[KeyTokenURL], ClientID: "id", InBody: true},
		},
		"the client of others": {
			data: map[string]string{KeyRefreshToken: "r", KeyTokenURL: "https://attacker.example"}, named: "app",
			found: client,
			want:  Grant{RefreshToken: "r", TokenURL: own[KeyTokenURL], ClientID: "id", ClientSecret: "c1ient"},
		},
		"the client of others, to any host": {
			data: map[string]string{KeyRefreshToken: "r"}, named: "app", found: client, unbound: true,
			reject: "has no annotation capstan.dev/token-hosts",
		},
		"the client's own token":   {named: "app", found: client, reject: "for refreshing only"},
		"a client that is missing": {data: map[string]string{KeyRefreshToken: "r"}, named: "app", reject: "does not exist"},
		"a Secret that is no client": {
			data: map[string]string{KeyRefreshToken: "r"}, named: "app", found: secretOf(anns, own), reject: "has no label",
		},
		"plain HTTP": {data: with(KeyTokenURL, "http://login.example"), reject: "an https URL"},
		"no client":  {data: map[string]string{KeyRefreshToken: "r"}, reject: "an https URL"},
		"no id":      {data: with(KeyClientID, ""), reject: `has no key "client-id"`},
		"no secret":  {data: with(KeyClientSecret, ""), reject: "has neither"},
		"a bad way":  {data: with(KeyClientAuthentication, "jwt"), reject: "neither"},
		"many scopes": {
			data: with(KeyScopes, strings.Repeat("a ", MaxScopes+1)), reject: "more than 64 scopes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			secret := secretOf(anns, test.data)
			if test.named != "" {
				secret.Annotations[v1alpha1.AnnotationOAuthClient] = test.named
				secret.Annotations[v1alpha1.AnnotationTokenHosts] = "login.example"
				if test.unbound {
					delete(secret.Annotations, v1alpha1.AnnotationTokenHosts)
				}
			}
			c, err := Parse(secret, anns, func(string) (*corev1.Secret, error) { return test.found, nil })
			if test.reject != "" {
				if err == nil || !strings.Contains(err.Error(), test.reject) || strings.Contains(err.Error(), "c1ient") {
					t.Fatalf("the error is %v", err)
				}
				return
			}
			if err != nil || c.Grant == nil {
				t.Fatalf("%+v, %v", c, err)
			}
			got, want := *c.Grant, test.want
			if strings.Join(got.Scopes, " ") != strings.Join(want.Scopes, " ") {
				t.Errorf("the scopes are %v", got.Scopes)
			}
			got.Scopes, want.Scopes = nil, nil
			if got.RefreshToken != want.RefreshToken || got.TokenURL != want.TokenURL || got.ClientID != want.ClientID ||
				got.ClientSecret != want.ClientSecret || got.InBody != want.InBody {
				t.Errorf("the grant is %+v, want %+v", got, want)
			}
		})
	}
}

func FuzzASecretIsParsed(f *testing.F) {
	f.Add("token", "2026-01-01T00:00:00Z", "refresh", "https://login.example", "id", "secret", "scope")
	f.Add("", "", "", "", "", "", "")
	f.Fuzz(func(t *testing.T, token, expiry, refresh, url, id, client, scopes string) {
		secret := secretOf(anns, map[string]string{
			KeyToken: token, KeyExpiry: expiry, KeyRefreshToken: refresh, KeyTokenURL: url, KeyClientID: id,
			KeyClientSecret: client, KeyScopes: scopes,
		})
		c, err := Parse(secret, anns, nil)
		if err != nil {
			return
		}
		if c.Token == "" && c.Grant == nil || strings.ContainsAny(c.Token, "\r\n \x00") ||
			c.Expiry.After(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)) {
			t.Errorf("%+v", c)
		}
	})
}
