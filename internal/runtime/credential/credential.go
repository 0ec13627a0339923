// Package credential words the remedy for a Secret that a Model or a Tool refers to and that cannot be read. It reads
// none itself.
package credential

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Reader reads the current version of a Secret. It keeps nothing of it.
type Reader func(ctx context.Context, namespace, name string) (*corev1.Secret, error)

// Use is where a Secret is referred to, in messages with commands.
type Use struct{ field, placeholder string }

// The users of Secrets.
var (
	OfModel = Use{field: "secretKeyRef of the Model", placeholder: "YOUR_API_KEY"}
	OfTool  = Use{field: "secretKeyRef in the headers of the Tool", placeholder: "YOUR_VALUE"}
	// OfWallet is a Secret that a Tool pays from.
	OfWallet = Use{field: "walletRef in the payment of the Tool", placeholder: "YOUR_PRIVATE_KEY"}
	// OfMCPServer is a Secret for a header of the requests to an MCPServer.
	OfMCPServer = Use{field: "secretKeyRef in the headers of the MCPServer", placeholder: "YOUR_VALUE"}
)

// KeyMissing returns a message with the command that adds a key to a Secret.
func KeyMissing(namespace string, ref *v1alpha1.SecretKeyReference, use Use) string {
	return fmt.Sprintf(
		"Secret %q has no key %q. Add it: kubectl patch secret %s --namespace %s --type merge "+
			"--patch '{\"stringData\":{%q:%q}}'",
		ref.Name,
		ref.Key,
		ref.Name,
		namespace,
		ref.Key,
		use.placeholder,
	)
}

// Missing returns how to create a Secret. An invalid name is not part of any command: it could contain anything
// that a shell interprets.
func Missing(namespace string, ref *v1alpha1.SecretKeyReference, use Use) string {
	if len(validation.IsDNS1123Subdomain(ref.Name)) > 0 {
		return fmt.Sprintf("Secret %q does not exist, and its name is invalid: change %s", ref.Name, use.field)
	}
	return fmt.Sprintf(
		"Secret %q does not exist. Create it: kubectl create secret generic %s --namespace %s --from-literal=%s=%s",
		ref.Name,
		ref.Name,
		namespace,
		ref.Key,
		use.placeholder,
	)
}

// secretsRole is the ClusterRole that lets the manager read the Secrets of a namespace where it is bound.
const secretsRole = "capstan-manager-secrets"

// RoleMissing returns how to permit the manager to read Secrets. Account is its user name at the API server; empty for
// that of a standard installation.
func RoleMissing(account, namespace string, ref *v1alpha1.SecretKeyReference) string {
	return MayNotRead(account, namespace, "Secret", ref.Name)
}

// MayNotRead returns how to permit the manager to read an object of a kind that the role is for.
func MayNotRead(account, namespace, kind, name string) string {
	return fmt.Sprintf("The manager has no permission to read %s %q. Grant it: kubectl create rolebinding %s "+
		"--namespace %s --clusterrole=%s %s",
		kind, name, secretsRole, namespace, secretsRole, subject(account))
}

// subject names a user as the options of kubectl create rolebinding do. Empty is the account of a usual install.
func subject(account string) string {
	const serviceAccount = "system:serviceaccount:"
	switch {
	case account == "":
		return "--serviceaccount=capstan-system:capstan-manager"
	case strings.HasPrefix(account, serviceAccount):
		return "--serviceaccount=" + strings.TrimPrefix(account, serviceAccount)
	default:
		return "--user=" + account
	}
}
