package tool

import (
	"testing"
)

func TestToolPodsAreIsolatedAsTheOperatorSays(t *testing.T) {
	p := testParams()
	plain := BuildJob(p).Spec.Template.Spec
	if plain.RuntimeClassName != nil || plain.HostUsers != nil {
		t.Errorf("without settings: class %v, host users %v", plain.RuntimeClassName, plain.HostUsers)
	}
	p.Launcher.RuntimeClass, p.Launcher.UserNamespaces = "gvisor", true
	isolated := BuildJob(p).Spec.Template.Spec
	if isolated.RuntimeClassName == nil || *isolated.RuntimeClassName != "gvisor" || isolated.HostUsers == nil || *isolated.HostUsers {
		t.Errorf("class %v, host users %v", isolated.RuntimeClassName, isolated.HostUsers)
	}
}
