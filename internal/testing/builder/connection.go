package builder

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/connection"
)

// Connection returns the connection of a user to a provider, with this data, for these hosts.
func Connection(namespace, provider, user string, data map[string]string, hosts ...string) *corev1.Secret {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: connection.Name(provider, user),
			Labels: map[string]string{v1alpha1.LabelConnection: provider},
			Annotations: map[string]string{
				v1alpha1.AnnotationConnectionOwner: user, v1alpha1.AnnotationAllowedHosts: strings.Join(hosts, ","),
			},
		},
		Data: map[string][]byte{},
	}
	for key, value := range data {
		secret.Data[key] = []byte(value)
	}
	return secret
}
