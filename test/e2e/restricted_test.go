//go:build e2e

package e2e_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

var _ = Describe("The pod of a tool", func() {
	It(
		"has no other permissions, and a restricted namespace accepts it",
		SpecTimeout(specLimit),
		func(ctx SpecContext) {
			namespace := newStage(ctx,
				builder.Script("{{tool:append}}", calls{call("append", arguments{"path": "/note", "line": "hello"})}),
				toolbox("append", "append", v1alpha1.SideEffectAtMostOnce))
			free := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "free"},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "free", Image: toolboxImage}}},
			}
			Expect(
				apierrors.IsForbidden(api.Create(ctx, free, client.DryRunAll)),
			).To(BeTrue(), "the namespace admits any pod: the spec would prove nothing")

			answer := answered(ctx, namespace, "demo-1")
			Expect(answer.Status.Output).To(ContainSubstring("read-only file system"))
			pods := podsOf(ctx, answer)
			Expect(pods).To(HaveLen(1))
			expectRestricted(&pods[0])
		},
	)
})

// expectRestricted checks everything that keeps a tool in its pod.
func expectRestricted(pod *corev1.Pod) {
	GinkgoHelper()
	spec := pod.Spec
	Expect(spec.ServiceAccountName).To(Equal(v1alpha1.ToolServiceAccount))
	Expect(spec.AutomountServiceAccountToken).To(HaveValue(BeFalse()))
	Expect(spec.HostNetwork || spec.HostPID || spec.HostIPC).To(BeFalse(), "namespaces of the host")
	Expect(spec.EnableServiceLinks).To(HaveValue(BeFalse()))
	Expect(spec.RestartPolicy).To(Equal(corev1.RestartPolicyNever))
	for _, volume := range spec.Volumes {
		Expect(volume.HostPath).To(BeNil(), volume.Name)
		Expect(volume.Secret).To(BeNil(), volume.Name)
		if volume.Projected != nil {
			for _, source := range volume.Projected.Sources {
				Expect(source.ServiceAccountToken).To(BeNil(), volume.Name)
			}
		}
	}
	shared := spec.SecurityContext
	Expect(shared).NotTo(BeNil())
	for _, container := range append(append([]corev1.Container{}, spec.InitContainers...), spec.Containers...) {
		own := container.SecurityContext
		Expect(own).NotTo(BeNil(), container.Name)
		Expect(firstOf(own.RunAsNonRoot, shared.RunAsNonRoot)).To(HaveValue(BeTrue()), container.Name)
		Expect(firstOf(own.RunAsUser, shared.RunAsUser)).NotTo(HaveValue(BeZero()), container.Name)
		Expect(own.ReadOnlyRootFilesystem).To(HaveValue(BeTrue()), container.Name)
		Expect(own.AllowPrivilegeEscalation).To(HaveValue(BeFalse()), container.Name)
		Expect(own.Privileged).To(Or(BeNil(), HaveValue(BeFalse())), container.Name)
		Expect(own.Capabilities).NotTo(BeNil(), container.Name)
		Expect(own.Capabilities.Drop).To(ConsistOf(corev1.Capability("ALL")), container.Name)
		Expect(own.Capabilities.Add).To(BeEmpty(), container.Name)
		seccomp := firstOf(own.SeccompProfile, shared.SeccompProfile)
		Expect(seccomp).NotTo(BeNil(), container.Name)
		Expect(seccomp.Type).To(Equal(corev1.SeccompProfileTypeRuntimeDefault), container.Name)
		Expect(container.Resources.Limits.Memory().IsZero()).To(BeFalse(), container.Name)
		for _, mount := range container.VolumeMounts {
			Expect(mount.MountPath).NotTo(ContainSubstring("serviceaccount"), container.Name)
		}
	}
}

// firstOf is the container's own setting, or the pod's.
func firstOf[T any](own, shared *T) *T {
	if own != nil {
		return own
	}
	return shared
}
