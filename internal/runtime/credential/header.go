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
	switch {
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

// Headers returns the headers of a request to a URL: those with fixed values, and those with the values of Secrets,
// which are the current ones by name. why is the reason for which they cannot be sent; empty if they can.
func Headers(
	headers []v1alpha1.HTTPHeader, secrets map[string]*corev1.Secret, to string,
) (plain, secret http.Header, why string) {
	plain, secret = http.Header{}, http.Header{}
	for _, header := range headers {
		ref := header.SecretKeyRef
		if ref == nil {
			if header.Value != nil {
				plain.Set(header.Name, *header.Value)
			}
			continue
		}
		value, why := HeaderValue(secrets[ref.Name], ref, to)
		if why != "" {
			return nil, nil, why
		}
		secret.Set(header.Name, value)
	}
	return plain, secret, ""
}
