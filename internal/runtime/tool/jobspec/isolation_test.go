package jobspec

import "testing"

func TestToolPodsAreIsolatedAsTheOperatorConfigured(t *testing.T) {
	p := testParams()
	plain := Build(p).Spec.Template.Spec
	if plain.RuntimeClassName != nil || plain.HostUsers != nil || plain.PriorityClassName != "" {
		t.Errorf(
			"without settings: class %v, host users %v, priority %q",
			plain.RuntimeClassName,
			plain.HostUsers,
			plain.PriorityClassName,
		)
	}
	p.Launcher.RuntimeClass, p.Launcher.UserNamespaces, p.Launcher.PriorityClass = "gvisor", true, "agents"
	isolated := Build(p).Spec.Template.Spec
	if isolated.RuntimeClassName == nil || *isolated.RuntimeClassName != "gvisor" || isolated.HostUsers == nil ||
		*isolated.HostUsers {
		t.Errorf("class %v, host users %v", isolated.RuntimeClassName, isolated.HostUsers)
	}
	if isolated.PriorityClassName != "agents" {
		t.Errorf("priority class %q", isolated.PriorityClassName)
	}
}
