package jobspec

import (
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

func TestASecretIsLeftToTheKubelet(t *testing.T) {
	p := testParams()
	ref := v1alpha1.SecretKeyReference{Name: "weather", Key: "token"}
	p.Tool.Job.Env = []v1alpha1.EnvVar{
		{Name: "TOKEN", SecretKeyRef: &ref},
		{Name: "CAPSTAN_TURN", SecretKeyRef: &ref},
		{Name: "EMPTY"},
	}
	found := 0
	for _, variable := range container(t, Build(p)).Env {
		switch {
		case variable.ValueFrom == nil:
			if variable.Name == "TOKEN" {
				t.Error("the variable does not name the Secret")
			}
		case variable.Name != "TOKEN":
			t.Errorf("the variable %s is taken from elsewhere: %+v", variable.Name, variable.ValueFrom)
		default:
			found++
			if from := variable.ValueFrom.SecretKeyRef; from == nil || from.Name != "weather" || from.Key != "token" ||
				from.Optional != nil ||
				variable.Value != "" {
				t.Errorf("the variable is %+v", variable)
			}
		}
	}
	if found != 1 {
		t.Errorf("the variable is there %d times", found)
	}
}

func TestOnlyAPodOfANamedAccountHasAToken(t *testing.T) {
	p := testParams()
	p.Tool.Job.ServiceAccountName = "weather"
	pod := Build(p).Spec.Template.Spec
	if pod.ServiceAccountName != "weather" || !*pod.AutomountServiceAccountToken {
		t.Errorf("the pod runs as %q, token %t", pod.ServiceAccountName, *pod.AutomountServiceAccountToken)
	}
}

func TestAPodWithoutANamedAccountRunsAsTheOneWithoutPower(t *testing.T) {
	pod := Build(testParams()).Spec.Template.Spec
	if pod.ServiceAccountName != "capstan-tool" || *pod.AutomountServiceAccountToken || len(pod.ImagePullSecrets) > 0 {
		t.Errorf(
			"the pod runs as %q, token %t, pull secrets %v",
			pod.ServiceAccountName,
			*pod.AutomountServiceAccountToken,
			pod.ImagePullSecrets,
		)
	}
	account := ServiceAccount("team-a")
	if account.Name != pod.ServiceAccountName || *account.AutomountServiceAccountToken ||
		len(account.ImagePullSecrets)+len(account.Annotations) > 0 {
		t.Errorf("the account is %+v", account)
	}
}

func TestPullSecretsReachThePod(t *testing.T) {
	p := testParams()
	p.Tool.Job.ImagePullSecrets = []v1alpha1.LocalReference{{Name: "registry"}, {Name: "mirror"}}
	pod := Build(p).Spec.Template.Spec
	if got := pod.ImagePullSecrets; len(got) != 2 || got[0].Name != "registry" || got[1].Name != "mirror" {
		t.Errorf("the images are pulled with %v", got)
	}
	if pod.ServiceAccountName != "capstan-tool" || *pod.AutomountServiceAccountToken {
		t.Errorf("the pod runs as %q, token %t", pod.ServiceAccountName, *pod.AutomountServiceAccountToken)
	}
}
