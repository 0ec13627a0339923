package definition

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

func TestADigestNeverChanges(t *testing.T) {
	plain := "yes"
	for want, spec := range map[string]*v1alpha1.ToolSpec{
		"c46d4f5290e52cc292b800d6d59a9db201f2c689": {
			SideEffect: v1alpha1.SideEffectPure,
			HTTP: &v1alpha1.HTTPTool{
				URL: "https://api.example.org/v1?a=<b>&c", Headers: []v1alpha1.HTTPHeader{{Name: "X-Plain", Value: &plain}},
			},
		},
		"733884be1bb5d6c978c105c08ebded9f5a9c5c3c": {Client: &v1alpha1.ClientTool{}},
		"0d8ea3afc764c7c1cb44ed9b8c2d1b243c7d0ab8": {},
	} {
		if got := Digest(spec); got != want {
			t.Errorf("the digest of %+v is %s, and was %s", spec, got, want)
		}
	}
	spec := payTool().Spec
	spec.Job.Env = []v1alpha1.EnvVar{{Name: "A", Value: "b"}}
	spec.Job.Timeout = &metav1.Duration{Duration: time.Minute}
	const digest = "a2c544be609989ef6c5c6d0f0aa68ff9e50285b1"
	if got := Digest(&spec); got != digest {
		t.Errorf(
			"the digest of a Tool is %s, and was %s: calls that are planned would end as ToolChanged with an upgrade",
			got,
			digest,
		)
	}
}
