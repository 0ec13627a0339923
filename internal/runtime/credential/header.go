package credential

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// MaxHeaderBytes is the longest value of a header that is read from a Secret.
const MaxHeaderBytes = 8 << 10

// HeaderValue returns the value of a header of a request to a URL, or why it has none: the Secret or its key is missing
// or unusable, or the Secret is bound to other hosts. A line break at the end usually comes from a file, and is not
// part of the header. A nil Secret is one that cannot be read.
func HeaderValue(secret *corev1.Secret, ref *v1alpha1.SecretKeyReference, to string) (value, why string) {
	if secret == nil {
		return "", fmt.Sprintf(
			"Secret %q of one of its headers does not exist, or the manager has no permission to read it (ClusterRole "+
				"capstan-manager-secrets)",
			ref.Name,
		)
	}
	raw, ok := secret.Data[ref.Key]
	value = line(string(raw))
	switch _, connection := secret.Labels[v1alpha1.LabelConnection]; {
	case connection:
		return "", fmt.Sprintf("Secret %q is the connection of a user: refer to it by connection, not by secretKeyRef",
			ref.Name)
	case !ok:
		return "", fmt.Sprintf("Secret %q has no key %q, which one of its headers requires", ref.Name, ref.Key)
	case !sendable(value):
		return "", fmt.Sprintf("key %q of Secret %q is not a valid header value: it must be 1 to %d printable ASCII "+
			"characters", ref.Key, ref.Name, MaxHeaderBytes)
	default:
		return value, elsewhere(secret, to)
	}
}

// elsewhere returns why a Secret may not be sent to a URL. A request with a Secret is not redirected to another host.
func elsewhere(secret *corev1.Secret, to string) (why string) {
	u, err := url.Parse(to)
	if err != nil {
		return "its url is invalid"
	}
	return BoundElsewhere(secret, u)
}

// Token is the token of a user's connection.
type Token struct {
	// Value of the token.
	Value string
	// Secret that it belongs to, which binds it to hosts.
	Secret *corev1.Secret
}

// Sources have the values of headers that are no fixed ones.
type Sources struct {
	// Secrets are the current ones, by name.
	Secrets map[string]*corev1.Secret
	// Tokens are those of the connections that the request uses, by provider. A header with another connection has the
	// value of its Secret, or is left out.
	Tokens map[string]Token
	// Session are the secrets of the Session for the url of the request, by name. Without a value of its own here, a
	// header with one is left out.
	Session map[string]string
}

// Headers returns the headers of a request to a URL: those with fixed values, and those with values that are secret.
// why is the reason for which they cannot be sent; empty if they can.
func Headers(headers []v1alpha1.HTTPHeader, from Sources, to string) (plain, secret http.Header, why string) {
	plain, secret = http.Header{}, http.Header{}
	for _, header := range headers {
		var value string
		switch token, connected := tokenOf(header, from.Tokens); {
		case connected:
			value, why = tokenValue(header.Connection, token, to)
		case header.OfSession():
			var known bool
			if value, known = from.Session[header.SessionSecret.Name]; !known {
				continue
			}
			value, why = sessionValue(header.SessionSecret, value)
		case header.SecretKeyRef != nil:
			value, why = HeaderValue(from.Secrets[header.SecretKeyRef.Name], header.SecretKeyRef, to)
		case header.Value != nil:
			plain.Set(header.Name, *header.Value)
			continue
		default:
			continue
		}
		if why != "" {
			return nil, nil, why
		}
		secret.Set(header.Name, value)
	}
	return plain, secret, ""
}

// tokenOf returns the token that a header has, and whether there is one.
func tokenOf(header v1alpha1.HTTPHeader, tokens map[string]Token) (Token, bool) {
	if header.Connection == nil {
		return Token{}, false
	}
	token, connected := tokens[header.Connection.Provider]
	return token, connected
}

// tokenValue returns the value of a header with a token, or why the token is not sent to a URL.
func tokenValue(header *v1alpha1.HeaderConnection, token Token, to string) (value, why string) {
	value = token.Value
	if header.Scheme != "" {
		value = header.Scheme + " " + value
	}
	return value, elsewhere(token.Secret, to)
}

// sessionValue returns the value of a header with a secret of the Session, or why it cannot be one.
func sessionValue(header *v1alpha1.HeaderSessionSecret, value string) (sent, why string) {
	if value = line(value); !sendable(value) {
		return "", fmt.Sprintf("the secret %q of the session is not a valid header value: it must be 1 to %d printable "+
			"ASCII characters", header.Name, MaxHeaderBytes)
	}
	if header.Scheme != "" {
		value = header.Scheme + " " + value
	}
	return value, ""
}

// line returns a value without line breaks at its end.
func line(value string) string { return strings.TrimRight(value, "\r\n") }

// sendable reports whether a value can be that of a header.
func sendable(value string) bool {
	return value != "" && len(value) <= MaxHeaderBytes &&
		!strings.ContainsFunc(value, func(c rune) bool { return c < ' ' || c > '~' })
}
