package connection

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/credential"
)

// The keys of the Secret of a connection.
const (
	// KeyToken is the token that requests have.
	KeyToken = "token"
	// KeyExpiry is when the token expires, in RFC 3339. Without it, the token is used until the user replaces it.
	KeyExpiry = "expiry"
	// KeyRefreshToken is the OAuth refresh token.
	KeyRefreshToken = "refresh-token"
	// KeyTokenURL, KeyClientID and KeyClientSecret are the token endpoint of the provider and the OAuth client: in the
	// Secret of the connection, or in one with v1alpha1.LabelOAuthClient. Without a refresh token they are for the grant
	// of client credentials.
	KeyTokenURL     = "token-url"
	KeyClientID     = "client-id"
	KeyClientSecret = "client-secret"
	// KeyClientAuthentication is how the client proves to be itself: AuthenticationHeader (default) or
	// AuthenticationBody.
	KeyClientAuthentication = "client-authentication"
	// KeyScopes are the scopes to request, with spaces between them.
	KeyScopes = "scopes"
)

// Values of KeyClientAuthentication.
const (
	// AuthenticationHeader sends id and secret of the client in the header Authorization.
	AuthenticationHeader = "header"
	// AuthenticationBody sends them as parameters in the body.
	AuthenticationBody = "body"
)

const (
	// MaxTokenBytes is the length of the longest token, and of every other value of the Secret that is used.
	MaxTokenBytes = 8 << 10
	// MaxScopes is the number of scopes that may be requested.
	MaxScopes = 64
)

// Of identifies a connection.
type Of struct {
	// Namespace of the Secret, Provider that the connection is to, and User whose connection it is.
	Namespace, Provider, User string
}

// Connection is the content of the Secret of a connection.
type Connection struct {
	// Secret it comes from.
	Secret *corev1.Secret
	// Token of the Secret; empty where it has none.
	Token string
	// Expiry of the token; zero if it is not known to expire.
	Expiry time.Time
	// Grant is how to get another token; nil if there is no way to. Client is the Secret with the OAuth client of it.
	Grant  *Grant
	Client *corev1.Secret
}

// Grant is what a token endpoint issues tokens for.
type Grant struct {
	// RefreshToken of the user; empty for the grant of client credentials.
	RefreshToken string
	// TokenURL is the token endpoint.
	TokenURL string
	// ClientID and ClientSecret of the OAuth client; a public client has no secret.
	ClientID, ClientSecret string
	// InBody reports whether they are sent in the body.
	InBody bool
	// Scopes to request; none for those of the provider's choice.
	Scopes []string
}

// UnusableError is why a Secret is not a usable connection. The text names no value of the Secret.
type UnusableError struct {
	// Secret is its name.
	Secret string
	// Why is a part of a sentence, behind the name.
	Why string
}

// Error implements error.
func (e *UnusableError) Error() string { return fmt.Sprintf("Secret %q %s", e.Secret, e.Why) }

// Parse returns the connection that a Secret is. client reads the Secret with the OAuth client that it names; it is
// called at most once, and only for a connection that names one. Without it, such a connection has no Grant.
func Parse(
	secret *corev1.Secret, of Of, client func(name string) (*corev1.Secret, error),
) (*Connection, error) {
	unusable := func(format string, args ...any) error {
		return &UnusableError{Secret: secret.Name, Why: fmt.Sprintf(format, args...)}
	}
	if why := notOf(secret, of); why != "" {
		return nil, unusable("%s", why)
	}
	for _, key := range []string{
		KeyToken, KeyExpiry, KeyRefreshToken, KeyTokenURL, KeyClientID, KeyClientSecret, KeyClientAuthentication, KeyScopes,
	} {
		if !printable(secret.Data[key]) {
			return nil, unusable("has a key %q whose value is not printable ASCII of at most %d bytes", key, MaxTokenBytes)
		}
	}
	c := &Connection{Secret: secret, Token: value(secret, KeyToken)}
	if text := value(secret, KeyExpiry); text != "" {
		var err error
		if c.Expiry, err = time.Parse(time.RFC3339, text); err != nil {
			return nil, unusable("has a key %q that is not a time in RFC 3339", KeyExpiry)
		}
	}
	if strings.Contains(c.Token, " ") {
		return nil, unusable("has a key %q with a space: the scheme, such as Bearer, is set in the header", KeyToken)
	}
	from, err := clientOf(secret, of, client)
	if err != nil {
		return nil, err
	}
	if from != nil {
		if c.Grant, err = grantOf(secret, from); err != nil {
			return nil, err
		}
		c.Client = from
	}
	if c.Token == "" && c.Grant == nil {
		return nil, unusable("has no key %q", KeyToken)
	}
	return c, nil
}

// notOf returns why a Secret is not a connection.
func notOf(secret *corev1.Secret, of Of) string {
	switch {
	case of.User == "" || secret.Name != Name(of.Provider, of.User) || secret.Namespace != of.Namespace:
		return "is not named as the connection"
	case secret.Labels[v1alpha1.LabelConnection] != of.Provider:
		return fmt.Sprintf("has no label %s=%s", v1alpha1.LabelConnection, of.Provider)
	case secret.Annotations[v1alpha1.AnnotationConnectionOwner] != of.User:
		return fmt.Sprintf("does not have the user in its annotation %s", v1alpha1.AnnotationConnectionOwner)
	case strings.TrimSpace(secret.Annotations[v1alpha1.AnnotationAllowedHosts]) == "":
		return fmt.Sprintf("has no annotation %s with the hosts that its token may be sent to",
			v1alpha1.AnnotationAllowedHosts)
	default:
		return ""
	}
}

// clientOf returns the Secret that has the OAuth client of a connection; nil if it has none.
func clientOf(
	secret *corev1.Secret, of Of, read func(name string) (*corev1.Secret, error),
) (*corev1.Secret, error) {
	name, named := secret.Annotations[v1alpha1.AnnotationOAuthClient]
	switch {
	case !named && value(secret, KeyTokenURL) == "" && value(secret, KeyRefreshToken) == "":
		return nil, nil
	case !named:
		return secret, nil
	case value(secret, KeyRefreshToken) == "":
		// The client's own token would have the rights of the client, for which the user has not signed in.
		return nil, &UnusableError{Secret: secret.Name, Why: fmt.Sprintf(
			"names an OAuth client and has no key %q: the client of others is for refreshing only", KeyRefreshToken)}
	case strings.TrimSpace(secret.Annotations[v1alpha1.AnnotationTokenHosts]) == "":
		return nil, &UnusableError{Secret: secret.Name, Why: fmt.Sprintf(
			"names an OAuth client and has no annotation %s with the hosts that its refresh token may be sent to",
			v1alpha1.AnnotationTokenHosts)}
	case read == nil:
		return nil, nil
	}
	client, err := read(name)
	if err != nil {
		return nil, err
	}
	if client == nil || client.Labels[v1alpha1.LabelOAuthClient] != of.Provider {
		return nil, &UnusableError{Secret: secret.Name, Why: fmt.Sprintf(
			"names the OAuth client %q, which does not exist or has no label %s=%s", name, v1alpha1.LabelOAuthClient,
			of.Provider)}
	}
	return client, nil
}

// grantOf returns how to get tokens with a client. The token endpoint is that of the client, so that its secret goes
// nowhere else, and one of the hosts of the connection, so that the refresh token goes nowhere else.
func grantOf(secret, client *corev1.Secret) (*Grant, error) {
	g := &Grant{
		RefreshToken: value(secret, KeyRefreshToken), TokenURL: value(client, KeyTokenURL),
		ClientID: value(client, KeyClientID), ClientSecret: value(client, KeyClientSecret),
		Scopes: strings.Fields(value(secret, KeyScopes)),
	}
	how := value(client, KeyClientAuthentication)
	g.InBody = how == AuthenticationBody || g.ClientSecret == ""
	var why string
	switch {
	case !printable([]byte(g.TokenURL + g.ClientID + g.ClientSecret)):
		why = fmt.Sprintf("has values that are not printable ASCII of at most %d bytes", MaxTokenBytes)
	case !strings.HasPrefix(g.TokenURL, "https://"):
		why = fmt.Sprintf("has no key %q with an https URL", KeyTokenURL)
	case g.ClientID == "":
		why = fmt.Sprintf("has no key %q", KeyClientID)
	case how != "" && how != AuthenticationHeader && how != AuthenticationBody:
		why = fmt.Sprintf("has a key %q that is neither %q nor %q", KeyClientAuthentication, AuthenticationHeader,
			AuthenticationBody)
	case g.RefreshToken == "" && g.ClientSecret == "":
		why = fmt.Sprintf("has neither %q nor %q", KeyRefreshToken, KeyClientSecret)
	case len(g.Scopes) > MaxScopes:
		why = fmt.Sprintf("has more than %d scopes", MaxScopes)
	default:
		return g, boundTo(secret, g.TokenURL)
	}
	return nil, &UnusableError{Secret: client.Name, Why: why}
}

// boundTo returns an error if a connection does not let its refresh token be sent to a token endpoint: with the client
// of another user, its address is that user's as well.
func boundTo(secret *corev1.Secret, endpoint string) error {
	list, bound := secret.Annotations[v1alpha1.AnnotationTokenHosts]
	if !bound {
		return nil
	}
	to, err := url.Parse(endpoint)
	if err != nil || !credential.Lists(list, to) {
		return &UnusableError{Secret: secret.Name, Why: fmt.Sprintf(
			"has the annotation %s, which does not list the host of the %s", v1alpha1.AnnotationTokenHosts, KeyTokenURL)}
	}
	return nil
}

// value returns a value of a Secret. A line break at its end usually comes from a file.
func value(secret *corev1.Secret, key string) string {
	return strings.TrimRight(string(secret.Data[key]), "\r\n")
}

// printable reports whether a value is printable ASCII, and not too long.
func printable(value []byte) bool {
	text := strings.TrimRight(string(value), "\r\n")
	return len(text) <= MaxTokenBytes && !strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c > '~' })
}
