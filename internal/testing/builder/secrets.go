package builder

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/sessionsecret"
)

// SessionSecrets returns the Secret with the secrets of a Session, by name, for these hosts.
func SessionSecrets(
	namespace, session string, uid types.UID, values map[string]string, hosts ...string,
) *corev1.Secret {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: sessionsecret.Name(uid),
			Labels: map[string]string{v1alpha1.LabelSessionSecrets: string(uid)},
			Annotations: map[string]string{
				v1alpha1.AnnotationSecretsSession: session, v1alpha1.AnnotationAllowedHosts: "",
			},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: "Session", Name: session, UID: uid,
			}},
		},
		Data: map[string][]byte{},
	}
	for name, value := range values {
		// Two strings always encode.
		entry, _ := json.Marshal(sessionsecret.Entry{ID: fmt.Sprintf("%08x", len(value)), Hosts: strings.Join(hosts, ",")})
		secret.Annotations[v1alpha1.AnnotationSecretPrefix+name] = string(entry)
		secret.Data[name] = []byte(value)
	}
	return secret
}
