package jobspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

const (
	// tokenSeconds is how long a token is valid, which is the least that an API server issues. The kubelet renews it, and
	// it ends with its pod.
	tokenSeconds int64 = 600
	// rootCAs is the ConfigMap of every namespace with the certificates of the API server.
	rootCAs = "kube-root-ca.crt"
)

// runsProgram makes a container run a program that is part of the launcher, in the launcher's image, with a token. The
// token is in this container only: no process but the program, and the launcher that starts it, can read it.
func runsProgram(container *corev1.Container, launcher Launcher) {
	container.Image, container.ImagePullPolicy = launcher.Image, launcher.PullPolicy
	program := launcherCommand(launcher)
	container.Command = append([]string{program, "run", "--", program}, container.Command[3:]...)
	container.VolumeMounts = append(container.VolumeMounts,
		corev1.VolumeMount{Name: tokenVolume, MountPath: tokenMount, ReadOnly: true})
}

// tokenSource is a token of the pod's ServiceAccount for the API server, with the certificates of that.
func tokenSource() corev1.VolumeSource {
	return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
			Path: tokenName, ExpirationSeconds: ptr.To(tokenSeconds),
		}},
		{ConfigMap: &corev1.ConfigMapProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: rootCAs},
			Items:                []corev1.KeyToPath{{Key: caName, Path: caName}},
		}},
	}}}
}
