package jobspec

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// ServiceAccount is the account that the pods of tools run as whose Tool names no other. The account default of a
// namespace may have rights, pull secrets or an identity in the cloud; this one has none. It has no owner: it must
// outlast every pod that runs as it.
func ServiceAccount(namespace string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{
			Name:      v1alpha1.ToolServiceAccount,
			Namespace: namespace,
			Labels:    map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedByCapstan},
		},
		AutomountServiceAccountToken: ptr.To(false),
	}
}

// accountName is the ServiceAccount that the pod of a tool runs as.
func accountName(job *v1alpha1.JobTool) string {
	if job.ServiceAccountName != "" {
		return job.ServiceAccountName
	}
	return v1alpha1.ToolServiceAccount
}

// pullSecrets returns the Secrets for pulling the images of a pod. If there are none, the API server adds those of the
// account.
func pullSecrets(job *v1alpha1.JobTool) []corev1.LocalObjectReference {
	var secrets []corev1.LocalObjectReference
	for _, secret := range job.ImagePullSecrets {
		secrets = append(secrets, corev1.LocalObjectReference{Name: secret.Name})
	}
	return secrets
}
