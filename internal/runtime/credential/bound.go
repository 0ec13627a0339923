package credential

import (
	"fmt"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
)

const (
	plainPrefix     = "http://"
	encryptedPrefix = "https://"
)

// BoundElsewhere returns why a Secret is not sent to a URL: it is bound to other hosts, or the request is not encrypted
// and the Secret is not bound to just that. Empty if it may be sent.
func BoundElsewhere(secret *corev1.Secret, to *url.URL) (why string) {
	listed, bound := secret.Annotations[v1alpha1.AnnotationAllowedHosts]
	plain := strings.EqualFold(to.Scheme, "http")
	switch {
	case IsWallet(secret):
		return fmt.Sprintf("Secret %q is a wallet by its annotation %s, and is not sent: use another Secret", secret.Name,
			v1alpha1.AnnotationWalletMaxPerDay)
	case !bound && !plain, bound && isListed(listed, to, plain):
		return ""
	case plain:
		return fmt.Sprintf(
			"Secret %q is sent over plain HTTP only if its annotation %s lists %s%s: add it there, or use HTTPS",
			secret.Name,
			v1alpha1.AnnotationAllowedHosts,
			plainPrefix,
			egress.Place(to),
		)
	default:
		return fmt.Sprintf("Secret %q is bound to hosts by %s, which does not list %s: add it there, or use another Secret",
			secret.Name, v1alpha1.AnnotationAllowedHosts, to.Host)
	}
}

// IsWallet reports whether a Secret is a wallet, which pays and is never sent.
func IsWallet(secret *corev1.Secret) bool {
	_, wallet := secret.Annotations[v1alpha1.AnnotationWalletMaxPerDay]
	return wallet
}

// PaysAt reports whether a Secret is a wallet that may pay at a URL: its list of hosts has that of the URL.
func PaysAt(secret *corev1.Secret, to *url.URL) bool {
	return IsWallet(secret) && Lists(secret.Annotations[v1alpha1.AnnotationAllowedHosts], to)
}

// Lists reports whether a list of hosts, in the form of AnnotationAllowedHosts, has that of a URL.
func Lists(list string, to *url.URL) bool {
	return isListed(list, to, strings.EqualFold(to.Scheme, "http"))
}

// isListed reports whether a list of hosts has that of a URL. Hosts without a scheme are those of HTTPS.
func isListed(list string, to *url.URL, plain bool) bool {
	var hosts []string
	for entry := range strings.SplitSeq(strings.ToLower(list), ",") {
		entry = strings.TrimSpace(entry)
		host, isPlain := strings.CutPrefix(entry, plainPrefix)
		switch {
		case isPlain && plain:
			hosts = append(hosts, host, host+":80")
		case !isPlain && !plain:
			hosts = append(hosts, strings.TrimPrefix(entry, encryptedPrefix))
		}
	}
	return egress.Listed(hosts, to)
}
