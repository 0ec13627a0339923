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
	value = strings.TrimRight(string(raw), "\r\n")
	switch _, connection := secret.Labels[v1alpha1.LabelConnection]; {
	case connection:
		return "", fmt.Sprintf("Secret %q is the connection of a user: refer to it by connection, not by secretKeyRef",
			ref.Name)
	case !ok:
		return "", fmt.Sprintf("Secret %q has no key %q, which one of its headers requires", ref.Name, ref.Key)
	case value == "",
		len(value) > MaxHeaderBytes,
		strings.ContainsFunc(value, func(c rune) bool { return c < ' ' || c > '~' }):
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
