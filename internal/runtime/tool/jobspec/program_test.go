package jobspec

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

// Rules: SVC-04.
func TestTheProgramOfACapabilityAloneHasATokenThatEndsSoon(t *testing.T) {
	for _, test := range []struct {
		delivery Delivery
		program  string
	}{
		{DeliveryImageVolume, "/capstan/launcher/ko-app/launcher"},
		{DeliveryInitContainer, "/capstan/launcher/launcher"},
	} {
		t.Run(string(test.delivery), func(t *testing.T) {
			p := testParams()
			p.Launcher.Delivery, p.Capability = test.delivery, "platform"
			p.Tool.Job = &v1alpha1.JobTool{Command: []string{"platform"}, ServiceAccountName: "bot"}
			job := Build(p)
			pod, own := job.Spec.Template.Spec, container(t, job)
			if own.Image != p.Launcher.Image || own.ImagePullPolicy != p.Launcher.PullPolicy ||
				!slices.Equal(own.Command, []string{test.program, "run", "--", test.program, "platform"}) {
				t.Errorf("the container runs %q of %s", own.Command, own.Image)
			}
			if pod.ServiceAccountName != "bot" || *pod.AutomountServiceAccountToken {
				t.Errorf("the pod runs as %q, with a token in all containers: %t", pod.ServiceAccountName,
					*pod.AutomountServiceAccountToken)
			}
			if job.Labels[v1alpha1.LabelCapability] != "platform" ||
				job.Spec.Template.Labels[v1alpha1.LabelCapability] != "platform" {
				t.Errorf("the labels are %v", job.Spec.Template.Labels)
			}
			if environment(t, job)[result.EnvTokenFile] != "/capstan/token/token" ||
				environment(t, job)[result.EnvCAFile] != "/capstan/token/ca.crt" {
				t.Errorf("the environment is %v", environment(t, job))
			}
			mounts := func(c corev1.Container) int {
				n := 0
				for _, mount := range c.VolumeMounts {
					if mount.Name == tokenVolume && mount.ReadOnly {
						n++
					}
				}
				return n
			}
			if mounts(own) != 1 {
				t.Error("the program has no token")
			}
			for _, other := range pod.InitContainers {
				if mounts(other) > 0 {
					t.Errorf("the container %s has the token", other.Name)
				}
			}
			last := pod.Volumes[len(pod.Volumes)-1]
			if last.Projected == nil || len(last.Projected.Sources) != 2 {
				t.Fatalf("the volume is %+v", last)
			}
			if token := last.Projected.Sources[0].ServiceAccountToken; *token.ExpirationSeconds != 600 || token.Audience != "" {
				t.Errorf("the token is %+v", token)
			}
		})
	}
}

// Rules: SVC-04.
func TestATokenIsInNoOtherPod(t *testing.T) {
	p := testParams()
	p.Tool.Job.ServiceAccountName = "weather"
	job := Build(p)
	for _, volume := range job.Spec.Template.Spec.Volumes {
		if volume.Name == tokenVolume {
			t.Errorf("the pod of a Tool has %+v", volume)
		}
	}
	if job.Spec.Template.Labels[v1alpha1.LabelCapability] != "" || environment(t, job)[result.EnvTokenFile] != "" {
		t.Error("the pod of a Tool is one of a capability")
	}
}
